# Turns a text file into a C++ source that defines it as a string, so that a program needs no file at run time.
#
#   include(EmbedText)
#   stages_embed_text(TARGET library INPUT data/builtin.tsv SYMBOL builtin_text)
#
# adds to the target a generated source with `extern const std::string_view stages::SYMBOL`. The source is made
# again whenever the text changes. The same file is the script that makes it, and can be called by hand:
#
#   cmake -DINPUT=data/builtin.tsv -DOUTPUT=builtin_text.cpp -DSYMBOL=builtin_text -P cmake/EmbedText.cmake

if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${INPUT}" text)
  string(FIND "${text}" ")embedded\"" delimiter_in_text)
  if(NOT delimiter_in_text EQUAL -1)
    message(FATAL_ERROR "${INPUT} contains )embedded\", which ends the raw string; change the text")
  endif()
  get_filename_component(name "${INPUT}" NAME)
  # Not file(CONFIGURE) or a template: they would replace @ and \${} inside the text.
  file(WRITE "${OUTPUT}"
    "// Made from ${name} by EmbedText.cmake.\n"
    "#include <string_view>\n"
    "namespace stages {\n"
    "extern const std::string_view ${SYMBOL};\n"
    "const std::string_view ${SYMBOL} = R\"embedded(" "${text}" ")embedded\";\n"
    "}  // namespace stages\n")
  return()
endif()

set(_stages_embed_text_script "${CMAKE_CURRENT_LIST_FILE}" CACHE INTERNAL "The script that embeds texts")

function(stages_embed_text)
  cmake_parse_arguments(arg "" "TARGET;INPUT;SYMBOL" "" ${ARGN})
  get_filename_component(input "${arg_INPUT}" ABSOLUTE)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${arg_SYMBOL}.cpp")
  add_custom_command(
    OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DINPUT=${input}" "-DOUTPUT=${output}" "-DSYMBOL=${arg_SYMBOL}"
            -P "${_stages_embed_text_script}"
    DEPENDS "${input}" "${_stages_embed_text_script}"
    COMMENT "Embedding ${arg_INPUT}"
    VERBATIM)
  set_source_files_properties("${output}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${arg_TARGET} PRIVATE "${output}")
endfunction()
