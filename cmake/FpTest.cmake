# SPDX-License-Identifier: Apache-2.0
#
# fp_unit_test(<name> SOURCES a.c … [LIBS fp_x …] [LABELS label …] [ARGS …])
#   One cmocka executable and one ctest of the same name (in the sanitizer build with
#   "_sanitized" behind it). Exit code 77 is a skip.
#
# fp_fuzz_target(<noun>_fuzz SOURCES a.c … [LIBS fp_x …])
#   A source with LLVMFuzzerTestOneInput; its corpus is tests/fuzz/corpus/<noun>/. With
#   FP_FUZZ it becomes a libFuzzer program and a short run of it; in every other build the
#   same source is linked to a main that replays the corpus once.

set(FP_TEST_ENVIRONMENT
  "ASAN_OPTIONS=abort_on_error=1:detect_stack_use_after_return=1"
  "UBSAN_OPTIONS=print_stacktrace=1"
  "FP_SOURCE_DIR=${CMAKE_SOURCE_DIR}"
  "FP_BINARY_DIR=${CMAKE_BINARY_DIR}")
# run.sh runs the tests of several builds together; the suffix tells them apart.
if(FP_FUZZ)
  set(FP_BUILD_KIND fuzz)
  set(FP_TEST_SUFFIX "")
elseif(FP_SANITIZE)
  set(FP_BUILD_KIND sanitize)
  set(FP_TEST_SUFFIX "_sanitized")
elseif(FP_COVERAGE)
  set(FP_BUILD_KIND coverage)
  set(FP_TEST_SUFFIX "")
else()
  set(FP_BUILD_KIND release)
  set(FP_TEST_SUFFIX "")
endif()

function(fp_unit_test name)
  if(FP_FUZZ)
    return() # that build only exists for its fuzz targets
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS;LABELS;ARGS")
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE ${arg_LIBS} PkgConfig::CMOCKA)
  target_compile_definitions(${name} PRIVATE FP_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  set(test ${name}${FP_TEST_SUFFIX})
  add_test(NAME ${test} COMMAND ${name} ${arg_ARGS})
  set_tests_properties(${test} PROPERTIES SKIP_RETURN_CODE 77 TIMEOUT 400
    LABELS "unit;${arg_LABELS}" ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
endfunction()

function(fp_fuzz_target name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  string(REGEX REPLACE "_fuzz$" "" noun ${name})
  set(corpus ${CMAKE_SOURCE_DIR}/tests/fuzz/corpus/${noun})
  if(FP_FUZZ)
    add_executable(${name} ${arg_SOURCES})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    add_test(NAME ${name}
      COMMAND ${CMAKE_SOURCE_DIR}/tests/fuzz/run.sh $<TARGET_FILE:${name}> ${corpus})
    set_tests_properties(${name} PROPERTIES LABELS fuzz TIMEOUT 900)
  else()
    add_executable(${name} ${arg_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay.c)
    set(test ${name}_corpus${FP_TEST_SUFFIX})
    add_test(NAME ${test} COMMAND ${name} ${corpus})
    set_tests_properties(${test} PROPERTIES LABELS unit TIMEOUT 400
      ENVIRONMENT "${FP_TEST_ENVIRONMENT}")
  endif()
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
endfunction()
