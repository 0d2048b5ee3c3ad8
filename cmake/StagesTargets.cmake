# The flags that all of our code is compiled with, and the two kinds of library: rooms and steps.

add_library(stages_flags INTERFACE)
# Every target of this directory from here on has them. What links our libraries from outside has not, and so they are not
# linked as a library.
add_compile_options($<TARGET_PROPERTY:stages_flags,INTERFACE_COMPILE_OPTIONS>)
add_link_options($<TARGET_PROPERTY:stages_flags,INTERFACE_LINK_OPTIONS>)
target_compile_options(stages_flags INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-missing-field-initializers>)
# A compiler newer than those that were tried only warns: it knows warnings that nobody has seen here.
if(STAGES_WERROR AND NOT (CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 14)
   AND NOT (CMAKE_CXX_COMPILER_ID MATCHES "Clang" AND CMAKE_CXX_COMPILER_VERSION VERSION_GREATER_EQUAL 17))
  target_compile_options(stages_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Werror>)
endif()
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
  # Less what AddressSanitizer finds, too, at the access itself. Alignment is the kernels' affair (stages_mark_cuda): on a GPU it is
  # a fault. A look at every pointer and at every sum with one is a half of what compiling costs.
  set(STAGES_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize=null,object-size,vptr,alignment,pointer-overflow
    -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_compile_options(stages_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${STAGES_SANITIZE_FLAGS}>)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Instrumented, g++ 12 loses track of what <regex> has set (GCC bug 105562).
    target_compile_options(stages_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-maybe-uninitialized>)
  endif()
  target_link_options(stages_flags INTERFACE ${STAGES_SANITIZE_FLAGS})
endif()
if(STAGES_FUZZ)
  set(STAGES_FUZZ_FLAGS -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined)
  target_compile_options(stages_flags INTERFACE $<$<COMPILE_LANGUAGE:CXX>:${STAGES_FUZZ_FLAGS}>)
  target_link_options(stages_flags INTERFACE -fsanitize=address,undefined)
endif()

# stages_light(TARGET): -O1 for what nobody times. The compiler takes half of its time for it, and what runs is hardly slower.
function(stages_light target)
  target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
endfunction()

# stages_precompile(NAME LINKS ... HEADERS ... [LIGHT] [OPTIONS ...]): the library NAME, which holds nothing but these headers, compiled
# once for all targets of the same flags. stages_precompiled(TARGET NAME): TARGET takes them from there. Nothing depends on
# this: each source includes what it uses, and with STAGES_PCH=OFF it is the same program.
function(stages_precompile name)
  cmake_parse_arguments(PCH "LIGHT" "" "LINKS;HEADERS;OPTIONS" ${ARGN})
  if(NOT STAGES_PCH)
    return()
  endif()
  set(source ${PROJECT_BINARY_DIR}/precompiled/${name}.cpp)
  if(NOT EXISTS ${source})
    file(WRITE ${source} "// The precompiled headers are all that this is for.\n")
  endif()
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${source})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${PCH_LINKS})
  if(PCH_LIGHT)
    stages_light(${name})
  endif()
  target_compile_options(${name} PRIVATE ${PCH_OPTIONS} $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # ccache wants it
  target_precompile_headers(${name} PRIVATE ${PCH_HEADERS})
endfunction()

function(stages_precompiled target name)
  if(STAGES_PCH AND TARGET ${target})
    target_compile_options(${target} PRIVATE $<$<AND:$<CXX_COMPILER_ID:GNU>,$<COMPILE_LANGUAGE:CXX>>:-fpch-preprocess>)
    target_precompile_headers(${target} REUSE_FROM ${name})
  endif()
endfunction()

# stages_room(FOLDER LINKS ...): a library of all sources in common/FOLDER that no such library before has, called after the last
# part of FOLDER: stages_cli, and stages_machines of cli/machines.
function(stages_room folder)
  cmake_parse_arguments(ROOM "" "" "LINKS" ${ARGN})
  get_filename_component(name ${folder} NAME)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/common/${folder}/*.cpp
       ${PROJECT_SOURCE_DIR}/common/${folder}/*/*.cpp)
  get_property(taken GLOBAL PROPERTY STAGES_ROOM_SOURCES)
  list(FILTER sources EXCLUDE REGEX "/main.cpp$")
  list(REMOVE_ITEM sources "" ${taken})
  set_property(GLOBAL APPEND PROPERTY STAGES_ROOM_SOURCES ${sources})
  add_library(stages_${name} STATIC ${sources})
  target_include_directories(stages_${name} PUBLIC ${PROJECT_SOURCE_DIR})
  target_link_libraries(stages_${name} PUBLIC ${ROOM_LINKS})
endfunction()
