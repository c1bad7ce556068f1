# SPDX-License-Identifier: Apache-2.0
# The tests. Every program lands in <build>/tests. A folder under tests/ becomes
#   unit           *.cpp together: ripc_unit_tests; may include internal headers
#   conformance    *.cpp together: ripc_conformance_tests; sees the public headers and libripc.so only
#   fault          each *_test.cpp a program of its own; may include internal headers
#   fuzz           each *_fuzz.cpp a fuzzer, driven by standalone_main.cpp (or by libFuzzer: RIPC_LIBFUZZER), with the
#                  seeds of corpus/NAME; other *.cpp are tools
#   layers         the include arrows, and their picture in docs; each header alone; loops over what a temporary points to
#   package        users of an installed tree; the exported symbols
#   support        headers for all of them, over the public C header
#   java           Maven's tests (RipcJava.cmake)
#   rdma-lab       the suite of conformance in guests with RDMA devices, and the tests of the lab; with "scripts"
#   hadoop-lab     jobs on a Hadoop cluster of this machine; with "java"
#   any folder     *_test.sh and *_test.py are run as they are; exit code 77 means skipped
# and examples/run.sh runs the examples. RIPC_TEST_FOLDERS picks folders; "scripts" in it stands for the last three lines.
# In unit, conformance and fault a file *_main.cpp is a helper program of its own, named like the file; in fault, files
# with neither ending are linked into all programs of the folder.
#
# A test's label is its folder: ctest --preset release -L fault

# GoogleTest may be installed without GoogleMock, which is a separate package.
find_package(GTest QUIET)
if(NOT TARGET GTest::gtest OR NOT TARGET GTest::gmock_main)
  message(STATUS "libripc: the tests are left out: GoogleTest or GoogleMock not found "
    "(scripts/setup test installs libgtest-dev and libgmock-dev)")
  return()
endif()
find_package(Python3 COMPONENTS Interpreter)

set(RIPC_TEST_FOLDERS "unit;conformance;fault;zookeeper;fuzz;layers;package;java;scripts" CACHE STRING "Which kinds of tests to build")
set(RIPC_TEST_PROGRAM_DIR "${PROJECT_BINARY_DIR}/tests")
file(MAKE_DIRECTORY "${RIPC_TEST_PROGRAM_DIR}")
# The cluster key of the tests: tests/support/cluster_key.hpp.
if(NOT EXISTS "${RIPC_TEST_PROGRAM_DIR}/cluster.key")
  string(RANDOM LENGTH 64 ALPHABET "0123456789abcdef" cluster_key)
  file(TOUCH "${RIPC_TEST_PROGRAM_DIR}/cluster.key")
  file(CHMOD "${RIPC_TEST_PROGRAM_DIR}/cluster.key" PERMISSIONS OWNER_READ OWNER_WRITE)
  file(WRITE "${RIPC_TEST_PROGRAM_DIR}/cluster.key" "${cluster_key}\n")
endif()

# Sanitizers make programs several times slower.
set(RIPC_TIMEOUT_FACTOR 1)
if(RIPC_SANITIZE)
  set(RIPC_TIMEOUT_FACTOR 3)
endif()

# The settings that a user's shell may have. None of them may change what is tested.
set(RIPC_USER_SETTINGS RIPC_RUNTIME_DIR RIPC_TRANSPORTS RIPC_RESOLVER_FILE RIPC_SPIN_US RIPC_PEERS RIPC_SOCKET_PORTS
  RIPC_SOCKET_ADDRESS RIPC_SOCKET_INTERFACE RIPC_SOCKET_RECEIVE_BUFFER RIPC_SOCKET_STREAMS RIPC_RAILS
  RIPC_SOCKET_BULK_CONNECTIONS RIPC_VERBS_CONNECTIONS RIPC_PEER_TIMEOUT_MS RIPC_CLUSTER_KEY_FILE RIPC_GROUP_REFRESH_MS
  RIPC_VERBS_GROUPS RIPC_RESOLVERS RIPC_ZOOKEEPER RIPC_ZOOKEEPER_SESSION_MS RIPC_IDENTITY_FILE RIPC_TRUST_FILE
  RIPC_ENCRYPT)
list(TRANSFORM RIPC_USER_SETTINGS APPEND "=unset:")

# ripc_add_test(NAME LABEL SECONDS COMMAND...)
function(ripc_add_test name label seconds)
  math(EXPR timeout "${seconds} * ${RIPC_TIMEOUT_FACTOR}")
  add_test(NAME ${name} COMMAND ${ARGN})
  # The environment tells tests where to find things, and hides the user's cluster key. No test sends to the network
  # (tests of the multicast resolver choose the loopback interface).
  set_tests_properties(${name} PROPERTIES
    LABELS "${label}"
    TIMEOUT ${timeout}
    SKIP_RETURN_CODE 77
    ENVIRONMENT
      "RIPC_TEST_PROGRAM_DIR=${RIPC_TEST_PROGRAM_DIR};RIPC_BUILD_DIR=${PROJECT_BINARY_DIR};RIPC_SOURCE_DIR=${PROJECT_SOURCE_DIR};RIPC_MULTICAST=off;RIPC_NETWORK=key;XDG_CONFIG_HOME=${RIPC_TEST_PROGRAM_DIR}/no-config"
    ENVIRONMENT_MODIFICATION "${RIPC_USER_SETTINGS}")
endfunction()

# GoogleTest's templates take long to optimise, and only the library under test must be fast.
set(RIPC_TEST_FLAGS "$<IF:$<BOOL:${RIPC_SANITIZE}>,-O0,-O1>" -g1)

# The precompiled header of all test programs.
if(RIPC_UNITY)
  file(CONFIGURE OUTPUT "${PROJECT_BINARY_DIR}/cmake/test_headers.cpp" CONTENT "")
  add_library(ripc_test_headers OBJECT "${PROJECT_BINARY_DIR}/cmake/test_headers.cpp")
  ripc_configure_target(ripc_test_headers)
  # Programs are compiled as PIE, and the compiler only uses a precompiled header that was compiled with the same flags.
  set_target_properties(ripc_test_headers PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(ripc_test_headers PRIVATE ${RIPC_TEST_FLAGS} -fPIE)
  target_link_libraries(ripc_test_headers PRIVATE GTest::gmock Threads::Threads)
  target_precompile_headers(ripc_test_headers PRIVATE
    <algorithm> <array> <atomic> <chrono> <cstring> <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional>
    <random> <set> <span> <string> <thread> <unordered_map> <vector> <gtest/gtest.h> <gmock/gmock.h>)
endif()

# ripc_add_test_program(TARGET OUTPUT_NAME SOURCES...)
function(ripc_add_test_program target output_name)
  add_executable(${target} ${ARGN})
  ripc_configure_target(${target})
  ripc_unite(${target} 16)
  target_compile_options(${target} PRIVATE ${RIPC_TEST_FLAGS})
  if(RIPC_UNITY)
    target_precompile_headers(${target} REUSE_FROM ripc_test_headers)
    # The compiler uses the precompiled header only with the same macros, and not every program links GoogleTest.
    target_compile_definitions(${target} PRIVATE "$<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_DEFINITIONS>")
    target_compile_options(${target} PRIVATE "$<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>")
  endif()
  target_include_directories(${target} PRIVATE "${PROJECT_SOURCE_DIR}/tests")  # for support/
  # Tells tests where to find other programs; scripts get this from the environment variables of the same names.
  target_compile_definitions(${target} PRIVATE
    RIPC_TEST_PROGRAM_DIR="${RIPC_TEST_PROGRAM_DIR}"
    RIPC_BUILD_DIR="${PROJECT_BINARY_DIR}"
    RIPC_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME "${output_name}"
    RUNTIME_OUTPUT_DIRECTORY "${RIPC_TEST_PROGRAM_DIR}")
endfunction()

# Takes the files *_main.cpp out of the list and makes each a helper program.
function(ripc_add_helpers folder sources_variable library)
  set(sources ${${sources_variable}})
  set(helpers ${sources})
  list(FILTER helpers INCLUDE REGEX "_main\\.cpp$")
  list(FILTER sources EXCLUDE REGEX "_main\\.cpp$")
  foreach(helper IN LISTS helpers)
    cmake_path(GET helper STEM name)
    ripc_add_test_program(ripc_${folder}_${name} ${name} "${helper}")
    target_link_libraries(ripc_${folder}_${name} PRIVATE ${library} Threads::Threads)
  endforeach()
  set(${sources_variable} ${sources} PARENT_SCOPE)
endfunction()

# ---- unit ------------------------------------------------------------------------------------------------------

function(ripc_tests_unit)
  file(GLOB_RECURSE unit_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/unit/*.cpp")
  ripc_drop_rdma(unit_sources)
  ripc_add_helpers(unit unit_sources ripc_internal)
  if(unit_sources)
    ripc_add_test_program(ripc_unit_tests ripc_unit_tests ${unit_sources})
    target_link_libraries(ripc_unit_tests PRIVATE ripc_internal GTest::gmock_main)
    ripc_add_test(unit unit 300 ripc_unit_tests)
  endif()
endfunction()

# ---- conformance -----------------------------------------------------------------------------------------------

function(ripc_tests_conformance)
  # The suite runs once for each transport.
  set(RIPC_CONFORMANCE_TRANSPORTS shm socket)
  # On a machine without an RDMA device this run is skipped and says so.
  if(RIPC_WITH_VERBS)
    list(APPEND RIPC_CONFORMANCE_TRANSPORTS verbs)
  endif()
  file(GLOB_RECURSE conformance_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/conformance/*.cpp")
  ripc_add_helpers(conformance conformance_sources ripc)
  if(conformance_sources)
    ripc_add_test_program(ripc_conformance_tests ripc_conformance_tests ${conformance_sources})
    target_link_libraries(ripc_conformance_tests PRIVATE ripc GTest::gmock_main)
    foreach(transport IN LISTS RIPC_CONFORMANCE_TRANSPORTS)
      ripc_add_test(conformance.${transport} conformance 600 ripc_conformance_tests)
      set_property(TEST conformance.${transport} APPEND PROPERTY ENVIRONMENT "RIPC_TEST_TRANSPORTS=${transport}")
    endforeach()
    # Loopback takes 64 KiB in one datagram, which no other network does.
    ripc_add_test(conformance.socket_ethernet conformance 600 env RIPC_ENCRYPT=off
      "${PROJECT_SOURCE_DIR}/tests/conformance/ethernet-mtu" "$<TARGET_FILE:ripc_conformance_tests>")
    # The other runs encrypt messages; this one only authenticates them.
    set_property(TEST conformance.socket_ethernet APPEND PROPERTY ENVIRONMENT "RIPC_TEST_TRANSPORTS=socket")
    # With the peers on another host, long items take all rails.
    ripc_add_test(conformance.socket_two_rails conformance 600
      "${PROJECT_SOURCE_DIR}/tests/conformance/two-rails" "$<TARGET_FILE:ripc_conformance_tests>")
    set_property(TEST conformance.socket_two_rails APPEND PROPERTY ENVIRONMENT "RIPC_TEST_TRANSPORTS=socket")
  endif()
endfunction()

# ---- fault -----------------------------------------------------------------------------------------------------

function(ripc_tests_fault)
  file(GLOB fault_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fault/*.cpp")
  set(fault_tests ${fault_sources})
  list(FILTER fault_tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER fault_sources EXCLUDE REGEX "_test\\.cpp$")
  set(fault_shared ${fault_sources})
  list(FILTER fault_shared EXCLUDE REGEX "_main\\.cpp$")
  set(fault_library ripc_internal)
  if(fault_shared)
    add_library(ripc_fault_shared OBJECT ${fault_shared})
    ripc_configure_target(ripc_fault_shared)
    target_include_directories(ripc_fault_shared PRIVATE "${PROJECT_SOURCE_DIR}/tests")
    target_compile_definitions(ripc_fault_shared PRIVATE RIPC_TEST_PROGRAM_DIR="${RIPC_TEST_PROGRAM_DIR}")
    target_link_libraries(ripc_fault_shared PRIVATE ripc_internal GTest::gmock)
    list(APPEND fault_library ripc_fault_shared GTest::gmock)
  endif()
  ripc_add_helpers(fault fault_sources "${fault_library}")
  foreach(source IN LISTS fault_tests)
    cmake_path(GET source STEM name)
    string(REGEX REPLACE "_test$" "" short_name "${name}")
    ripc_add_test_program(ripc_fault_${name} ${name} "${source}")
    target_link_libraries(ripc_fault_${name} PRIVATE ${fault_library} GTest::gmock_main)
    ripc_add_test(fault.${short_name} fault 600 ripc_fault_${name})
  endforeach()
  # fault.rails has ten seconds of cables that come and go. Left out of scripts/test --quick: a minute in each of three tests.
  if(TARGET ripc_fault_rails_test)
    ripc_add_test(fault.rails_minute fault 600 ripc_fault_rails_test "--gtest_filter=*Flapping*")
    set_property(TEST fault.rails_minute APPEND PROPERTY ENVIRONMENT RIPC_FAULT_FLAPPING=60)
    set_property(TEST fault.rails_minute APPEND PROPERTY LABELS whole)
  endif()
endfunction()

# ---- zookeeper -------------------------------------------------------------------------------------------------

# Each program starts its own servers, three Java processes, so two programs must not run at once.
function(ripc_tests_zookeeper)
  file(GLOB zookeeper_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/zookeeper/*.cpp")
  set(zookeeper_tests ${zookeeper_sources})
  list(FILTER zookeeper_tests INCLUDE REGEX "_test\\.cpp$")
  list(FILTER zookeeper_sources EXCLUDE REGEX "_test\\.cpp$")
  foreach(source IN LISTS zookeeper_tests)
    cmake_path(GET source STEM name)
    string(REGEX REPLACE "_test$" "" short_name "${name}")
    ripc_add_test_program(ripc_zookeeper_${name} zookeeper_${name} "${source};${zookeeper_sources}")
    target_link_libraries(ripc_zookeeper_${name} PRIVATE ripc_internal GTest::gmock_main)
    ripc_add_test(zookeeper.${short_name} zookeeper 300 ripc_zookeeper_${name})
    set_tests_properties(zookeeper.${short_name} PROPERTIES RESOURCE_LOCK zookeeper COST 50)
  endforeach()
endfunction()

# ---- fuzz ------------------------------------------------------------------------------------------------------

function(ripc_tests_fuzz)
  set(RIPC_FUZZ_RUNS 500000 CACHE STRING "Inputs that a fuzzer makes up in the test suite, after its corpus")
  file(GLOB fuzz_sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*_fuzz.cpp")
  ripc_drop_rdma(fuzz_sources)
  set(fuzz_main "${PROJECT_SOURCE_DIR}/tests/fuzz/standalone_main.cpp")
  # The only decoder under test that is not part of the library.
  add_library(ripc_file_protocol OBJECT "${PROJECT_SOURCE_DIR}/libripc/cli/file/file_protocol.cpp")
  ripc_configure_target(ripc_file_protocol)
  target_include_directories(ripc_file_protocol PUBLIC "${PROJECT_SOURCE_DIR}/libripc/cli")
  target_link_libraries(ripc_file_protocol PRIVATE ripc_internal)
  add_custom_target(ripc_fuzzers)
  if(fuzz_sources AND NOT RIPC_LIBFUZZER AND NOT EXISTS "${fuzz_main}")
    message(STATUS "libripc: no tests/fuzz/standalone_main.cpp: the fuzzers are not built")
    set(fuzz_sources "")
  endif()
  if(fuzz_sources AND NOT RIPC_LIBFUZZER)
    add_library(ripc_fuzz_main OBJECT "${fuzz_main}")
    ripc_configure_target(ripc_fuzz_main)
  endif()
  # Everything else in the folder is a tool for working on the corpus.
  file(GLOB fuzz_tools CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/fuzz/*.cpp")
  list(FILTER fuzz_tools EXCLUDE REGEX "(_fuzz|/standalone_main)\\.cpp$")
  foreach(source IN LISTS fuzz_tools)
    cmake_path(GET source STEM name)
    ripc_add_test_program(ripc_fuzz_${name} ${name} "${source}")
    target_link_libraries(ripc_fuzz_${name} PRIVATE ripc_internal ripc_file_protocol)
  endforeach()
  foreach(source IN LISTS fuzz_sources)
    cmake_path(GET source STEM name)
    string(REGEX REPLACE "_fuzz$" "" short_name "${name}")
    set(target ripc_fuzz_${name})
    ripc_add_test_program(${target} ${name} "${source}")
    target_link_libraries(${target} PRIVATE ripc_internal)
    if(RIPC_LIBFUZZER)
      target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    else()
      target_link_libraries(${target} PRIVATE ripc_fuzz_main)
    endif()
    if(short_name STREQUAL "file_protocol")
      target_link_libraries(${target} PRIVATE ripc_file_protocol)
    endif()
    add_dependencies(ripc_fuzzers ${target})
    # libFuzzer writes its findings, and the input of a crash, to the working folder, not to the source tree.
    set(work "${RIPC_TEST_PROGRAM_DIR}/${name}.work")
    file(MAKE_DIRECTORY "${work}")
    ripc_add_test(fuzz.${short_name} fuzz 180
      ${target} -runs=${RIPC_FUZZ_RUNS} -seed=1 "${work}" "${PROJECT_SOURCE_DIR}/tests/fuzz/corpus/${short_name}")
    set_tests_properties(fuzz.${short_name} PROPERTIES WORKING_DIRECTORY "${work}")
  endforeach()
endfunction()

# ---- layers and headers ----------------------------------------------------------------------------------------

function(ripc_tests_layers)
  if(Python3_Interpreter_FOUND)
    set(layers "${PROJECT_SOURCE_DIR}/tests/layers")
    ripc_add_test(layers.includes layers 60
      "${Python3_EXECUTABLE}" "${layers}/check_includes.py" "${PROJECT_SOURCE_DIR}")
    ripc_add_test(layers.self_test layers 60
      "${Python3_EXECUTABLE}" "${layers}/check_includes.py" --self-test)
    ripc_add_test(layers.picture layers 60
      "${Python3_EXECUTABLE}" "${layers}/check_picture.py" "${PROJECT_SOURCE_DIR}")
    ripc_add_test(layers.picture_self_test layers 60
      "${Python3_EXECUTABLE}" "${layers}/check_picture.py" --self-test)
    ripc_add_test(layers.ranges layers 60
      "${Python3_EXECUTABLE}" "${layers}/check_ranges.py" "${PROJECT_SOURCE_DIR}")
    foreach(kind public internal)
      ripc_add_test(header.${kind} header 300
        "${Python3_EXECUTABLE}" "${layers}/check_headers.py" ${kind} --source "${PROJECT_SOURCE_DIR}"
        --c-compiler "${CMAKE_C_COMPILER}" --cxx-compiler "${CMAKE_CXX_COMPILER}")
    endforeach()
  else()
    message(STATUS "libripc: python3 not found: the tests layers, header and package.exports are not registered")
  endif()
endfunction()

# ---- package ---------------------------------------------------------------------------------------------------

function(ripc_tests_package)
  # A library built with sanitizers is not meant to be installed.
  if(RIPC_INSTALL AND NOT RIPC_SANITIZE_OPTIONS)
    ripc_add_test(package.consumers package 300 "${PROJECT_SOURCE_DIR}/tests/package/run.sh"
      "${CMAKE_COMMAND}" "${PROJECT_BINARY_DIR}" "${CMAKE_C_COMPILER}" "${CMAKE_CXX_COMPILER}")
    # The compiler cache knows the objects of this build.
    ripc_add_test(package.fresh_machine package 900 "${PROJECT_SOURCE_DIR}/tests/package/fresh-machine")
    set_tests_properties(package.fresh_machine PROPERTIES COST 100)
    # A second build of everything: left out of scripts/test --quick.
    set_property(TEST package.fresh_machine APPEND PROPERTY LABELS whole)
    if(Python3_Interpreter_FOUND)
      ripc_add_test(package.exports package 60
        "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/package/check_exports.py"
        --library "$<TARGET_FILE:ripc>" --headers "${RIPC_PUBLIC_INCLUDE_DIR}/ripc" --nm "${CMAKE_NM}")
      ripc_add_test(package.abi package 60
        "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/package/check_abi.py"
        --headers "${PROJECT_SOURCE_DIR}/libripc/include" --compiler "${CMAKE_C_COMPILER}")
    endif()
  endif()
endfunction()

# ---- rdma-lab --------------------------------------------------------------------------------------------------

# Skipped, with the reason, where the lab's kernel is not built (tests/rdma-lab/build-kernel) or cannot run.
function(ripc_tests_rdma_lab)
  set(lab "${PROJECT_SOURCE_DIR}/tests/rdma-lab")
  foreach(program switch registers group rails)
    ripc_add_test_program(ripc_lab_${program} lab_${program} "${lab}/${program}.cpp")
  endforeach()
  foreach(program group rails)
    target_link_libraries(ripc_lab_${program} PRIVATE ripc_static)
  endforeach()
  if(Python3_Interpreter_FOUND)
    ripc_add_test(lab.switch lab 60 "${Python3_EXECUTABLE}" "${lab}/switch_test.py")
    ripc_add_test(lab.self_test lab 300 "${Python3_EXECUTABLE}" "${lab}/self_test.py")
    ripc_add_test(lab.fault lab 900 "${Python3_EXECUTABLE}" "${lab}/fault_test.py")
    ripc_add_test(lab.rails lab 900 "${Python3_EXECUTABLE}" "${lab}/rails_test.py")
    ripc_add_test(lab.fabric lab 600 "${Python3_EXECUTABLE}" "${lab}/fabric_test.py")
    ripc_add_test(lab.unit lab 300 "${Python3_EXECUTABLE}" "${lab}/node" --
      "$<TARGET_FILE:ripc_unit_tests>"
      "--gtest_filter=RemoteKeys.*:Datagrams.*:Transfers.*:SocketRail.*:FabricMulticast.*:RegisteredMemory.*:Ports.*:Offers.*\
:ConnectionLimit.*:GroupSends.*:Ways.*:Reach.*:EndedRemoteKeys.*:LockedMemory.*:Messages.*:Pushes.*:Redials.*:FirstConnection.*:RefusedWindows.*:HalfMade.*\
:DiagnoseSettings.ASpinTime*:DiagnoseVerbs.*:BrokenQueues.*:PlainDatagrams.*:SignedDatagrams.*:Floods.*:Strangers.*:KeyedStrangers.*:Forked.*:Collected.*\
:MemoryWindows.*:TakenPorts.*:MovedLinks.*:SignedMovedLinks.*:ScarceMemory.*:EndedSessions.*")
    # The tests that use the first device they find run once more, with siw.
    ripc_add_test(lab.unit.siw lab 300 "${Python3_EXECUTABLE}" "${lab}/node" --devices siw --
      "$<TARGET_FILE:ripc_unit_tests>"
      "--gtest_filter=DiagnoseVerbs.*:Transfers.*:SocketRail.*:Offers.*:ConnectionLimit.*:LockedMemory.*:Redials.*:FirstConnection.*:Forked.*:TakenPorts.*\
:Strangers.WhoAskForAConnection*:KeyedStrangers.WhoHaveAnotherClusterKey*")
    foreach(test lab.unit lab.unit.siw)
      set_property(TEST ${test} APPEND PROPERTY ENVIRONMENT RIPC_TEST_MAY_CUT=1)
      # The lab has everything that these tests need, so none may be skipped.
      set_property(TEST ${test} PROPERTY FAIL_REGULAR_EXPRESSION "  SKIPPED ]" " 0 tests from 0 test suites ran")
    endforeach()
    # The conformance suite runs over one device in one node. With the peers on another node it also runs over sockets,
    # over two pairs of devices, and over a pair of devices next to a pair of network interfaces.
    set(runs conformance.rxe conformance.siw pair.socket pair.rxe pair.siw pair.rails pair.mixed)
    foreach(run IN LISTS runs)
      string(REGEX REPLACE ".*[.]" "" devices ${run})
      set(transport verbs)
      set(links 1)
      if(devices MATCHES "rails|mixed")
        set(devices rxe)
        set(links 2)
      endif()
      if(devices STREQUAL "socket")
        set(transport socket)
        set(devices rxe,siw)
      endif()
      if(run MATCHES "^conformance")
        ripc_add_test(lab.${run} lab 1800 "${Python3_EXECUTABLE}" "${lab}/node" --timeout 1740
          --devices ${devices} -- "$<TARGET_FILE:ripc_conformance_tests>")
      else()
        ripc_add_test(lab.${run} lab 900 "${Python3_EXECUTABLE}" "${lab}/cluster" --nodes 2 --links ${links} --timeout 840
          --devices ${devices} -- "${lab}/conformance-pair" "$<TARGET_FILE:ripc_conformance_tests>")
      endif()
      set_property(TEST lab.${run} APPEND PROPERTY ENVIRONMENT
        "RIPC_TEST_TRANSPORTS=${transport}" RIPC_TEST_MUST_RUN=1)
      set_property(TEST lab.${run} PROPERTY FAIL_REGULAR_EXPRESSION " 0 tests from 0 test suites ran")
      # With a cluster key, messages to groups do not travel by multicast; the other runs have a key.
      if(devices STREQUAL "rxe")
        set_property(TEST lab.${run} APPEND PROPERTY ENVIRONMENT RIPC_NETWORK=open)
      endif()
    endforeach()
    set_property(TEST lab.pair.mixed APPEND PROPERTY ENVIRONMENT RIPC_LAB_MIXED_RAILS=1)
    # Left out of scripts/test --quick: five minutes for what the other runs show nearly as well.
    foreach(run pair.socket pair.rxe pair.siw pair.rails pair.mixed)
      set_property(TEST lab.${run} APPEND PROPERTY LABELS whole)
    endforeach()
    # The longest tests start first, so that none of them runs alone at the end.
    set_tests_properties(lab.conformance.rxe lab.fault PROPERTIES COST 100)
    # These tests have many nodes, or start and end them often. Next to other tests, a node's last output sometimes came
    # too late.
    set_tests_properties(lab.self_test lab.rails lab.pair.rails lab.pair.mixed PROPERTIES RUN_SERIAL TRUE)
    if(TARGET java)
      ripc_add_test(lab.java lab 300 "${lab}/java-tests" "${PROJECT_BINARY_DIR}")
      ripc_add_test(lab.hadoop lab 300 "${lab}/hadoop-tests" "${PROJECT_BINARY_DIR}")
      # Maven writes to the same folders for them and for the test "java".
      set_tests_properties(lab.java lab.hadoop PROPERTIES RESOURCE_LOCK maven)
      set_property(TEST lab.hadoop APPEND PROPERTY LABELS whole)
    endif()
  endif()
endfunction()

# ---- java ------------------------------------------------------------------------------------------------------

function(ripc_tests_java)
  if(TARGET java)
    ripc_add_test(java java 1800 ${maven_verify})
    set_tests_properties(java PROPERTIES RESOURCE_LOCK maven COST 100)
    if(Python3_Interpreter_FOUND)
      # Needs root and Hadoop's jars, and is skipped without them. Packs the plugin if the test "java" has not.
      ripc_add_test(hadoop.small hadoop 600 "${Python3_EXECUTABLE}" "${PROJECT_SOURCE_DIR}/tests/hadoop-lab/small_test.py")
      set_tests_properties(hadoop.small PROPERTIES RESOURCE_LOCK maven DEPENDS java RUN_SERIAL TRUE)
    endif()
  elseif(RIPC_WHY_NO_JAVA)
    ripc_add_test(java java 10 bash -c "echo \"$0\" && exit 77" "${RIPC_WHY_NO_JAVA}")
  endif()
endfunction()

# ---- scripts ---------------------------------------------------------------------------------------------------

function(ripc_tests_scripts)
  file(GLOB script_tests CONFIGURE_DEPENDS
    "${PROJECT_SOURCE_DIR}/tests/*/*_test.sh" "${PROJECT_SOURCE_DIR}/tests/*/*_test.py")
  list(FILTER script_tests EXCLUDE REGEX "/(rdma|hadoop)-lab/")
  foreach(script IN LISTS script_tests)
    cmake_path(GET script STEM LAST_ONLY name)
    cmake_path(GET script EXTENSION LAST_ONLY extension)
    cmake_path(GET script PARENT_PATH folder)
    cmake_path(GET folder FILENAME folder)
    string(REGEX REPLACE "_test$" "" name "${name}")
    if(extension STREQUAL ".py")
      if(Python3_Interpreter_FOUND)
        ripc_add_test(${folder}.${name} ${folder} 300 "${Python3_EXECUTABLE}" "${script}")
      endif()
    else()
      ripc_add_test(${folder}.${name} ${folder} 300 bash "${script}")
    endif()
  endforeach()
  if(TEST zookeeper.commands)
    set_tests_properties(zookeeper.commands PROPERTIES RESOURCE_LOCK zookeeper COST 50)
  endif()
  set(run_examples "${PROJECT_SOURCE_DIR}/examples/run.sh")
  if(RIPC_BUILD_EXAMPLES AND EXISTS "${run_examples}")
    ripc_add_test(examples examples 300 bash "${run_examples}" "${PROJECT_BINARY_DIR}/examples")
  endif()
  if(RIPC_WITH_VERBS AND TARGET ripc_conformance_tests)
    ripc_tests_rdma_lab()
  endif()
  # The other half of scripts/demo takes long and checks nothing that cli.files does not.
  if(RIPC_BUILD_CLI)
    ripc_add_test(cli.two_hosts cli 300 "${PROJECT_SOURCE_DIR}/scripts/demo-hosts" "${PROJECT_BINARY_DIR}/bin/ripc")
    set_tests_properties(cli.two_hosts PROPERTIES SKIP_REGULAR_EXPRESSION "Two hosts: left out")
  endif()
endfunction()

# ----------------------------------------------------------------------------------------------------------------

foreach(folder IN LISTS RIPC_TEST_FOLDERS)
  if(NOT COMMAND ripc_tests_${folder})
    message(FATAL_ERROR "RIPC_TEST_FOLDERS: '${folder}' is none of unit, conformance, fault, zookeeper, fuzz, layers, package, java, scripts")
  endif()
  cmake_language(CALL ripc_tests_${folder})
endforeach()
