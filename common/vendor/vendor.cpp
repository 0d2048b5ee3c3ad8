#include "common/vendor/vendor.hpp"

namespace stages {

void add_vendor([[maybe_unused]] Registry& registry) {
#ifdef STAGES_HAVE_EIGEN
  add_vendor_eigen(registry);
#endif
#ifdef STAGES_HAVE_GRAPHBLAS
  add_vendor_graphblas(registry);
#endif
}

}  // namespace stages
