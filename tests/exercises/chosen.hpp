#pragma once
// The exercises that are in this program, by names such as "task/05_cuda_csr/warp_per_row.cu".

namespace stages {

class Registry;

/// Adds an exercise before main() begins.
bool add_exercise(const char* name, void (*add_task)(Registry&));

}  // namespace stages
