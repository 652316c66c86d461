# SPDX-License-Identifier: Apache-2.0
# What tests/e2e/unwind*.py need: a load in C++, built as distributions build it, and the reference
# for stacks. Both want packages that building the product does not (tests/packages.txt).
include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  add_executable(unwind_cxx unwind_cxx.cpp)
  set_target_properties(unwind_cxx PROPERTIES CXX_STANDARD 17
    COMPILE_OPTIONS "-g;-O2;-Wall;-Wextra;-Werror;-fomit-frame-pointer;-fstack-protector-strong"
    LINK_OPTIONS "-Wl,--build-id=sha1")
  target_link_libraries(unwind_cxx PRIVATE Threads::Threads)
endif()
pkg_check_modules(DW IMPORTED_TARGET libdw)
if(DW_FOUND)
  add_executable(unwindref unwindref.c unwindref_dwfl.c unwindref_process.c unwindref_stop.c
    unwindref_walker.c)
  target_link_libraries(unwindref PRIVATE fp_agent PkgConfig::DW m)
endif()

# Code that comes and goes, for tests/e2e/unwind_churn.py: nothing of it has frame pointers.
foreach(variant RANGE 0 5)
  add_library(unwindchurn_lib_${variant} MODULE unwindchurn_lib.c)
  set_target_properties(unwindchurn_lib_${variant} PROPERTIES PREFIX ""
    COMPILE_OPTIONS "-g;-O2;-Wall;-Wextra;-Werror;-fomit-frame-pointer;-fno-toplevel-reorder;-fPIC;-fcf-protection"
    COMPILE_DEFINITIONS "VARIANT=${variant};LABEL=\"${variant}\""
    LINK_OPTIONS "-Wl,--build-id=sha1")
endforeach()
foreach(variant 8 9) # at the same addresses, so that an exec puts one where the other was
  fp_reference_program(unwindchurn_${variant} unwindchurn.c -fomit-frame-pointer -fno-pie
    -DVARIANT=${variant})
  set_target_properties(unwindchurn_${variant} PROPERTIES POSITION_INDEPENDENT_CODE OFF
    LINK_OPTIONS "-Wl,--build-id=sha1;-no-pie")
endforeach()

# Two builds that lie alike, for tests/e2e/unwind_alike.py, which puts one in the other's file.
foreach(words 8 64)
  add_library(unwindalike_${words} MODULE unwindalike_lib.c)
  set_target_properties(unwindalike_${words} PROPERTIES PREFIX "" COMPILE_DEFINITIONS WORDS=${words}
    COMPILE_OPTIONS "${FP_REFERENCE_FLAGS};-fomit-frame-pointer"
    LINK_OPTIONS "-Wl,--build-id=sha1")
endforeach()
fp_reference_program(unwindalike unwindalike.c -fomit-frame-pointer)
target_link_libraries(unwindalike PRIVATE ${CMAKE_DL_LIBS})
add_dependencies(unwindalike unwindalike_8 unwindalike_64)
