# SPDX-License-Identifier: Apache-2.0
# cmake --install: headers, both libraries, bin/ripc, the CMake package `ripc` and ripc.pc; without debug information.

if(NOT RIPC_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)
set(package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/ripc")

install(TARGETS ripc ripc_static EXPORT ripcTargets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT library NAMELINK_COMPONENT development
  ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}" COMPONENT development)
if(TARGET ripc_cli)
  install(TARGETS ripc_cli RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}" COMPONENT program)
  install(FILES "${PROJECT_SOURCE_DIR}/libripc/cli/completion.bash"
    DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/bash-completion/completions" RENAME ripc COMPONENT program)
endif()

# Debug information stays in the build tree, where debuggers find it. Each installed binary names a file for it, which
# the component `debug` puts into the folder .debug next to the binary:
#   cmake --install build/release --component debug
function(ripc_install_without_debug target destination component)
  set(split "
    set(ripc_installed \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${destination}\")
    set(ripc_debug_file \"${PROJECT_BINARY_DIR}/debug/$<TARGET_FILE_NAME:${target}>.debug\")
    file(MAKE_DIRECTORY \"${PROJECT_BINARY_DIR}/debug\")
    execute_process(COMMAND_ERROR_IS_FATAL ANY
      COMMAND \"${CMAKE_OBJCOPY}\" --only-keep-debug --compress-debug-sections \"$<TARGET_FILE:${target}>\" \"\${ripc_debug_file}\")")
  install(CODE "${split}
    execute_process(COMMAND_ERROR_IS_FATAL ANY
      COMMAND \"${CMAKE_OBJCOPY}\" --strip-unneeded \"--add-gnu-debuglink=\${ripc_debug_file}\"
        \"\${ripc_installed}/$<TARGET_FILE_NAME:${target}>\")"
    COMPONENT ${component})
  install(CODE "${split}
    file(INSTALL \"\${ripc_debug_file}\" DESTINATION \"\${ripc_installed}/.debug\")"
    COMPONENT debug EXCLUDE_FROM_ALL)
endfunction()
if(CMAKE_OBJCOPY)
  ripc_install_without_debug(ripc "${CMAKE_INSTALL_LIBDIR}" library)
  if(TARGET ripc_cli)
    ripc_install_without_debug(ripc_cli "${CMAKE_INSTALL_BINDIR}" program)
  endif()
  install(CODE "execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND \"${CMAKE_OBJCOPY}\" --strip-debug
    \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/$<TARGET_FILE_NAME:ripc_static>\")"
    COMPONENT development)
endif()
install(DIRECTORY "${RIPC_PUBLIC_INCLUDE_DIR}/" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" COMPONENT development
  FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
install(FILES "${PROJECT_SOURCE_DIR}/LICENSE"
  DESTINATION "${CMAKE_INSTALL_DATAROOTDIR}/doc/libripc${soversion}" COMPONENT library)

install(EXPORT ripcTargets NAMESPACE ripc:: DESTINATION "${package_dir}" COMPONENT development)
configure_package_config_file("${PROJECT_SOURCE_DIR}/cmake/ripcConfig.cmake.in"
  "${PROJECT_BINARY_DIR}/cmake/ripcConfig.cmake"
  INSTALL_DESTINATION "${package_dir}"
  NO_SET_AND_CHECK_MACRO)
# Before 1.0 a new minor version may change the interface.
write_basic_package_version_file("${PROJECT_BINARY_DIR}/cmake/ripcConfigVersion.cmake"
  COMPATIBILITY SameMinorVersion)
install(FILES
  "${PROJECT_BINARY_DIR}/cmake/ripcConfig.cmake"
  "${PROJECT_BINARY_DIR}/cmake/ripcConfigVersion.cmake"
  DESTINATION "${package_dir}" COMPONENT development)

# ripc.pc names its prefix relative to its own folder, so that an installed tree can be moved.
set(pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")
file(RELATIVE_PATH RIPC_PREFIX_FROM_PKGCONFIG
  "${CMAKE_INSTALL_PREFIX}/${pkgconfig_dir}" "${CMAKE_INSTALL_PREFIX}")
string(REGEX REPLACE "/$" "" RIPC_PREFIX_FROM_PKGCONFIG "${RIPC_PREFIX_FROM_PKGCONFIG}")
configure_file("${PROJECT_SOURCE_DIR}/cmake/ripc.pc.in" "${PROJECT_BINARY_DIR}/cmake/ripc.pc" @ONLY)
install(FILES "${PROJECT_BINARY_DIR}/cmake/ripc.pc" DESTINATION "${pkgconfig_dir}" COMPONENT development)
