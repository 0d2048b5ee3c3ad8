# stages_embed_text(TARGET library INPUT data/builtin.tsv SYMBOL builtin_text): adds to the library a source, made from the text
# whenever that changes, with `extern const std::string_view stages::builtin_text`, so that a program needs no file at run time.
# The same file is the script that makes the source (cmake -DINPUT=... -DOUTPUT=... -DSYMBOL=... -P EmbedText.cmake).
if(CMAKE_SCRIPT_MODE_FILE)
  file(READ "${INPUT}" text)
  if(text MATCHES "\\)embedded\"")
    message(FATAL_ERROR "${INPUT} contains )embedded\", which ends the raw string; change the text")
  endif()
  # Not file(CONFIGURE) or a template: they would replace @ and \${} inside the text.
  file(WRITE "${OUTPUT}" "#include <string_view>\nnamespace stages {\nextern const std::string_view ${SYMBOL};\n"
    "const std::string_view ${SYMBOL} = R\"embedded(" "${text}" ")embedded\";\n}  // namespace stages\n")
  return()
endif()

set(stages_embed_text_script "${CMAKE_CURRENT_LIST_FILE}")
function(stages_embed_text)
  cmake_parse_arguments(arg "" "TARGET;INPUT;SYMBOL" "" ${ARGN})
  get_filename_component(input "${arg_INPUT}" ABSOLUTE)
  set(output "${CMAKE_CURRENT_BINARY_DIR}/${arg_SYMBOL}.cpp")
  add_custom_command(OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" "-DINPUT=${input}" "-DOUTPUT=${output}" "-DSYMBOL=${arg_SYMBOL}" -P "${stages_embed_text_script}"
    DEPENDS "${input}" "${stages_embed_text_script}" COMMENT "Embedding ${arg_INPUT}" VERBATIM)
  set_source_files_properties("${output}" PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  target_sources(${arg_TARGET} PRIVATE "${output}")
endfunction()
