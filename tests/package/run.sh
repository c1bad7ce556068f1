#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the build tree into a temporary folder, moves the installed tree (it must not remember where it was), builds
# the consumers against it in every way that users have, and runs them.
#
#   run.sh CMAKE BUILD_DIR C_COMPILER CXX_COMPILER
set -euo pipefail

if (($# != 4)); then
  echo "usage: $0 CMAKE BUILD_DIR C_COMPILER CXX_COMPILER" >&2
  exit 2
fi
cmake=$1 build=$2 cc=$3 cxx=$4
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/ripc-package.XXXXXX")
trap 'rm -rf "$work"' EXIT
export RIPC_RUNTIME_DIR=$work/runtime
export CCACHE_DISABLE=1
mkdir -m 700 "$RIPC_RUNTIME_DIR"

# Runs a command; shows its output only if it fails.
quietly() {
  if ! "$@" >"$work/log" 2>&1; then
    cat "$work/log"
    echo "failed: $*" >&2
    return 1
  fi
}

echo "-- installing"
quietly "$cmake" --install "$build" --prefix "$work/first"
mv "$work/first" "$work/installed"
prefix=$work/installed
pc=$(find "$prefix" -name ripc.pc)
libdir=$(dirname "$(dirname "$pc")")
test -n "$pc"
test -f "$prefix/include/ripc/ripc.h"
test -f "$prefix/include/ripc/ripc.hpp"
test -f "$libdir/libripc.a"
test -L "$libdir/libripc.so"
# Before 1.0 a minor version may change the interface, so programs ask for the minor version that they were linked with.
soname=libripc.so.$(sed -n 's/^Version: \([0-9]*\.[0-9]*\).*/\1/p' "$pc")
if readelf -d "$libdir/libripc.so" | grep -F SONAME | grep -qF "[$soname]"; then
  echo "-- soname $soname"
else
  echo "libripc.so does not have the soname $soname" >&2
  exit 1
fi

# at_most BYTES FILE
at_most() {
  local size
  size=$(stat --dereference --format %s "$2")
  echo "-- ${2##*/}: $size bytes"
  if ((size > $1)); then
    echo "$2 has $size bytes, more than $1: what has grown, and is it debug information?" >&2
    exit 1
  fi
}
# has_debug FILE: whether it, or a member of it, holds debug information
has_debug() {
  readelf --wide --section-headers "$1" | grep -qF .debug_info
}
# line_of FILE FUNCTION: the source line of the function, as debuggers find it
line_of() {
  addr2line -e "$1" "0x$(nm -D --defined-only "$1" | awk -v name="$2" '$3 == name { print $1 }')"
}

at_most 4000000 "$libdir/libripc.so"
at_most 12000000 "$libdir/libripc.a"
programs=("$libdir/libripc.so")
if [[ -x $prefix/bin/ripc ]]; then
  at_most 3000000 "$prefix/bin/ripc"
  programs+=("$prefix/bin/ripc")
fi
for file in "${programs[@]}" "$libdir/libripc.a"; do
  if has_debug "$file"; then
    echo "$file was installed with debug information" >&2
    exit 1
  fi
done
if has_debug "$build/lib/libripc.so"; then
  echo "-- debug information: in the build tree, and in a component of its own"
  [[ $(line_of "$build/lib/libripc.so" ripc_context_create) == */libripc/src/*.cpp:* ]]
  [[ $(line_of "$libdir/libripc.so" ripc_context_create) == '??:'* ]]
  quietly "$cmake" --install "$build" --prefix "$prefix" --component debug
  [[ $(line_of "$libdir/libripc.so" ripc_context_create) == */libripc/src/*.cpp:* ]]
fi
if grep -F '"Unspecified"' "$build/cmake_install.cmake"; then
  echo "a file that is installed belongs to no Debian package: give its install() a COMPONENT of RipcPackage.cmake" >&2
  exit 1
fi
if grep -rIlF -e "$build" -e "$work" "$prefix/include" "$libdir/cmake" "$pc"; then
  echo "the files above name the build tree or the place of installation" >&2
  exit 1
fi

for language in C CXX; do
  echo "-- find_package, language $language"
  quietly "$cmake" -S "$here" -B "$work/$language" -DCMAKE_BUILD_TYPE=Release -DCONSUMER_LANGUAGE=$language \
    -DCMAKE_PREFIX_PATH="$prefix" -DCMAKE_C_COMPILER="$cc" -DCMAKE_CXX_COMPILER="$cxx"
  quietly "$cmake" --build "$work/$language"
  "$work/$language/consumer_shared"
  "$work/$language/consumer_static"
  if ldd "$work/$language/consumer_static" | grep -F libripc; then
    echo "consumer_static needs the shared library" >&2
    exit 1
  fi
done

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$libdir/pkgconfig
  warnings=(-Wall -Wextra -Wpedantic -Werror)
  # The shell must split what the tools print into words.
  # shellcheck disable=SC2046
  {
    echo "-- pkg-config, version $(pkg-config --modversion ripc)"
    quietly "$cc" -std=c11 "${warnings[@]}" "$here/consumer.c" -o "$work/pc_c" $(pkg-config --cflags --libs ripc)
    quietly "$cxx" -std=c++20 "${warnings[@]}" "$here/consumer.cpp" -o "$work/pc_cpp" \
      $(pkg-config --cflags --libs ripc)
    echo "-- older C++"
    if "$cxx" -std=c++17 -fsyntax-only "$here/consumer.cpp" $(pkg-config --cflags ripc) 2>"$work/log"; then
      echo "ripc.hpp compiles as C++17 by now: say so in ripc/error.hpp" >&2
      exit 1
    fi
    grep -qF "ripc.hpp needs C++20" "$work/log"
    echo '#include "ripc/ripc.h"' >"$work/older.cpp"
    quietly "$cxx" -std=c++11 "${warnings[@]}" -fsyntax-only "$work/older.cpp" $(pkg-config --cflags ripc)
    LD_LIBRARY_PATH=$libdir "$work/pc_c"
    LD_LIBRARY_PATH=$libdir "$work/pc_cpp"
    echo "-- pkg-config --static"
    static_libs=$(pkg-config --libs --static ripc | sed 's/-lripc/-l:libripc.a/')
    quietly "$cc" -std=c11 "${warnings[@]}" "$here/consumer.c" -o "$work/pc_static" $(pkg-config --cflags ripc) \
      $static_libs
    "$work/pc_static"
    at_most 5000000 "$work/pc_static"
    echo "-- with what is not used left out"
    # shellcheck disable=SC2086
    quietly "$cc" -std=c11 "${warnings[@]}" -Wl,--gc-sections -s "$here/consumer.c" -o "$work/pc_small" \
      $(pkg-config --cflags ripc) $static_libs
    "$work/pc_small"
    at_most 4000000 "$work/pc_small"
  }
else
  echo "pkg-config is not installed (scripts/setup installs it)" >&2
  exit 1
fi

if [[ -x $prefix/bin/ripc ]]; then
  echo "-- the installed command line"
  env -u LD_LIBRARY_PATH "$prefix/bin/ripc" --help >"$work/help"
  test -s "$work/help"
fi
echo "package: every consumer was built and ran"
