// Matrices whose entries lie anywhere with the same probability, in as many rows and columns as asked:
// uniform, a fixed number per row, hypersparse; and a rectangular one with the structure of linear programs.
//
// Exactly as many distinct entries as asked come from a pseudo-random permutation of the cells (or of a row's
// columns): its first nnz values are nnz different cells, computed one by one, without a list of those taken.

#include <fmt/format.h>

#include <algorithm>

#include "common/matrix/generators/generators.hpp"
#include "common/matrix/random.hpp"

namespace stages::recipes {
namespace {

using random::Purpose;
using random::Word;

struct Shape {
  Index rows, cols;
};

/// rows and cols, each n where it is not given.
Shape shape(const Parameters& p) {
  return {p.index(p.given("rows") ? "rows" : "n"), p.index(p.given("cols") ? "cols" : "n")};
}

Recipe distinct_cells(const Parameters& p, Shape s, Offset nnz) {
  const Offset cells = Offset{s.rows} * s.cols;
  if (nnz > cells) {
    p.reject(fmt::format("{} entries do not fit into {} x {}, which has {} places; ask for fewer", nnz,
                         s.rows, s.cols, cells));
  }
  const random::Permutation permuted(static_cast<Word>(std::max<Offset>(cells, 1)),
                                     random::key(p.seed(), Purpose::cells));
  return drawn_recipe(s.rows, s.cols, nnz, false, [=](Offset k) {
    const Word cell = permuted(static_cast<Word>(k));
    const auto cols = static_cast<Word>(s.cols);
    return Place{static_cast<Index>(cell / cols), static_cast<Index>(cell % cols)};
  });
}

// --- uniform -----------------------------------------------------------------------------------------------

constexpr GeneratorParameter kUniformParameters[] = {
    {"n", "4096", "rows and columns"},
    {"rows", "", "rows, if not n"},
    {"cols", "", "columns, if not n"},
    {"per_row", "8", "mean entries per row: nnz = per_row * rows"},
    {"nnz", "", "entries, exactly"},
    kSeed,
    kValues,
};

Recipe plan_uniform(const Parameters& p) {
  if (p.given("nnz") && p.given("per_row")) p.reject("give nnz or per_row, not both");
  const Shape s = shape(p);
  const Offset nnz =
      p.given("nnz") ? p.count("nnz", 0, Offset{1} << 40) : p.count("per_row", 0, Offset{1} << 31) * s.rows;
  return distinct_cells(p, s, nnz);
}

constexpr GeneratorParameter kHypersparseParameters[] = {
    {"n", "1e7", "rows and columns"},
    {"rows", "", "rows, if not n"},
    {"cols", "", "columns, if not n"},
    {"nnz", "1e5", "entries, exactly; fewer than rows makes most rows empty"},
    kSeed,
    kValues,
};

Recipe plan_hypersparse(const Parameters& p) {
  return distinct_cells(p, shape(p), p.count("nnz", 0, Offset{1} << 40));
}

// --- fixed -------------------------------------------------------------------------------------------------

constexpr GeneratorParameter kFixedParameters[] = {
    {"n", "1024", "rows and columns"},
    {"rows", "", "rows, if not n"},
    {"cols", "", "columns, if not n"},
    {"zeros", "0.8", "share of each row that is zero"},
    {"per_row", "", "entries of each row, instead of zeros"},
    kSeed,
    kValues,
};

Recipe plan_fixed(const Parameters& p) {
  if (p.given("zeros") && p.given("per_row")) p.reject("give zeros or per_row, not both");
  const Shape s = shape(p);
  // Rounded to the nearest count of zeros: 80 % of 1024 is 819, and 205 entries remain.
  const auto rounded_zeros =
      static_cast<Index>((static_cast<Word>(s.cols) * p.share("zeros") + (Word{1} << 31U)) >> 32U);
  const Offset per_row = p.given("per_row") ? p.count("per_row", 0, s.cols) : s.cols - rounded_zeros;
  const Word key = random::key(p.seed(), Purpose::row_sample);
  return drawn_recipe(s.rows, s.cols, per_row * s.rows, false, [=](Offset k) {
    const Offset row = k / per_row;
    const random::Permutation columns(static_cast<Word>(s.cols), random::mix(key ^ static_cast<Word>(row)));
    return Place{static_cast<Index>(row), static_cast<Index>(columns(static_cast<Word>(k % per_row)))};
  });
}

// --- lp ----------------------------------------------------------------------------------------------------

constexpr GeneratorParameter kLpParameters[] = {
    {"rows", "2e3", "constraints"},
    {"cols", "2e4", "variables"},
    {"per_col", "6", "entries drawn per column; repeats fall out afterwards"},
    {"blocks", "20", "groups of variables, each with constraints of its own"},
    {"coupling_rows", "20", "constraints that variables of all groups share: long rows"},
    {"coupling", "0.15", "share of the entries that lie in coupling rows"},
    kSeed,
    kValues,
};

Recipe plan_lp(const Parameters& p) {
  const Index rows = p.index("rows", 2), cols = p.index("cols", 1);
  const Offset per_col = p.count("per_col", 0, rows);
  const auto coupling_rows = static_cast<Word>(p.count("coupling_rows", 1, rows - 1));
  const Word own_rows = static_cast<Word>(rows) - coupling_rows;
  const auto blocks = static_cast<Word>(p.count("blocks", 1, static_cast<Offset>(own_rows)));
  const Word coupling = p.share("coupling");
  const Word key = random::key(p.seed(), Purpose::edges);
  return drawn_recipe(rows, cols, per_col * cols, false, [=](Offset k) {
    random::Stream words(key, static_cast<Word>(k));
    const auto col = static_cast<Word>(k / per_col);
    if ((words.next() >> 32U) < coupling)
      return Place{static_cast<Index>(words.below(coupling_rows)), static_cast<Index>(col)};
    const Word block = col * blocks / static_cast<Word>(cols);
    const Word begin = block * own_rows / blocks, end = (block + 1) * own_rows / blocks;
    return Place{static_cast<Index>(coupling_rows + begin + words.below(end - begin)),
                 static_cast<Index>(col)};
  });
}

constexpr Generator kRandomMatrices[] = {
    {{"uniform", "no structure at all, exactly nnz entries: the even case", "gen:uniform:n=1e5,per_row=8",
      kUniformParameters},
     plan_uniform},
    {{"fixed", "the same number of entries in every row, at random columns: pruned dense layers",
      "gen:fixed:n=1024,zeros=0.8", kFixedParameters},
     plan_fixed},
    {{"hypersparse",
      "fewer entries than rows: blocks of a distributed graph, one time step of a network's traffic",
      "gen:hypersparse:n=1e7,nnz=1e5", kHypersparseParameters},
     plan_hypersparse},
    {{"lp", "constraints of a linear program: wide, blocks of variables, a few long coupling rows",
      "gen:lp:rows=2e3,cols=2e4,per_col=6", kLpParameters},
     plan_lp},
};

}  // namespace

std::span<const Generator> random_generators() {
  return kRandomMatrices;
}

}  // namespace stages::recipes
