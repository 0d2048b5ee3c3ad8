# Makes a file of plain CUDA into one for the executor:
#   cmake -DINPUT=first.cu -DOUTPUT=generated/first.cu -P cmake/RewriteLaunches.cmake
# kernel<<<grid, block>>>(arguments) becomes stages::launch(kernel, {.grid = grid, .block = block}, arguments). All else
# stays, line by line; messages name the lines of INPUT.
file(READ "${INPUT}" text)
string(REGEX REPLACE "([A-Za-z_0-9]+)<<<([^,<>]+), *([^,<>]+)>>>\\(" "stages::launch(\\1, {.grid = dim3(\\2), .block = dim3(\\3)}, "
  rewritten "${text}")
string(REGEX REPLACE "//[^\n]*" "" code "${rewritten}")
if(rewritten STREQUAL text OR code MATCHES "<<<|>>>")
  message(FATAL_ERROR "${INPUT}: a launch must be written as kernel<<<grid, block>>>(arguments), without more options")
endif()
file(WRITE "${OUTPUT}" "#include \"common/gpu/cuda.hpp\"\n#include \"common/gpu/launch.hpp\"\n#line 1 \"${INPUT}\"\n${rewritten}")
