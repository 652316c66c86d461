# SPDX-License-Identifier: Apache-2.0
# cmake -D OUTPUT=file.c -D "ASSETS=a.css;b.js" -P embed.cmake
# Writes each asset as `const char fp_asset_<name>_<ext>[]`, NUL-terminated.
set(text "/* made from profile/svg by embed.cmake */\n#include \"svgassets.h\"\n")
set(sixteen "................................")
foreach(asset IN LISTS ASSETS)
  get_filename_component(name ${asset} NAME)
  string(REPLACE "." "_" name ${name})
  file(READ ${asset} hex HEX)
  string(REGEX REPLACE "(${sixteen})" "\\1\n" hex "${hex}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
  string(APPEND text "const char fp_asset_${name}[] = {\n${bytes}0x00 };\n")
endforeach()
file(WRITE ${OUTPUT} "${text}")
