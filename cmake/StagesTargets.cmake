# The flags that all of our code is compiled with, and the two kinds of library: rooms and steps.

add_library(stages_flags INTERFACE)
target_include_directories(stages_flags INTERFACE ${CMAKE_SOURCE_DIR})
target_compile_options(stages_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers -Werror>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies in every `"text" + string` (GCC bug 105651).
  target_compile_options(stages_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 13)
  # g++ 13 sees copies beyond the end of vectors that it has just allocated itself (GCC bugs 105762, 107852).
  target_compile_options(stages_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:-Wno-stringop-overflow;-Wno-array-bounds>")
endif()
if(STAGES_NATIVE)
  target_compile_options(stages_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-march=native>)
endif()
if(STAGES_SANITIZE)
  set(STAGES_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer -g)
  target_compile_options(stages_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${STAGES_SANITIZE_FLAGS}>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented, g++ 12 loses track of what <regex> has set (GCC bug 105562).
    target_compile_options(stages_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
  target_link_options(stages_flags INTERFACE ${STAGES_SANITIZE_FLAGS})
endif()
if(STAGES_FUZZ)
  set(STAGES_FUZZ_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined -g)
  target_compile_options(stages_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${STAGES_FUZZ_FLAGS}>)
  target_link_options(stages_flags INTERFACE -fsanitize=address,undefined)
endif()

# stages_room(NAME LINKS ...): the library stages_NAME of all sources in common/NAME.
function(stages_room name)
  cmake_parse_arguments(ROOM "" "" "LINKS" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/common/${name}/*.cpp
       ${CMAKE_SOURCE_DIR}/common/${name}/*/*.cpp)
  list(FILTER sources EXCLUDE REGEX "/main.cpp$")
  add_library(stages_${name} STATIC ${sources})
  target_link_libraries(stages_${name} PUBLIC stages_flags ${ROOM_LINKS})
endfunction()
