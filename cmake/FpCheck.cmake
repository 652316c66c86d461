# SPDX-License-Identifier: Apache-2.0
#
# The `check` target: clang-format, clang-tidy and cppcheck over the sources of the tree.
# Each is also a target of its own (check_format, check_tidy, check_cppcheck). What they
# forbid and why stands in .clang-format, .clang-tidy and tests/check/cppcheck.sh.
add_custom_target(check)
foreach(tool format tidy cppcheck)
  add_custom_target(check_${tool}
    COMMAND ${CMAKE_SOURCE_DIR}/tests/check/${tool}.sh ${CMAKE_SOURCE_DIR} ${CMAKE_BINARY_DIR}
    COMMENT "Checking with ${tool}"
    USES_TERMINAL VERBATIM)
  add_dependencies(check check_${tool})
endforeach()
# clang-tidy reads the generated headers.
foreach(target fp_bpf_generate fp_proto fp_profile)
  if(TARGET ${target})
    add_dependencies(check_tidy ${target})
    add_dependencies(check_cppcheck ${target})
  endif()
endforeach()
