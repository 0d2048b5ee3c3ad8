# All of this step a second time, without optimisation, in a program of its own: what D2's first line compares. Not in the same
# program, where each inline function would be there once, compiled in one way or the other.
add_executable(${stage}_O0 ${host_sources} ${PROJECT_BINARY_DIR}/registration/${stage}.cpp
  ${PROJECT_SOURCE_DIR}/common/programs/host_step.cpp ${PROJECT_SOURCE_DIR}/common/harness/build_info.cpp)
target_compile_options(${stage}_O0 PRIVATE -O0)
target_compile_definitions(${stage}_O0 PRIVATE "STAGES_MORE_FLAGS=\" -O0\"")  # build_info.cpp tells them
target_link_libraries(${stage}_O0 PRIVATE stages_cli stages_host_machine)
set_target_properties(${stage}_O0 PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)  # seconds instead of half a minute
