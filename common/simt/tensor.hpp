#pragma once
// What a tensor core does with the tiles of a warp.

#include <array>

#include "common/simt/executor.hpp"

namespace stages::simt {

/// d += a b with 16 x 8, 8 x 8 and 16 x 8 elements, which the lanes hold as common/gpu/tensor.hpp tells. The
/// lower 13 bits of a and b are ignored. Each sum of products and old d is exact here until it is rounded
/// towards zero to a float: so hardware rounds, which drops low bits of products besides.
/// Source: H. Ootomo and R. Yokota ("Recovering single precision accuracy from Tensor Cores while surpassing
/// the FP32 theoretical peak performance", IJHPCA 2022).
void multiply(const std::array<TileOperands, 32>& lanes);

}  // namespace stages::simt
