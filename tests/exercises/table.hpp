#pragma once
// The exercises that are in this program, by names such as "task/05_cuda_csr/warp_per_row.cu".

#include <map>
#include <string>

namespace stages {

class Registry;
using AddTask = void (*)(Registry&);

const std::map<std::string, AddTask>& all_exercises();

}  // namespace stages
