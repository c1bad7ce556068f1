# SPDX-License-Identifier: Apache-2.0
# The Java module: what Maven packs, and Maven itself.
#   ripc_jni           lib/libripc-jni.so: how Java calls libripc
#   ripc_java_natives  java/resources: the native libraries as the jar carries them
#   java               `mvn verify`
#   ctest -L java      the same as a test; skipped, with the reason, where a JDK or Maven is missing

option(RIPC_BUILD_JAVA "Build what the Java module needs, and register its tests" ${PROJECT_IS_TOP_LEVEL})
if(NOT RIPC_BUILD_JAVA)
  return()
endif()

set(RIPC_WHY_NO_JAVA "")
if(RIPC_SANITIZE)
  set(RIPC_WHY_NO_JAVA "a JVM does not load libraries that are built with sanitizers")
endif()
if(NOT RIPC_WHY_NO_JAVA)
  find_package(Java 17 QUIET COMPONENTS Development)
  if(Java_JAVAC_EXECUTABLE)
    file(REAL_PATH "${Java_JAVAC_EXECUTABLE}" javac)
    cmake_path(GET javac PARENT_PATH java_home)
    cmake_path(GET java_home PARENT_PATH java_home)
  endif()
  find_path(RIPC_JNI_INCLUDE_DIR jni.h HINTS "${java_home}/include" ENV JAVA_HOME PATH_SUFFIXES include NO_DEFAULT_PATH)
  mark_as_advanced(RIPC_JNI_INCLUDE_DIR)
  if(NOT Java_FOUND OR NOT RIPC_JNI_INCLUDE_DIR)
    set(RIPC_WHY_NO_JAVA "no JDK 17 or later found: scripts/setup java installs openjdk-17-jdk-headless")
  endif()
endif()
if(NOT RIPC_WHY_NO_JAVA)
  find_program(RIPC_MAVEN mvn)
  mark_as_advanced(RIPC_MAVEN)
  if(NOT RIPC_MAVEN)
    set(RIPC_WHY_NO_JAVA "mvn not found: scripts/setup java installs maven")
  endif()
endif()
if(RIPC_WHY_NO_JAVA)
  message(STATUS "libripc: Java is left out: ${RIPC_WHY_NO_JAVA}")
  return()
endif()

add_library(ripc_jni SHARED "${PROJECT_SOURCE_DIR}/java/src/main/native/ripc_jni.c")
ripc_configure_target(ripc_jni)
target_include_directories(ripc_jni PRIVATE "${RIPC_PUBLIC_INCLUDE_DIR}")
target_include_directories(ripc_jni SYSTEM PRIVATE "${RIPC_JNI_INCLUDE_DIR}" "${RIPC_JNI_INCLUDE_DIR}/linux")
target_link_options(ripc_jni PRIVATE "LINKER:-z,relro,-z,now,-z,defs,-z,nodelete")
set_target_properties(ripc_jni PROPERTIES
  OUTPUT_NAME ripc-jni
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")

# The folder has Java's name for the architecture: system property os.arch.
set(java_architecture "${CMAKE_SYSTEM_PROCESSOR}")
if(java_architecture STREQUAL "x86_64")
  set(java_architecture amd64)
endif()
set(java_natives "${PROJECT_BINARY_DIR}/java/resources/META-INF/native/linux-${java_architecture}")
set(java_native_files "")
foreach(target IN ITEMS ripc ripc_jni)
  set(staged "${java_natives}/lib${target}.so")
  string(REPLACE "ripc_jni" "ripc-jni" staged "${staged}")
  add_custom_command(OUTPUT "${staged}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${java_natives}"
    COMMAND "${CMAKE_STRIP}" --strip-unneeded -o "${staged}" "$<TARGET_FILE:${target}>"
    DEPENDS ${target}
    VERBATIM)
  list(APPEND java_native_files "${staged}")
endforeach()
add_custom_target(ripc_java_natives ALL DEPENDS ${java_native_files})

set(maven_verify "${RIPC_MAVEN}" --batch-mode --no-transfer-progress
  "--file" "${PROJECT_SOURCE_DIR}/pom.xml" "-Dripc.build.directory=${PROJECT_BINARY_DIR}" verify)
add_custom_target(java
  COMMAND ${maven_verify}
  DEPENDS ripc_java_natives
  WORKING_DIRECTORY "${PROJECT_SOURCE_DIR}"
  USES_TERMINAL
  VERBATIM)
