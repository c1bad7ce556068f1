# SPDX-License-Identifier: Apache-2.0
# Programs: the command line (bin/ripc), the examples (examples/NAME) and the benchmark programs (tests/bench_NAME).
# An example that needs another library is built only where that library is installed.

if(RIPC_BUILD_CLI)
  file(GLOB_RECURSE cli_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/libripc/cli/*.cpp")
  if(cli_sources)
    find_package(CLI11 REQUIRED)
    find_package(nlohmann_json REQUIRED)
    # bin/ripc uses the shared library like any other program, so it measures what users of the library get.
    file(RELATIVE_PATH library_from_bin
      "${CMAKE_INSTALL_FULL_BINDIR}" "${CMAKE_INSTALL_FULL_LIBDIR}")
    add_executable(ripc_cli ${cli_sources})
    ripc_configure_target(ripc_cli)
    ripc_unite(ripc_cli 16)
    target_include_directories(ripc_cli PRIVATE "${PROJECT_SOURCE_DIR}/libripc/cli")
    target_include_directories(ripc_cli SYSTEM PRIVATE "${RIPC_SODIUM_INCLUDE_DIR}")
    target_link_libraries(ripc_cli PRIVATE ripc Threads::Threads CLI11::CLI11 nlohmann_json::nlohmann_json "${RIPC_SODIUM_LIBRARY}")
    target_compile_definitions(ripc_cli PRIVATE RIPC_VERSION_STRING="${PROJECT_VERSION}")
    set_target_properties(ripc_cli PROPERTIES
      OUTPUT_NAME ripc
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
      INSTALL_RPATH "$ORIGIN/${library_from_bin}")
  else()
    message(STATUS "libripc: no sources in libripc/cli: bin/ripc is not built")
  endif()
endif()

if(RIPC_BUILD_EXAMPLES)
  # ripc_add_example(NAME SOURCES...)
  function(ripc_add_example name)
    add_executable(ripc_example_${name} ${ARGN})
    ripc_configure_target(ripc_example_${name})
    target_link_libraries(ripc_example_${name} PRIVATE ripc Threads::Threads)
    set_target_properties(ripc_example_${name} PROPERTIES
      OUTPUT_NAME "${name}"
      RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  endfunction()

  file(GLOB example_sources CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/examples/*.c" "${PROJECT_SOURCE_DIR}/examples/*.cpp")
  set(example_names "")
  foreach(source IN LISTS example_sources)
    cmake_path(GET source STEM name)
    cmake_path(GET source EXTENSION extension)
    # The same example may exist in both languages.
    if(name IN_LIST example_names)
      string(REPLACE "." "_" extension "${extension}")
      string(APPEND name "${extension}")
    endif()
    list(APPEND example_names "${name}")
    ripc_add_example(${name} "${source}")
  endforeach()

  # Typed calls with FlatBuffers.
  find_package(FlatBuffers QUIET)
  find_program(RIPC_FLATC flatc)
  if(FlatBuffers_FOUND AND RIPC_FLATC)
    set(schema "${PROJECT_SOURCE_DIR}/examples/flatbuffers/weather.fbs")
    set(generated "${PROJECT_BINARY_DIR}/examples/generated")
    # Generated at configure time, because scripts/lint checks a tree that is configured but not built.
    execute_process(COMMAND "${RIPC_FLATC}" --cpp -o "${generated}" "${schema}" COMMAND_ERROR_IS_FATAL ANY)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${schema}")
    ripc_add_example(calls_flatbuffers "${PROJECT_SOURCE_DIR}/examples/flatbuffers/calls_flatbuffers.cpp")
    target_include_directories(ripc_example_calls_flatbuffers SYSTEM PRIVATE "${generated}")
  else()
    message(STATUS "libripc: examples/flatbuffers is not built: FlatBuffers not found "
      "(scripts/setup test installs libflatbuffers-dev and flatbuffers-compiler)")
  endif()

  # Key-value service and transactions.
  find_package(absl QUIET)
  find_package(CLI11 QUIET)
  find_package(nlohmann_json QUIET)
  if(absl_FOUND AND CLI11_FOUND AND nlohmann_json_FOUND)
    foreach(name kv transactions)
      ripc_add_example(${name} "${PROJECT_SOURCE_DIR}/examples/kv/${name}.cpp")
      target_link_libraries(ripc_example_${name} PRIVATE absl::flat_hash_map absl::node_hash_map CLI11::CLI11
        nlohmann_json::nlohmann_json)
    endforeach()
  else()
    message(STATUS "libripc: examples/kv is not built: Abseil not found (scripts/setup test installs libabsl-dev)")
  endif()
endif()

if(RIPC_BUILD_BENCH)
  find_package(PkgConfig)
  # A benchmark against another library is built only where that library is installed; otherwise `missing` names it.
  function(ripc_bench_needs source header module to_libraries to_missing)
    file(STRINGS "${source}" uses REGEX "^#include <${header}")
    if(NOT uses)
      return()
    endif()
    if(PkgConfig_FOUND)
      pkg_check_modules(RIPC_NEEDS_${module} QUIET IMPORTED_TARGET ${module})
    endif()
    if(RIPC_NEEDS_${module}_FOUND)
      set(${to_libraries} ${${to_libraries}} PkgConfig::RIPC_NEEDS_${module} PARENT_SCOPE)
    else()
      set(${to_missing} ${module} PARENT_SCOPE)
    endif()
  endfunction()

  file(GLOB bench_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/bench/*.cpp")
  ripc_drop_rdma(bench_sources)
  foreach(source IN LISTS bench_sources)
    cmake_path(GET source STEM name)
    if(NOT name MATCHES "^bench_")
      set(name "bench_${name}")
    endif()
    set(libraries ripc_internal)
    set(missing)
    ripc_bench_needs("${source}" "zmq" libzmq libraries missing)
    ripc_bench_needs("${source}" "benchmark/" benchmark libraries missing)
    if(missing)
      message(STATUS "libripc: ${name} is not built: ${missing} not found (scripts/setup bench installs it)")
      continue()
    endif()
    add_executable(${name} "${source}")
    ripc_configure_target(${name})
    target_link_libraries(${name} PRIVATE ${libraries})
    target_include_directories(${name} PRIVATE "${PROJECT_SOURCE_DIR}/tests")  # for support/
    target_compile_definitions(${name} PRIVATE RIPC_TEST_PROGRAM_DIR="${PROJECT_BINARY_DIR}/tests")
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  endforeach()
endif()
