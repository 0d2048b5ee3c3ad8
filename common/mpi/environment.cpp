#include "common/mpi/environment.hpp"

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>

#include "common/matrix/error.hpp"

namespace stages::mpi {
namespace {

std::int64_t number_of(const char* name, std::int64_t fallback, std::int64_t most) {
  const char* const given = std::getenv(name);
  if (given == nullptr) return fallback;
  const std::string_view text = given;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || value < 1 || value > most)
    fail("{}={}: give a whole number from 1 to {}, or leave it out", name, text, most);
  return value;
}

}  // namespace

bool started_by_mpirun() {
  for (const char* const name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

int pretend_nodes() { return static_cast<int>(number_of("STAGES_MPI_NODES", 1, 1 << 20)); }

std::size_t chunk_bytes_wanted() {
  return static_cast<std::size_t>(
      number_of("STAGES_MPI_CHUNK_BYTES", std::int64_t{1} << 30, std::numeric_limits<std::int32_t>::max()));
}

}  // namespace stages::mpi
