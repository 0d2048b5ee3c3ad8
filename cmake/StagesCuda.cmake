# How CUDA sources (.cu) are compiled. stages_cuda_sources(TARGET SOURCES...) marks those sources of a target: as C++20 against the
# executor (cpu), or by nvcc for CMAKE_CUDA_ARCHITECTURES (gpu). It also makes the libraries stages_gpu and, on cpu, stages_simt, and
# sets STAGES_CUDA to say whether all of this can be had here; if not, the steps that hold them are left out with a note.
set(STAGES_CUDA OFF)

# stages_architectures(OUT): those of this machine's GPUs, or, where there is none, some that all devices from 7.5 on run:
# the last one's PTX is what the driver compiles for later ones. (CMake's own `native` came with 3.24.) A GPU that this nvcc does
# not know gets the PTX of the last that it knows.
function(stages_architectures out)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE capabilities ERROR_QUIET RESULT_VARIABLE failed)
  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-arch OUTPUT_VARIABLE known ERROR_QUIET)
  set(architectures "")
  if(failed EQUAL 0)
    string(REGEX MATCHALL "[0-9]+[.][0-9]" capabilities "${capabilities}")
    foreach(capability IN LISTS capabilities)
      string(REPLACE "." "" number ${capability})
      if(number LESS 75)
        message(STATUS "no code for a GPU of compute capability ${capability}: the kernels need 7.5 or later")
      elseif(known AND NOT known MATCHES "compute_${number}[^0-9]")
        string(REGEX MATCHALL "[0-9]+" numbers "${known}")
        list(SORT numbers COMPARE NATURAL)
        list(GET numbers -1 newest)
        list(APPEND architectures ${newest}-virtual)
      else()
        list(APPEND architectures ${number})
      endif()
    endforeach()
    list(REMOVE_DUPLICATES architectures)
  endif()
  if(NOT architectures)
    set(architectures 75-real 80-real 90)
  endif()
  set(${out} "${architectures}" PARENT_SCOPE)
endfunction()

if(STAGES_BACKEND STREQUAL "gpu")
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "STAGES_BACKEND=gpu needs nvcc: put it on PATH or set CMAKE_CUDA_COMPILER; or use the preset cpu")
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES AND DEFINED ENV{CUDAARCHS})
    set(CMAKE_CUDA_ARCHITECTURES "$ENV{CUDAARCHS}" CACHE STRING "Compute capabilities to compile for")
  endif()
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES OR CMAKE_CUDA_ARCHITECTURES STREQUAL "native")
    stages_architectures(architectures)
    set(CMAKE_CUDA_ARCHITECTURES "${architectures}" CACHE STRING "Compute capabilities to compile for" FORCE)
    message(STATUS "CUDA kernels are compiled for ${CMAKE_CUDA_ARCHITECTURES}")
  endif()
  enable_language(CUDA)
  if(CMAKE_CUDA_COMPILER_VERSION VERSION_LESS 12.4)
    message(FATAL_ERROR "CUDA ${CMAKE_CUDA_COMPILER_VERSION} is too old: 12.4 is needed; set CMAKE_CUDA_COMPILER to a later nvcc")
  endif()
  # CMake 3.25 knows nvcc's C++20 only up to another version of it.
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  find_package(CUDAToolkit REQUIRED)
  set(STAGES_CUDA ON)
  # What nvcc accepts is the same, and a large kernel is compiled in a third of the time. Not every nvcc has it.
  option(STAGES_FAST_NVCC "Kernels that are compiled soon, and are slow" OFF)
  if(STAGES_FAST_NVCC)
    execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --help OUTPUT_VARIABLE nvcc_options ERROR_QUIET)
    if(nvcc_options MATCHES "--Ofast-compile")
      add_compile_options("$<$<COMPILE_LANGUAGE:CUDA>:--Ofast-compile=max>")
    endif()
  endif()
else()
  find_package(Boost ${STAGES_BOOST_LEAST} COMPONENTS context)
  if(NOT TARGET Boost::context)
    message(STATUS "CUDA steps are left out: the executor needs Boost.Context (Debian: libboost-context-dev)")
  else()
    set(STAGES_CUDA ON)
  endif()
endif()

# The fmt switch is for nvcc's front end, for which fmt 9 turns its constexpr functions off and still calls them in
# constant expressions.
function(stages_mark_cuda target)
  if(STAGES_BACKEND STREQUAL "gpu")
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CUDA)
    target_compile_options(${target} PRIVATE
      "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;--extended-lambda;-lineinfo;-DFMT_USE_CONSTEXPR=1;-Xcompiler=-Wall,-Wextra>")
  else()
    # The twins of CUDA's vectors end in arrays of no size (vector_types.hpp), which is no ISO C++.
    set(options -x c++ -Wno-unknown-pragmas -Wno-pedantic)
    if(STAGES_SANITIZE)
      list(APPEND options -fsanitize=alignment)
    endif()
    set_source_files_properties(${ARGN} PROPERTIES LANGUAGE CXX COMPILE_OPTIONS "${options}")
  endif()
endfunction()

# The calls that the lens (common/lens/recording) lives on, before each load and store and in place of each atomic, with the lines
# that they are of. The code stays in the order of the source, and memcpy and memset stay calls.
set(STAGES_LENS_FLAGS "")
if(STAGES_BACKEND STREQUAL "cpu" AND NOT STAGES_SANITIZE AND NOT STAGES_FUZZ AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(STAGES_LENS_FLAGS -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 --param=tsan-distinguish-volatile=1 -Wno-tsan -g1
    -fno-reorder-blocks -fno-crossjumping -fno-optimize-sibling-calls -fno-builtin-memcpy -fno-builtin-memset)
endif()

function(stages_cuda_sources target)
  target_link_libraries(${target} PUBLIC stages_gpu)
  stages_mark_cuda(${target} ${ARGN})
endfunction()

# stages_counted(TARGET): the lens can count the kernels of this target. All that it compiles is for the executor.
function(stages_counted target)
  target_link_libraries(${target} PUBLIC stages_recording)
  stages_light(${target})
  target_compile_options(${target} PRIVATE ${STAGES_LENS_FLAGS})
  stages_precompiled(${target} stages_pch_kernels)
endfunction()

if(STAGES_CUDA)
  if(NOT STAGES_BACKEND STREQUAL "gpu")
    stages_room(simt LINKS stages_matrix Boost::context)
    stages_precompiled(stages_simt stages_pch_std)
    if(STAGES_SANITIZE AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
      # All threads of all kernels pass here at each warp function: its frames are not surrounded, and all that it reaches by an
      # address is looked at as elsewhere.
      target_compile_options(stages_simt PRIVATE --param=asan-stack=0)
    endif()
    # The part of the lens that records, and that programs have whose kernels it can count.
    file(GLOB recording CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/common/lens/recording/*.cpp)
    add_library(stages_recording STATIC ${recording})
    target_link_libraries(stages_recording PUBLIC stages_simt)
    target_compile_definitions(stages_recording PRIVATE STAGES_LENS_HOOKS=$<IF:$<BOOL:${STAGES_LENS_FLAGS}>,1,0>
      "STAGES_ROOT=\"${PROJECT_SOURCE_DIR}\"")
    stages_precompiled(stages_recording stages_pch_std)
    # The search for races is one source to the compiler: with calls between its parts inlined it takes some 4 % less time.
    file(GLOB races ${PROJECT_SOURCE_DIR}/common/lens/recording/race*.cpp)
    set_source_files_properties(${races} PROPERTIES UNITY_GROUP races)
    set_target_properties(stages_recording PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
  endif()
  set(gpu_sources common/gpu/architectures.cpp common/gpu/check.cpp common/gpu/facts.cpp common/gpu/exec.cpp common/gpu/nvml.cpp
    common/gpu/rules.cpp common/gpu/trace.cpp)
  # Of the toolkit that compiles: the loader need not know its directory.
  set_source_files_properties(common/gpu/trace.cpp PROPERTIES COMPILE_DEFINITIONS "STAGES_CUPTI=\"${CUDAToolkit_LIBRARY_DIR}/libcupti.so\"")
  if(STAGES_BACKEND STREQUAL "gpu")
    add_library(stages_gpu STATIC ${gpu_sources} common/gpu/probe.cu common/gpu/scan_cub.cu)
    string(REPLACE ";" "," architectures "${CMAKE_CUDA_ARCHITECTURES}")
    set_source_files_properties(common/gpu/facts.cpp PROPERTIES COMPILE_DEFINITIONS "STAGES_ARCHITECTURES=\"${architectures}\"")
    target_compile_definitions(stages_gpu PUBLIC STAGES_BACKEND_GPU)
    target_link_libraries(stages_gpu PUBLIC stages_harness CUDA::cudart_static ${CMAKE_DL_LIBS})
    stages_mark_cuda(stages_gpu common/gpu/probe.cu common/gpu/scan_cub.cu)
  else()
    add_library(stages_gpu STATIC ${gpu_sources} common/gpu/scan_simulated.cpp)
    target_link_libraries(stages_gpu PUBLIC stages_harness stages_simt ${CMAKE_DL_LIBS})
  endif()
  stages_embed_text(TARGET stages_gpu INPUT data/rules.txt SYMBOL rules_text)
endif()
