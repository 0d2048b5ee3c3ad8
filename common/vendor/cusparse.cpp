#include "common/vendor/cusparse.hpp"

namespace stages::cusparse {

void check(cusparseStatus_t status, const char* call, std::source_location where) {
  if (status == CUSPARSE_STATUS_SUCCESS) return;
  const std::string text = fmt::format("{}:{}: {} failed: {} ({})", where.file_name(), where.line(), call,
                                       cusparseGetErrorName(status), cusparseGetErrorString(status));
  if (status == CUSPARSE_STATUS_ALLOC_FAILED || status == CUSPARSE_STATUS_INSUFFICIENT_RESOURCES)
    throw OutOfMemory(text);
  throw Error(text);
}

}  // namespace stages::cusparse
