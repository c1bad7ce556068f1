#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Without GoogleTest, or with GoogleTest but without GoogleMock, CMake configures everything except the tests and says
# so. Without Abseil and FlatBuffers it configures everything except their examples. Projects in C and in C++ can add
# this one.
set -euo pipefail
work=$(mktemp -d "${TMPDIR:-/tmp}/ripc-configure.XXXXXX")
trap 'rm -rf "$work"' EXIT

# configured NAME OPTION...
configured() {
  local name=$1
  shift
  cmake -S "$RIPC_SOURCE_DIR" -B "$work/$name" -G Ninja -DRIPC_BUILD_JAVA=OFF "$@" >"$work/log" 2>&1 || {
    cat "$work/log"
    echo "configuring $name failed" >&2
    exit 1
  }
  grep -F "the tests are left out: GoogleTest or GoogleMock not found" "$work/log"
  if [[ $(cmake --build "$work/$name" --target help) != *ripc_cli:* ]]; then
    echo "$name: the command line is not built" >&2
    exit 1
  fi
}

configured no-googletest -DCMAKE_DISABLE_FIND_PACKAGE_GTest=ON -DCMAKE_DISABLE_FIND_PACKAGE_absl=ON \
  -DCMAKE_DISABLE_FIND_PACKAGE_FlatBuffers=ON
grep -F "examples/kv is not built" "$work/log"
grep -F "examples/flatbuffers is not built" "$work/log"
mkdir "$work/package"
echo 'add_library(GTest::gtest INTERFACE IMPORTED)' >"$work/package/GTestConfig.cmake"
configured no-googlemock -DGTest_DIR="$work/package"

# In a project without C++, CMake does not know cxx_std_20. A C++ project gets it from ripc::ripc.
for language in C CXX; do
  mkdir "$work/$language"
  cat >"$work/$language/CMakeLists.txt" <<END
cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES $language)
add_subdirectory("$RIPC_SOURCE_DIR" libripc)
add_library(user OBJECT "$RIPC_SOURCE_DIR/tests/package/consumer.$([[ $language == C ]] && echo c || echo cpp)")
target_link_libraries(user PRIVATE ripc::ripc)
END
  for step in "-S $work/$language -B $work/$language/build -G Ninja" "--build $work/$language/build --target user"; do
    # shellcheck disable=SC2086
    cmake $step >"$work/log" 2>&1 || {
      cat "$work/log"
      echo "a project in $language cannot add this one" >&2
      exit 1
    }
  done
done
