#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs every example as two processes and checks what they print.
#
#   examples/run.sh [DIRECTORY]    where the built examples are: build/release/examples by default
#
# Exit status: 0 if all did what they should, 1 if not, 2 if they are not built.
set -u

source_directory=$(cd "$(dirname "$0")" && pwd)
programs=${1:-$source_directory/../build/release/examples}
[ -x "$programs/echo" ] || programs=$programs/../examples
if [ ! -x "$programs/echo" ]; then
  echo "examples/run.sh: no examples in ${1:-$programs}: build them first, or name the directory" >&2
  exit 2
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/ripc-examples-XXXXXX")
server=
stop_server() {
  if [ -n "$server" ]; then
    kill "$server" 2>/dev/null
    wait "$server" 2>/dev/null
  fi
  server=
}
trap 'stop_server; rm -rf "$work"' EXIT
export RIPC_RUNTIME_DIR=$work/run
failures=0

fail() {
  echo "FAILED  $1: $2"
  failures=$((failures + 1))
}

# start_server PROGRAM ARGUMENTS...: in the background; returns when it has said that it is ready.
start_server() {
  : >"$work/server"
  timeout 60 "$programs/$1" server "${@:2}" >"$work/server" 2>&1 &
  server=$!
  for _ in $(seq 1000); do
    [ -s "$work/server" ] && return 0
    kill -0 "$server" 2>/dev/null || break
    sleep 0.01
  done
  return 1
}

# run_client PROGRAM ARGUMENTS...
run_client() {
  timeout 60 "$programs/$1" client "${@:2}" >>"$work/client" 2>&1
}

# expect NAME FILE LINE...: the file has exactly these lines.
expect() {
  printf '%s\n' "${@:3}" >"$work/expected"
  if ! diff "$work/expected" "$2" >"$work/difference"; then
    fail "$1" "unexpected output (< expected, > printed)"
    cat "$work/difference"
    return 1
  fi
}

# finish NAME SERVER_LINES -- CLIENT_LINES: the server must end well by itself, both must have printed these lines.
finish() {
  local name=$1 before=$failures
  local -a server_lines=()
  shift
  while [ "$1" != -- ]; do
    server_lines+=("$1")
    shift
  done
  shift
  wait "$server"
  local status=$?
  server=
  [ "$status" -eq 0 ] || fail "$name" "the server ended with status $status"
  expect "$name server" "$work/server" "${server_lines[@]}"
  expect "$name client" "$work/client" "$@"
  [ "$failures" -ne "$before" ] || echo "ok      $name"
}

# try PROGRAM SERVER_ARGUMENTS...: starts a test.
try() {
  : >"$work/client"
  if ! start_server "$@"; then
    fail "$1" "the server did not start"
    cat "$work/server"
    stop_server
    return 1
  fi
}

if try echo; then
  run_client echo one "two words" "" bye || fail echo "the client failed"
  finish echo "echo: serving" "echo: sent back 4 words" -- \
    "echo: one -> one" "echo: two words -> two words" "echo:  -> " "echo: bye -> bye"
fi

mkdir "$work/files"
echo "a small file" >"$work/files/small"
head -c 3000000 /dev/urandom >"$work/files/large"
: >"$work/files/empty"
if try file_service "$work/files"; then
  for name in small large empty; do
    run_client file_service "$name" "$work/$name.copy" || fail file_service "fetching $name failed"
    cmp "$work/files/$name" "$work/$name.copy" || fail file_service "$name came back different"
  done
  run_client file_service missing "$work/missing.copy" && fail file_service "a file that is not there was fetched"
  run_client file_service ../client "$work/outside.copy" && fail file_service "a file outside was fetched"
  run_client file_service . "$work/nothing" || fail file_service "the server did not say goodbye"
  finish file_service "file_service: serving" -- \
    "file_service: small: 13 bytes, in the message" \
    "file_service: large: 3000000 bytes, lent" \
    "file_service: empty: 0 bytes, in the message" \
    "file_service: missing: no such file" \
    "file_service: ../client: no such file" \
    "file_service: the server has ended"
fi

if try bulk_window; then
  run_client bulk_window || fail bulk_window "the client failed"
  finish bulk_window "bulk_window: waiting for a table" "bulk_window: 4 rows arrived, sum 10000000" -- \
    "bulk_window: 32000000 bytes taken"
fi

if try return_buffer; then
  run_client return_buffer || fail return_buffer "the client failed"
  finish return_buffer "return_buffer: serving" -- \
    "return_buffer: 800000 bytes in the return buffer, the last square is 9999800001" \
    "return_buffer: 800000 bytes in the window, the last square is 9999800001"
fi

if try calls; then
  run_client calls cake rolls nothing || fail calls "the client failed"
  sort -o "$work/client" "$work/client"  # they end in any order
  finish calls "calls: serving" "calls: 3 requests" -- \
    "calls: cake: 1 x 4" "calls: nothing: 1 x 7" "calls: rolls: 12 x 5"
fi

# Built where FlatBuffers is installed.
if [ -x "$programs/calls_flatbuffers" ] && try calls_flatbuffers; then
  run_client calls_flatbuffers Ny Inari nowhere || fail calls_flatbuffers "the client failed"
  finish calls_flatbuffers "calls_flatbuffers: serving" -- \
    "calls_flatbuffers: Ny: -2 to 3 -1 to 4 0 to 5" "calls_flatbuffers: Inari: -5 to 3 -4 to 4 -3 to 5" \
    "calls_flatbuffers: nowhere: -7 to 3 -6 to 4 -5 to 5"
fi

# Built where Abseil is installed. What the client prints is figures, but for these.
if [ -x "$programs/kv" ] && try kv --keys 5000 --threads 2; then
  for window in 1 16; do
    run_client kv --keys 5000 --threads 2 --gets 0.5 --window "$window" --operations 20000 || fail kv "the client failed"
  done
  kill -TERM "$server"
  sed -i 's/.*\("wrong":[0-9]*,"failed":[0-9]*\).*/\1/' "$work/client"
  finish kv "kv: serving" "kv: 5000 keys" -- '"wrong":0,"failed":0' '"wrong":0,"failed":0'
fi

if try notification; then
  run_client notification || fail notification "the client failed"
  finish notification "notification: serving" -- \
    "notification: step 1 of 4" "notification: step 2 of 4" "notification: step 3 of 4" "notification: step 4 of 4" \
    "notification: the server says: done"
fi

if try chat; then
  timeout 60 "$programs/chat" client hello "two words" bye >"$work/client" 2>/dev/null || fail chat "the client failed"
  finish chat "chat: listening" "chat: hello" "chat: two words" "chat: bye" -- \
    "chat: hello (I said so)" "chat: two words (I said so)" "chat: bye (I said so)" "chat: 2 of 2 members were told"
fi

# has_said FILE LINE: waits until the line is in the file.
has_said() {
  for _ in $(seq 2000); do
    grep -qx "$2" "$1" && return 0
    sleep 0.01
  done
  return 1
}

if try moving_service; then
  first=$server
  timeout 60 "$programs/moving_service" client 2 >"$work/client" 2>/dev/null &
  client=$!
  has_said "$work/client" "moving_service: answer of server 1" || fail moving_service "the first server does not answer"
  mv "$work/server" "$work/first"
  start_server moving_service || fail moving_service "the second server did not start"
  wait "$first" || fail moving_service "the first server failed"
  expect "moving_service: first server" "$work/first" \
    "moving_service: serving" "moving_service: another server has the ID now"
  wait "$client" || fail moving_service "the client failed"
  finish moving_service "moving_service: serving" "moving_service: goodbye" -- \
    "moving_service: answer of server 1" "moving_service: answer of server 2"
fi

if try greeter; then
  run_client greeter Ada || fail greeter "the client failed"
  kill "$server"
  finish greeter "greeter: serving" -- "greeter: Hello, Ada"
fi

if try hello; then
  run_client hello || fail hello "the client failed"
  finish hello "hello: serving" -- "hello: Hello, world"
fi

if [ "$failures" -ne 0 ]; then
  echo "examples: $failures failures"
  exit 1
fi
echo "examples: all passed"
