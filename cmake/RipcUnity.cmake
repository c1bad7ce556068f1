# SPDX-License-Identifier: Apache-2.0
# How sources are compiled: most of the time of a single file goes into the standard headers that it includes, so the
# sources of a folder are compiled together (a "unity build"), behind precompiled headers.
#
# RIPC_UNITY=OFF compiles each source alone, as it is written: this finds a missing #include. Names in unnamed namespaces
# have to differ within a folder.

option(RIPC_UNITY "Compile the sources of each folder together, with precompiled headers" ON)

# ccache cannot see what a precompiled header defines, and has to be told that this does not matter here: a change of it
# compiles everything that uses it again.
if(RIPC_UNITY AND RIPC_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_SLOPPINESS=pch_defines,time_macros" "${RIPC_CCACHE}")
endif()

# ripc_unite(TARGET [MOST])
# Compiles the target's sources in C++ together by folder, MOST of them (16) at a time.
function(ripc_unite target)
  if(NOT RIPC_UNITY)
    return()
  endif()
  set(most 16)
  if(ARGC GREATER 1)
    set(most ${ARGV1})
  endif()
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources length)
  if(length EQUAL 1)
    return()
  endif()
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}")
    string(MAKE_C_IDENTIFIER "${folder}" folder)
    if(NOT DEFINED count_${folder})
      set(count_${folder} 0)
    endif()
    math(EXPR batch "${count_${folder}} / ${most}")
    math(EXPR count_${folder} "${count_${folder}} + 1")
    set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${folder}_${batch}")
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
