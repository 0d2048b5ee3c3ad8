// What a tensor core does with the tiles of a warp.

#include <bit>
#include <cmath>
#include <cstdint>

#include "common/simt/thread.hpp"

namespace stages::simt {
namespace {

constexpr std::uint32_t kIgnored = 0x1fff;  ///< bits of a float that TF32 does not have

/// What a tensor core sees of a float.
double seen(float value) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & ~kIgnored); }

float towards_zero(double sum) {
  const auto nearest = static_cast<float>(sum);
  const bool is_beyond = std::isfinite(sum) && std::abs(static_cast<double>(nearest)) > std::abs(sum);
  return is_beyond ? std::nextafter(nearest, 0.0F) : nearest;
}

}  // namespace

float nearest_tf32(float value) {
  if (!std::isfinite(value)) return value;
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(value) + (kIgnored + 1) / 2) & ~kIgnored);
}

void multiply(const std::array<TileOperands, 32>& lanes) {
  std::array<std::array<double, 8>, 16> a = {};
  std::array<std::array<double, 8>, 8> b = {};
  for (std::size_t lane = 0; lane < 32; ++lane) {
    const std::size_t g = lane / 4, k = lane % 4;
    const TileOperands& mine = lanes[lane];
    for (std::size_t half = 0; half < 2; ++half) {
      a[g][k + 4 * half] = seen(mine.a[2 * half]);
      a[g + 8][k + 4 * half] = seen(mine.a[2 * half + 1]);
      b[k + 4 * half][g] = seen(mine.b[half]);
    }
  }
  for (std::size_t lane = 0; lane < 32; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      double sum = lanes[lane].d[i];
      for (std::size_t k = 0; k < 8; ++k) sum += a[row][k] * b[k][column];
      lanes[lane].d[i] = towards_zero(sum);
    }
  }
}

}  // namespace stages::simt
