# SPDX-License-Identifier: Apache-2.0
# The same programs on other kernels; a directory of its own.
add_subdirectory(${CMAKE_SOURCE_DIR}/tests/kernels ${CMAKE_BINARY_DIR}/tests/kernels)
