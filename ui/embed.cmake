# SPDX-License-Identifier: Apache-2.0
# cmake -DFILES="a;b" -DOUTPUT=assets.c -P embed.cmake: the files as a table of C arrays.
set(type_html "text/html; charset=utf-8")
set(type_css "text/css; charset=utf-8")
set(type_js "text/javascript; charset=utf-8")

set(arrays "")
set(rows "")
foreach(path IN LISTS FILES)
  get_filename_component(name "${path}" NAME)
  get_filename_component(extension "${path}" LAST_EXT)
  string(SUBSTRING "${extension}" 1 -1 extension)
  string(MAKE_C_IDENTIFIER "${name}" identifier)
  file(READ "${path}" bytes HEX)
  string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
  string(APPEND arrays "static const unsigned char ${identifier}[] = {\n${bytes}\n};\n")
  string(APPEND rows
    "\t{ \"${name}\", \"${type_${extension}}\", ${identifier}, sizeof(${identifier}) },\n")
endforeach()

file(WRITE "${OUTPUT}" "#include \"ui/assets.h\"\n\n${arrays}
const struct fp_ui_asset fp_ui_assets[] = {\n${rows}};
const size_t fp_ui_assets_count = sizeof(fp_ui_assets) / sizeof(fp_ui_assets[0]);\n")
