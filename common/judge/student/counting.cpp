#include "common/judge/student/counting.hpp"

#include "common/matrix/convert.hpp"
#include "common/matrix/error.hpp"
#ifdef STAGES_STUDENT_COUNTS
#include <cstring>
#include <map>

#include "common/lens/recording/code.hpp"
#include "common/lens/recording/counts.hpp"
#include "common/lens/recording/races.hpp"
#include "common/simt/runtime.hpp"
#endif

namespace stages::judge {

#ifdef STAGES_STUDENT_COUNTS

namespace {

constexpr double kMostWrittenOut = 4e6;  ///< elements of A that are written out to be looked for

/// Names arrays of the device by what they hold.
class Names {
 public:
  template <class Array>
  void add(const char* name, const Array& content) {
    look(name, content.data(), content.size() * sizeof(*content.data()));
  }
  std::string of(std::uint64_t begin) const {
    const auto found = names_.find(begin);
    return found == names_.end() ? std::string() : found->second;
  }

 private:
  void look(const char* name, const void* content, std::size_t bytes) {
    if (bytes == 0) return;
    for (const simt::Span& span : arrays_) {
      if (span.bytes >= bytes && std::memcmp(reinterpret_cast<const void*>(span.begin), content, bytes) == 0)
        names_.emplace(span.begin, name);  // the first name stays
    }
  }

  std::vector<simt::Span> arrays_ = simt::global_memory();
  std::map<std::uint64_t, std::string> names_;
};

template <class Problem>
void name_all(Names& names, const Problem& p, const typename Problem::Operands& operands,
              const typename Problem::Result& result) {
  if constexpr (Problem::kOp == Op::spgemm) {
    names.add("values", operands.a_values);
    names.add("columns", p.a->col_idx);
    names.add("rows", p.a->row_ptr);
    names.add("b", operands.b_values);
    names.add("b", p.b->col_idx);
    names.add("b", p.b->row_ptr);
    names.add("c", result.values);
    names.add("c", result.col_idx);
    names.add("c", result.row_ptr);
  } else {
    constexpr bool kVector = Problem::kOp == Op::spmv;
    if constexpr (kVector) names.add("x", operands.x.data);
    if constexpr (!kVector) names.add("b", operands.b.data);
    names.add("values", p.a->values);
    names.add("columns", p.a->col_idx);
    names.add("rows", p.a->row_ptr);
    names.add("rows", std::vector<std::int32_t>(p.a->row_ptr.begin(), p.a->row_ptr.end()));
    if (static_cast<double>(p.a->rows) * p.a->cols <= kMostWrittenOut) {
      for (const Layout layout : {Layout::col_major, Layout::row_major})
        names.add("values", to_dense(*p.a, layout).data);
    }
    names.add(kVector ? "y" : "c", result.data);
  }
}

/// Runs the plan, and returns what `end` returns then.
template <class Problem, class End>
auto looked_at(Plan<Problem>& plan, Exec& exec, End&& end) {
  try {
    plan.run();
    exec.synchronize();
  } catch (...) {
    end();
    throw;
  }
  return end();
}

/// Without what stands for the device language.
std::vector<CountedLine> own_lines(const std::vector<simt::CodeLine>& lines) {
  std::vector<CountedLine> out;
  for (const simt::CodeLine& line : lines)
    if (!simt::is_device_language(line.file))
      out.push_back({line.file.substr(line.file.rfind('/') + 1), line.line});
  return out;
}

}  // namespace

bool can_count() { return simt::has_hooks(); }

template <class Problem>
Counts count(Plan<Problem>& plan, Exec& exec, const Problem& problem,
             const typename Problem::Operands& operands) {
  simt::begin_counting();
  const std::vector<simt::KernelCounts> kernels = looked_at(plan, exec, simt::end_counting);
  Names names;
  name_all(names, problem, operands, plan.fetch());
  std::vector<std::uint64_t> codes;
  for (const simt::KernelCounts& kernel : kernels)
    for (const simt::SiteCounts& site : kernel.sites) codes.push_back(site.code);
  const std::vector<std::vector<simt::CodeLine>> lines = simt::lines_of(codes);
  auto next = lines.begin();
  Counts out;
  for (const simt::KernelCounts& kernel : kernels) {
    out.launches += kernel.launches;
    out.threads += kernel.threads;
    out.read_bytes += kernel.read_sectors * simt::kSectorBytes;
    for (const simt::BarrierCounts& barrier : kernel.barriers) out.barriers += barrier.times;
    for (const simt::SiteCounts& site : kernel.sites) {
      const bool shared = site.space == simt::Space::shared;
      out.sites.push_back({.space = shared ? CountedSpace::shared : CountedSpace::global,
                           .access = static_cast<CountedAccess>(site.access),
                           .bytes = site.bytes,
                           .requests = site.requests,
                           .lanes = site.lanes,
                           .cost = site.cost,
                           .least = site.least,
                           .array = shared ? std::string() : names.of(site.array),
                           .lines = own_lines(*next++)});
    }
  }
  return out;
}

template <class Problem>
RaceCounts look_for_races(Plan<Problem>& plan, Exec& exec) {
  simt::begin_races(true);
  const simt::RaceFindings found = looked_at(plan, exec, simt::end_races);
  return {.races = found.races.size(),
          .first = found.races.empty() ? std::string() : text_of(found.races.front()),
          .shortage = found.shortage,
          .awaited = found.awaited};
}

#else

constexpr const char* kNot = "the kernels of this program cannot be counted";

bool can_count() { return false; }
template <class Problem>
Counts count(Plan<Problem>&, Exec&, const Problem&, const typename Problem::Operands&) {
  fail(kNot);
}
template <class Problem>
RaceCounts look_for_races(Plan<Problem>&, Exec&) {
  fail(kNot);
}

#endif

#define STAGES_INSTANTIATE(P)                                           \
  template Counts count(Plan<P>&, Exec&, const P&, const P::Operands&); \
  template RaceCounts look_for_races(Plan<P>&, Exec&);
STAGES_FOR_EACH_PROBLEM(STAGES_INSTANTIATE)

}  // namespace stages::judge
