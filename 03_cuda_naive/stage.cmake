# first.cu is a program of its own, which nvcc compiles alone. For the executor its launches are rewritten, because <<<>>> is
# no C++.
list(FILTER cuda_sources EXCLUDE REGEX "/first[.]cu$")
if(STAGES_CUDA)
  set(first ${dir}/first.cu)
  if(STAGES_BACKEND STREQUAL "cpu")
    set(first ${PROJECT_BINARY_DIR}/generated/first.cu)
    add_custom_command(OUTPUT ${first}
      COMMAND ${CMAKE_COMMAND} -DINPUT=${dir}/first.cu -DOUTPUT=${first}
        -P ${PROJECT_SOURCE_DIR}/cmake/RewriteLaunches.cmake
      DEPENDS ${dir}/first.cu ${PROJECT_SOURCE_DIR}/cmake/RewriteLaunches.cmake VERBATIM)
  endif()
  add_executable(first ${first})
  set_target_properties(first PROPERTIES CXX_STANDARD 20)
  if(STAGES_BACKEND STREQUAL "cpu")
    target_link_libraries(first PRIVATE stages_gpu)
    target_compile_options(first PRIVATE -Wno-conversion -Wno-pedantic)
    set_source_files_properties(${first} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "-x;c++")
  else()
    set_source_files_properties(${first} PROPERTIES LANGUAGE CUDA)
  endif()
endif()
