# SPDX-License-Identifier: Apache-2.0
# What unwind tables are made of, and the tables.
pkg_check_modules(DW REQUIRED IMPORTED_TARGET libdw)
foreach(noun unwindcfi unwindform unwindtable unwindcheck unwindcrt)
  fp_unit_test(agent_${noun}_test SOURCES ${noun}_test.c unwind_sections.c LIBS fp_agent)
endforeach()
fp_unit_test(agent_unwindfile_test SOURCES unwindfile_test.c LIBS fp_agent)
fp_unit_test(agent_unwindlibdw_test SOURCES unwindlibdw_test.c unwind_callers.c
  LIBS fp_agent PkgConfig::DW PkgConfig::ELF)
foreach(test agent_unwindfile_test agent_unwindlibdw_test)
  if(TARGET ${test})
    target_compile_definitions(${test} PRIVATE
      FP_PROGRAMS_DIR="${CMAKE_BINARY_DIR}/tests/programs")
    add_dependencies(${test} unwindcases_eh unwindcases_debug unwindcases_zlib unwindcases_gnu)
  endif()
endforeach()
