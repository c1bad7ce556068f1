# SPDX-License-Identifier: Apache-2.0
# How sources are compiled. Most of the time of a single file goes into the headers that it includes, so the sources of a
# folder are compiled together (a "unity build"), behind precompiled headers. With RIPC_UNITY=OFF each source is compiled
# alone: best for work on one file, and what scripts/lint checks, so that no #include is missing.
#
# Names in unnamed namespaces have to differ between the sources of one namespace.

option(RIPC_UNITY "Compile the sources of each folder together, with precompiled headers" ON)

# ccache cannot see which macros a precompiled header was made with; here they all come from the compiler's command.
if(RIPC_UNITY AND RIPC_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_SLOPPINESS=pch_defines,time_macros" "${RIPC_CCACHE}")
endif()

# ripc_unite(TARGET MOST)
# Compiles the target's sources together, at most MOST at once. Small folders share one compilation, large ones take several.
function(ripc_unite target most)
  get_target_property(sources ${target} SOURCES)
  list(LENGTH sources length)
  if(NOT RIPC_UNITY OR length EQUAL 1)
    return()
  endif()
  set(folders "")
  foreach(source IN LISTS sources)
    cmake_path(GET source PARENT_PATH folder)
    list(APPEND folders "${folder}")
  endforeach()
  list(REMOVE_DUPLICATES folders)
  set(group "")
  set(size 0)
  foreach(folder IN LISTS folders)
    string(REPLACE "+" "\\+" pattern "${folder}")
    set(members ${sources})
    list(FILTER members INCLUDE REGEX "^${pattern}/[^/]+$")
    list(LENGTH members length)
    math(EXPR size "${size} + ${length}")
    if(NOT group OR size GREATER most)
      cmake_path(RELATIVE_PATH folder BASE_DIRECTORY "${PROJECT_SOURCE_DIR}" OUTPUT_VARIABLE group)
      string(MAKE_C_IDENTIFIER "${group}" group)
      set(size ${length})
    endif()
    math(EXPR part "(${length} + ${most} - 1) / ${most}")
    math(EXPR part "(${length} + ${part} - 1) / ${part}")
    set(index 0)
    foreach(source IN LISTS members)
      math(EXPR number "${index} / ${part}")
      math(EXPR index "${index} + 1")
      set_source_files_properties("${source}" PROPERTIES UNITY_GROUP "${group}_${number}")
    endforeach()
  endforeach()
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
endfunction()
