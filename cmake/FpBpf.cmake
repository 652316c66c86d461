# SPDX-License-Identifier: Apache-2.0
#
# fp_bpf_skeleton(<target> NAME <skeleton name> SOURCES a.bpf.c b.bpf.c …)
#
# Compiles each source for the BPF machine, links the objects into one, turns that into
# <name>.skel.h in the build directory and offers <target>, an INTERFACE library that
# carries its include directory. Headers are tracked through depfiles, so that a change
# in abi.h or kernel.h rebuilds the skeleton and whoever includes it.

find_program(FP_BPF_CLANG NAMES clang clang-19 clang-16 clang-15 clang-14 REQUIRED)
find_program(FP_BPFTOOL NAMES bpftool HINTS /usr/sbin /sbin REQUIRED)

if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|amd64|AMD64)$")
  set(FP_BPF_ARCH x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64)$")
  set(FP_BPF_ARCH arm64)
else()
  message(FATAL_ERROR "No BPF register layout is known for '${CMAKE_SYSTEM_PROCESSOR}'")
endif()

set(FP_BPF_FLAGS -g -O2 -target bpf -mcpu=v3 -std=gnu17 -D__TARGET_ARCH_${FP_BPF_ARCH}
  -I${CMAKE_SOURCE_DIR} -Wall -Wextra -Wno-unused-parameter -Werror
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}/=)
foreach(directory ${LIBBPF_INCLUDE_DIRS})
  list(APPEND FP_BPF_FLAGS -isystem ${directory})
endforeach()

function(fp_bpf_skeleton target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME" "SOURCES")
  set(directory ${CMAKE_CURRENT_BINARY_DIR}/${arg_NAME})
  file(MAKE_DIRECTORY ${directory})
  set(objects "")
  foreach(source ${arg_SOURCES})
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE)
    cmake_path(GET source FILENAME filename)
    set(object ${directory}/${filename}.o)
    add_custom_command(OUTPUT ${object}
      COMMAND ${FP_BPF_CLANG} ${FP_BPF_FLAGS} -MD -MF ${object}.d -MT ${object}
              -c ${source} -o ${object}
      DEPENDS ${source}
      DEPFILE ${object}.d
      COMMENT "Compiling BPF ${filename}"
      COMMAND_EXPAND_LISTS VERBATIM)
    list(APPEND objects ${object})
  endforeach()
  set(linked ${directory}/${arg_NAME}.bpf.o)
  set(skeleton ${directory}/${arg_NAME}.skel.h)
  add_custom_command(OUTPUT ${linked}
    COMMAND ${FP_BPFTOOL} gen object ${linked} ${objects}
    DEPENDS ${objects}
    COMMENT "Linking BPF ${arg_NAME}"
    COMMAND_EXPAND_LISTS VERBATIM)
  # Through a temporary file: a failing bpftool must not leave an empty header behind.
  add_custom_command(OUTPUT ${skeleton}
    COMMAND ${FP_BPFTOOL} gen skeleton ${linked} name ${arg_NAME} > ${skeleton}.new
    COMMAND ${CMAKE_COMMAND} -E rename ${skeleton}.new ${skeleton}
    DEPENDS ${linked}
    COMMENT "Writing ${arg_NAME}.skel.h"
    VERBATIM)
  add_custom_target(${target}_generate DEPENDS ${skeleton})
  add_library(${target} INTERFACE)
  # SYSTEM: generated code is not held to our warnings.
  target_include_directories(${target} SYSTEM INTERFACE ${directory})
  target_link_libraries(${target} INTERFACE PkgConfig::LIBBPF)
  add_dependencies(${target} ${target}_generate)
  set_property(TARGET ${target} PROPERTY FP_BPF_OBJECT ${linked})
endfunction()
