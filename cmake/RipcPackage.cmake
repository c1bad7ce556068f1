# SPDX-License-Identifier: Apache-2.0
# cpack --config build/release/CPackConfig.cmake: Debian packages of what programs load, of what they are built with, and
# of the command line. Each is a component of RipcInstall.cmake.

if(NOT RIPC_INSTALL OR NOT PROJECT_IS_TOP_LEVEL)
  return()
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_CONTACT "The maintainers of libripc <maintainers@libripc.invalid>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_PACKAGE_DIRECTORY "${PROJECT_BINARY_DIR}/packages")
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_ENABLE_COMPONENT_DEPENDS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS "${PROJECT_BINARY_DIR}/lib")
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

# Two minor versions can be installed side by side. The library loads the others that it names where they are installed.
set(CPACK_DEBIAN_LIBRARY_PACKAGE_NAME "libripc${soversion}")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARY_PACKAGE_RECOMMENDS "libipsec-mb1 | libssl3")
set(CPACK_DEBIAN_LIBRARY_PACKAGE_SUGGESTS "ibverbs-providers, libibverbs1, librdmacm1, libzookeeper-st2")
set(CPACK_COMPONENT_LIBRARY_DESCRIPTION "The shared library")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libripc-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS libsodium-dev)  # for programs that link the static library
set(CPACK_COMPONENT_DEVELOPMENT_DESCRIPTION "Headers, the static library, the CMake package and ripc.pc")
set(CPACK_COMPONENT_DEVELOPMENT_DEPENDS library)

set(CPACK_DEBIAN_PROGRAM_PACKAGE_NAME ripc)
set(CPACK_DEBIAN_PROGRAM_PACKAGE_SECTION net)
set(CPACK_COMPONENT_PROGRAM_DESCRIPTION "The command line: services, messages, calls, files, checks and benchmarks")
set(CPACK_COMPONENT_PROGRAM_DEPENDS library)

set(CPACK_COMPONENTS_ALL library development)
if(TARGET ripc_cli)
  list(APPEND CPACK_COMPONENTS_ALL program)
endif()
include(CPack)
