// The program `faulty_entries`: the same main over entries with a fault, which shows what a user sees of one.
#include <algorithm>
#include <stdexcept>

#include "common/cli/program.hpp"
#include "common/matrix/error.hpp"

namespace stages {
namespace {

/// y = 0, whatever is asked.
template <class T>
class ZeroSpmv : public HostSpmvPlan<T> {
 public:
  ZeroSpmv(const SpmvProblem<T>& problem, Exec&) : HostSpmvPlan<T>(problem) {}

 protected:
  void product(const T*, T* y) override { std::fill(y, y + this->a().rows, T{0}); }
};

/// Throws in the middle of its work.
template <class T>
class ThrowingSpmv : public ZeroSpmv<T> {
 public:
  using ZeroSpmv<T>::ZeroSpmv;

 protected:
  void product(const T*, T*) override { throw std::runtime_error("the device is on fire"); }
};

/// Finds that the input is bad.
template <class T>
class RefusingSpmv : public ZeroSpmv<T> {
 public:
  using ZeroSpmv<T>::ZeroSpmv;

 protected:
  void product(const T*, T*) override { throw Error("a call of the library failed; mend it"); }
};

}  // namespace

void add_entries(Registry& registry) {
  registry.add<ZeroSpmv>({.name = "faulty/zero", .idea = "leaves y at zero"});
  registry.add<ThrowingSpmv>({.name = "faulty/throws", .idea = "throws an exception while it runs"});
  registry.add<RefusingSpmv>({.name = "faulty/refuses", .idea = "finds a fault that ends the run"});
}

std::vector<LeftOut> left_out() { return {{"99_missing", "a part that is not there"}}; }

}  // namespace stages
