# What `stages grade` builds a student's file with (common/judge/compile.hpp): for each kind of source a target whose source
# defines an add_task that does nothing. Building it makes what all students' programs share, and leaves in grade/ how the compiler
# and the linker were called. Each student's program is then made in a place of its own, by these calls with his file.

# Kernels on the executor, and host code, run under AddressSanitizer: what is out of bounds is named with its line. Only
# the student's file and the executor, which gives out the memory, are compiled for it; a GPU's kernels are out of its reach.
set(sanitize "")
set(executor "")
if(STAGES_BACKEND STREQUAL "cpu" AND NOT STAGES_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(sanitize -fsanitize=address -fno-omit-frame-pointer -g1)
  if(STAGES_CUDA)
    file(GLOB executor CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/common/simt/*.cpp)
  endif()
endif()

add_library(graded_parts OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/common/judge/student/main.cpp)
target_link_libraries(graded_parts PUBLIC stages_student)
stages_light(graded_parts)
stages_precompiled(graded_parts stages_pch_light)
if(executor)
  add_library(graded_executor OBJECT EXCLUDE_FROM_ALL ${executor})
  target_link_libraries(graded_executor PUBLIC stages_simt)
  # It poisons and tells of stacks; its own accesses are not the student's, and are not looked at.
  target_compile_options(graded_executor PRIVATE ${sanitize} --param=asan-stack=0 --param=asan-globals=0
    --param=asan-instrument-reads=0 --param=asan-instrument-writes=0)
endif()

# stages_graded(TARGET): its sources are students' files. Warnings are a student's own affair; -O1 and precompiled headers,
# because somebody waits for the compiler. (A GPU's entries are timed, and so compiled as those of the steps.)
if(sanitize)
  stages_precompile(stages_pch_graded LINKS ${light_links} OPTIONS -O1 ${sanitize} HEADERS ${STAGES_LIGHT_HEADERS})
endif()
function(stages_graded target)
  target_link_libraries(${target} PRIVATE graded_parts)
  target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-Wno-error>)
  if(sanitize)
    target_compile_options(${target} PRIVATE -O1 ${sanitize})
    target_link_options(${target} PRIVATE ${sanitize})
    stages_precompiled(${target} stages_pch_graded)
  endif()
  if(executor)
    target_link_libraries(${target} PRIVATE graded_executor)
  endif()
endfunction()

# stages_recorded(TARGET): how the compiler and the linker are called for it is left in grade/. Names are those that they have where
# both are called, in the build's directory: CMake quotes nothing in RULE_LAUNCH_LINK.
configure_file(cmake/record.sh grade/record.sh COPYONLY)
function(stages_recorded target)
  set(record "sh;grade/record.sh;grade/${target}.compile")
  set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "${record}" CUDA_COMPILER_LAUNCHER "${record}"
    RULE_LAUNCH_LINK "sh grade/record.sh grade/${target}.link")
endfunction()

# stages_graded_counted(TARGET): the same, and the lens counts what its kernels do. What AddressSanitizer watches it cannot count.
function(stages_graded_counted target)
  target_link_libraries(${target} PRIVATE graded_parts)
  target_compile_options(${target} PRIVATE -Wno-error)
  stages_counted(${target})
endfunction()

foreach(kind cpp cu)
  set(source ${PROJECT_BINARY_DIR}/grade/student.${kind})
  file(CONFIGURE OUTPUT ${source} CONTENT
    "#include \"common/harness/registry.hpp\"\n// Where a student's file goes.\nnamespace stages { void add_task(Registry&) {} }\n")
  if(kind STREQUAL "cpp" OR STAGES_CUDA)
    add_executable(graded_${kind} EXCLUDE_FROM_ALL ${source})
    stages_graded(graded_${kind})
    stages_recorded(graded_${kind})
  endif()
endforeach()
if(STAGES_CUDA)
  stages_mark_cuda(graded_cu ${PROJECT_BINARY_DIR}/grade/student.cu)
  if(STAGES_LENS_FLAGS)
    add_executable(counted_cu EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/grade/student.cu)
    stages_graded_counted(counted_cu)
    stages_recorded(counted_cu)
    stages_cuda_sources(counted_cu ${PROJECT_BINARY_DIR}/grade/student.cu)
  endif()
endif()
