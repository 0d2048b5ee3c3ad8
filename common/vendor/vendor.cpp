#include "common/vendor/vendor.hpp"

namespace stages {

void add_vendor([[maybe_unused]] Registry& registry) {
#ifdef STAGES_HAVE_EIGEN
  add_vendor_eigen(registry);
#endif
#ifdef STAGES_HAVE_GRAPHBLAS
  add_vendor_graphblas(registry);
#endif
#ifdef STAGES_BACKEND_GPU
  add_vendor_cublas(registry);
  add_vendor_cusparse_spmv(registry);
  add_vendor_cusparse_spmm(registry);
  add_vendor_cusparse_spgemm(registry);
#endif
}

}  // namespace stages
