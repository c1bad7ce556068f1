# SPDX-License-Identifier: Apache-2.0
# The library: libripc/src/**.cpp and resolver/**.cpp become
#   ripc           libripc.so, only the symbols of ripc.h visible
#   ripc_static    libripc.a
#   ripc_internal  for tests that look inside: libripc.a with the internal headers

find_path(RIPC_XXHASH_INCLUDE_DIR xxhash.h DOC "Folder of xxhash.h (header-only use)")
mark_as_advanced(RIPC_XXHASH_INCLUDE_DIR)
if(NOT RIPC_XXHASH_INCLUDE_DIR)
  message(FATAL_ERROR "xxhash.h not found: run scripts/setup, or install libxxhash-dev")
endif()

# The message authentication codes of the cluster key.
find_path(RIPC_SODIUM_INCLUDE_DIR sodium.h DOC "Folder of sodium.h")
find_library(RIPC_SODIUM_LIBRARY sodium DOC "libsodium")
mark_as_advanced(RIPC_SODIUM_INCLUDE_DIR RIPC_SODIUM_LIBRARY)
if(NOT RIPC_SODIUM_INCLUDE_DIR OR NOT RIPC_SODIUM_LIBRARY)
  message(FATAL_ERROR "libsodium not found: run scripts/setup, or install libsodium-dev")
endif()

# RDMA: only the headers are needed; the libraries are loaded when the program runs, if the host has them.
find_path(RIPC_VERBS_INCLUDE_DIR infiniband/verbs.h DOC "Folder of infiniband/verbs.h (libibverbs-dev)")
find_path(RIPC_RDMACM_INCLUDE_DIR rdma/rdma_cma.h DOC "Folder of rdma/rdma_cma.h (librdmacm-dev)")
mark_as_advanced(RIPC_VERBS_INCLUDE_DIR RIPC_RDMACM_INCLUDE_DIR)
set(RIPC_WITH_VERBS OFF)
if(RIPC_VERBS AND RIPC_VERBS_INCLUDE_DIR AND RIPC_RDMACM_INCLUDE_DIR)
  set(RIPC_WITH_VERBS ON)
elseif(RIPC_VERBS)
  message(STATUS "libripc: no RDMA transport: infiniband/verbs.h or rdma/rdma_cma.h not found "
    "(scripts/setup installs libibverbs-dev and librdmacm-dev)")
endif()

# ripc_drop_rdma(SOURCES_VARIABLE)
# A build without RDMA leaves out the transport and every source that includes its headers unconditionally.
function(ripc_drop_rdma sources_variable)
  if(RIPC_WITH_VERBS)
    return()
  endif()
  set(kept)
  foreach(source IN LISTS ${sources_variable})
    file(STRINGS "${source}" uses LIMIT_COUNT 1 REGEX "^#include \"(transport/verbs/|capi/diagnose_verbs)")
    if(NOT uses AND NOT source MATCHES "/transport/verbs/")
      list(APPEND kept "${source}")
    endif()
  endforeach()
  set(${sources_variable} ${kept} PARENT_SCOPE)
endfunction()

file(GLOB_RECURSE RIPC_LIBRARY_SOURCES CONFIGURE_DEPENDS
  "${PROJECT_SOURCE_DIR}/libripc/src/*.cpp"
  "${PROJECT_SOURCE_DIR}/resolver/*.cpp")
ripc_drop_rdma(RIPC_LIBRARY_SOURCES)
if(NOT RIPC_LIBRARY_SOURCES)
  message(FATAL_ERROR "no sources in libripc/src")
endif()

set(RIPC_PUBLIC_INCLUDE_DIR "${PROJECT_SOURCE_DIR}/libripc/include")
set(RIPC_INTERNAL_INCLUDE_DIRS "${PROJECT_SOURCE_DIR}/libripc/src" "${PROJECT_SOURCE_DIR}")

function(ripc_configure_library target)
  ripc_configure_target(${target})
  target_include_directories(${target}
    PUBLIC
      "$<BUILD_INTERFACE:${RIPC_PUBLIC_INCLUDE_DIR}>"
      "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>"
    PRIVATE
      ${RIPC_INTERNAL_INCLUDE_DIRS})
  foreach(folder IN ITEMS "${RIPC_XXHASH_INCLUDE_DIR}" "${RIPC_SODIUM_INCLUDE_DIR}"
      "${RIPC_VERBS_INCLUDE_DIR}" "${RIPC_RDMACM_INCLUDE_DIR}")
    if(folder AND NOT folder STREQUAL "/usr/include")
      target_include_directories(${target} SYSTEM PRIVATE "${folder}")
    endif()
  endforeach()
  # For ripc.hpp in a project that adds this one. ripcConfig.cmake does the same for an installed package.
  if(RIPC_PARENT_HAS_CXX)
    target_compile_features(${target} INTERFACE "$<BUILD_INTERFACE:cxx_std_20>")
  endif()
  target_compile_definitions(${target} PRIVATE RIPC_VERSION_STRING="${PROJECT_VERSION}"
    $<$<BOOL:${RIPC_WITH_VERBS}>:RIPC_WITH_VERBS>)
endfunction()

add_library(ripc_objects OBJECT ${RIPC_LIBRARY_SOURCES})
ripc_configure_library(ripc_objects)
ripc_unite(ripc_objects 24)
# With a section for each function, the linker leaves out what a program with libripc.a does not use.
target_compile_options(ripc_objects PRIVATE -ffunction-sections -fdata-sections)

add_library(ripc_static STATIC $<TARGET_OBJECTS:ripc_objects>)
add_library(ripc::ripc_static ALIAS ripc_static)
ripc_configure_library(ripc_static)
set_target_properties(ripc_static PROPERTIES OUTPUT_NAME ripc LINKER_LANGUAGE CXX)
# A program in C that links libripc.a needs the C++ runtime too; CMake adds it only where the project has C++ enabled.
# The installed package names libsodium without a path, so that it does not depend on where the build found it.
target_link_libraries(ripc_static INTERFACE
  "$<BUILD_INTERFACE:${RIPC_SODIUM_LIBRARY}>" "$<INSTALL_INTERFACE:sodium>"
  Threads::Threads ${CMAKE_DL_LIBS} "$<$<LINK_LANGUAGE:C>:stdc++;m>")

add_library(ripc SHARED $<TARGET_OBJECTS:ripc_objects>)
set_target_properties(ripc PROPERTIES LINKER_LANGUAGE CXX)
add_library(ripc::ripc ALIAS ripc)
ripc_configure_library(ripc)
target_link_libraries(ripc PRIVATE "${RIPC_SODIUM_LIBRARY}" Threads::Threads ${CMAKE_DL_LIBS})
set(version_script "${PROJECT_SOURCE_DIR}/cmake/libripc.map")
target_link_options(ripc PRIVATE "LINKER:--version-script=${version_script}" "LINKER:-z,relro,-z,now")
if(NOT RIPC_SANITIZE_OPTIONS)
  target_link_options(ripc PRIVATE "LINKER:-z,defs")
endif()
# Before 1.0 a minor version may change the interface.
set(soversion ${PROJECT_VERSION_MAJOR})
if(PROJECT_VERSION_MAJOR EQUAL 0)
  string(APPEND soversion ".${PROJECT_VERSION_MINOR}")
endif()
set_target_properties(ripc PROPERTIES
  VERSION ${PROJECT_VERSION}
  SOVERSION ${soversion}
  LINK_DEPENDS "${version_script}")

set_target_properties(ripc ripc_static PROPERTIES
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
  ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

add_library(ripc_internal INTERFACE)
target_link_libraries(ripc_internal INTERFACE ripc_static)
target_include_directories(ripc_internal INTERFACE ${RIPC_INTERNAL_INCLUDE_DIRS})
# Some internal headers depend on this macro.
target_compile_definitions(ripc_internal INTERFACE $<$<BOOL:${RIPC_WITH_VERBS}>:RIPC_WITH_VERBS>)
