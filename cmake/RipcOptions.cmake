# SPDX-License-Identifier: Apache-2.0
# Options, and the flags that every target of this project is compiled with.

option(RIPC_BUILD_CLI "Build the command line, bin/ripc" ${PROJECT_IS_TOP_LEVEL})
option(RIPC_BUILD_EXAMPLES "Build the programs in examples/" ${PROJECT_IS_TOP_LEVEL})
option(RIPC_BUILD_TESTS "Build the tests and register them with CTest" ${PROJECT_IS_TOP_LEVEL})
option(RIPC_BUILD_BENCH "Build the programs in tests/bench/" ${PROJECT_IS_TOP_LEVEL})
option(RIPC_INSTALL "Define what cmake --install installs" ${PROJECT_IS_TOP_LEVEL})
option(RIPC_WERROR "Treat warnings in our own code as errors" ${PROJECT_IS_TOP_LEVEL})
option(RIPC_VERBS "Build the RDMA transport, where the headers of libibverbs and librdmacm are installed" ON)
option(RIPC_LIBFUZZER "Link the fuzzers with clang's libFuzzer instead of the standalone driver" OFF)
set(RIPC_SANITIZE "" CACHE STRING "Sanitizers for everything that is built: a list such as address;undefined")

include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
# The build tree can be moved, copied into a container or read by another user.
set(CMAKE_BUILD_RPATH_USE_ORIGIN ON)

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Debug, RelWithDebInfo, Release or MinSizeRel" FORCE)
endif()

if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(RIPC_CCACHE ccache)
  mark_as_advanced(RIPC_CCACHE)
  if(RIPC_CCACHE)
    set(CMAKE_C_COMPILER_LAUNCHER "${RIPC_CCACHE}")
    set(CMAKE_CXX_COMPILER_LAUNCHER "${RIPC_CCACHE}")
  endif()
endif()

find_package(Threads REQUIRED)

set(RIPC_COMMON_WARNINGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion)
set(RIPC_CXX_WARNINGS -Wnon-virtual-dtor)
if(RIPC_WERROR)
  list(APPEND RIPC_COMMON_WARNINGS -Werror)
endif()

set(RIPC_SANITIZE_OPTIONS "")
if(RIPC_LIBFUZZER)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "RIPC_LIBFUZZER needs clang: set CC=clang and CXX=clang++, or use the preset fuzz")
  endif()
  list(APPEND RIPC_SANITIZE_OPTIONS -fsanitize=fuzzer-no-link)
endif()
if(RIPC_SANITIZE)
  list(JOIN RIPC_SANITIZE "," sanitizers)
  list(APPEND RIPC_SANITIZE_OPTIONS -fsanitize=${sanitizers} -fno-sanitize-recover=all -fno-omit-frame-pointer -O1 -g1)
  # The sanitizer's check of virtual tables opens a pipe to see whether memory can be read. When a test uses up all
  # descriptors, the check takes every object for broken.
  if("undefined" IN_LIST RIPC_SANITIZE)
    list(APPEND RIPC_SANITIZE_OPTIONS -fno-sanitize=vptr)
  endif()
  # GCC warns that ThreadSanitizer does not model fences; the code that uses them says so itself.
  if("thread" IN_LIST RIPC_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND RIPC_SANITIZE_OPTIONS -Wno-tsan)
  endif()
endif()

# Flags for our own code; none of them reach the users of the library.
function(ripc_configure_target target)
  target_compile_options(${target} PRIVATE
    ${RIPC_COMMON_WARNINGS}
    $<$<COMPILE_LANGUAGE:CXX>:${RIPC_CXX_WARNINGS}>
    ${RIPC_SANITIZE_OPTIONS}
    $<$<CONFIG:Debug>:-D_GLIBCXX_ASSERTIONS>)
  target_link_options(${target} PRIVATE ${RIPC_SANITIZE_OPTIONS})
endfunction()
