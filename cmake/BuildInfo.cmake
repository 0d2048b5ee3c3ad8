# What this build is: compiler, flags, and a digest of the contents of the source files, which results carry so that
# they can be traced. The digest covers code and build files (not results/, not *.md), by content, without git. Lines that
# hold a C++ comment and nothing else do not count: they change no program, so a better word makes no record old.

set(STAGES_DIGEST_PATTERNS *.cpp *.hpp *.cu *.cuh *.cmake CMakeLists.txt)

# Run as a script (cmake -DOUTPUT=... -DROOT=... -P BuildInfo.cmake): writes OUTPUT if the digest changed; without OUTPUT
# prints the digest. With -DGPU=ON only the sources count that a GPU's records depend on: CUDA steps, device code, vendors; with
# -DSTEPS="05;08" too only these steps. What is for several GPUs belongs to step 8. -DJOULES=ON: what asks for joules counts, too.
if(CMAKE_SCRIPT_MODE_FILE)
  if(GPU)
    if(NOT STEPS)
      set(STEPS 03 04 05 06 07 08)
    endif()
    set(places ${ROOT}/common/gpu ${ROOT}/common/vendor)
    if("${STEPS}" MATCHES "08")
      list(APPEND places ${ROOT}/common/multigpu)
    endif()
    foreach(step IN LISTS STEPS)
      file(GLOB found LIST_DIRECTORIES true ${ROOT}/${step}_*)
      list(APPEND places ${found})
    endforeach()
    set(files "")
  else()
    file(GLOB places LIST_DIRECTORIES true ${ROOT}/[0-9][0-9]_* ${ROOT}/common ${ROOT}/cmake)
    set(files CMakeLists.txt)
  endif()
  foreach(place IN LISTS places)
    foreach(pattern IN LISTS STAGES_DIGEST_PATTERNS)
      file(GLOB_RECURSE found RELATIVE ${ROOT} ${place}/${pattern})
      list(APPEND files ${found})
    endforeach()
  endforeach()
  list(FILTER files EXCLUDE REGEX "/exercises/")  # no part of what results come from
  if(GPU AND NOT JOULES)
    list(FILTER files EXCLUDE REGEX "^common/gpu/nvml[.]")  # the host asks the driver; no kernel and no time comes from it
  endif()
  list(REMOVE_DUPLICATES files)
  list(SORT files)
  set(all "")
  foreach(file IN LISTS files)
    file(READ ${ROOT}/${file} code)
    string(REGEX REPLACE "\n[ \t]*//[^\n]*" "" code "\n${code}")
    string(SHA256 digest "${code}")
    string(APPEND all "${file} ${digest}\n")
  endforeach()
  string(SHA256 digest "${all}")
  if(NOT OUTPUT)
    message("${digest}")
    return()
  endif()
  set(text "#define STAGES_SOURCE_DIGEST \"${digest}\"\n")
  set(old "")
  if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} old)
  endif()
  if(NOT old STREQUAL text)
    file(WRITE ${OUTPUT} "${text}")
  endif()
  return()
endif()

function(stages_build_info target)
  set(header ${PROJECT_BINARY_DIR}/generated/stages_source_digest.hpp)
  add_custom_target(stages_source_digest BYPRODUCTS ${header}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${header} -DROOT=${PROJECT_SOURCE_DIR} -P ${PROJECT_SOURCE_DIR}/cmake/BuildInfo.cmake
    COMMENT "Digest of the sources" VERBATIM)
  add_dependencies(${target} stages_source_digest)
  get_target_property(options stages_flags INTERFACE_COMPILE_OPTIONS)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  string(REGEX REPLACE "\\$<[^:]*:[A-Z]+>?:|>" "" options "${options}")
  string(REPLACE ";" " " flags "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}} ${options}")
  string(REGEX REPLACE "\\$<\\$<COMPILE_LANGUAGE:CXX>:" "" flags "${flags}")
  string(STRIP "${flags}" flags)
  set_source_files_properties(${PROJECT_SOURCE_DIR}/common/harness/build_info.cpp PROPERTIES
    INCLUDE_DIRECTORIES ${PROJECT_BINARY_DIR}/generated
    COMPILE_DEFINITIONS "STAGES_COMPILER=\"${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}\";STAGES_FLAGS=\"${flags}\";STAGES_BACKEND=\"${STAGES_BACKEND}\";STAGES_VERSION=\"${PROJECT_VERSION}\"")
endfunction()
