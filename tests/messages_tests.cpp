// What a judge and a student's process say to each other: it arrives as it was sent, and of what is cut, too
// long or made up nothing arrives.
#include "common/judge/student/messages.hpp"

#include "common/battery/matrices.hpp"
#include "tests/expect.hpp"

namespace stages::judge {
namespace {

template <class T>
std::shared_ptr<const Csr<T>> matrix() {
  return share<T>(matrices::uneven(7, 9, 3));
}

template <class Problem>
Bytes bytes_of(const Problem& problem) {
  Writer out;
  put_problem(out, problem);
  return out.take();
}

template <class Problem>
Problem arrived(const Bytes& bytes) {
  Reader in(bytes);
  const ProblemKind kind = take_kind(in);
  EXPECT_EQ(kind.op, Problem::kOp);
  EXPECT_EQ(kind.single_precision, (std::is_same_v<typename Problem::Value, float>));
  Problem problem;
  take_problem(in, problem);
  return problem;
}

SpmmProblem<double> spmm() {
  return make_spmm_problem<double>({.name = "a name",
                                    .a = matrix<double>(),
                                    .n_cols = 5,
                                    .alpha = 2,
                                    .beta = -3,
                                    .c_layout = Layout::col_major,
                                    .ldb = 8,
                                    .ldc = 11});
}

TEST(Messages, ProblemsArrive) {
  const auto spmv =
      arrived<SpmvProblem<float>>(bytes_of(make_spmv_problem("v", matrix<float>(), Mode::stream, 3)));
  EXPECT_EQ(spmv.name, "v");
  EXPECT_EQ(spmv.mode, Mode::stream);
  EXPECT_EQ(spmv.n_vectors, 3);
  EXPECT_EQ(spmv.a->col_idx, matrix<float>()->col_idx);

  const auto p = arrived<SpmmProblem<double>>(bytes_of(spmm()));
  EXPECT_EQ(p.n_cols, 5);
  EXPECT_EQ(p.alpha, 2);
  EXPECT_EQ(p.beta, -3);
  EXPECT_EQ(p.b_layout, Layout::row_major);
  EXPECT_EQ(p.c_layout, Layout::col_major);
  EXPECT_EQ(p.ldb, 8);
  EXPECT_EQ(p.ldc, 11);

  const auto sent = make_spgemm_problem("g", matrix<float>(),
                                        std::make_shared<const Csr<float>>(transpose(*matrix<float>())));
  const auto spgemm = arrived<SpgemmProblem<float>>(bytes_of(sent));
  EXPECT_EQ(spgemm.products, sent.products);
  EXPECT_EQ(spgemm.max_row_products, sent.max_row_products);
  EXPECT_EQ(spgemm.result_bound, sent.result_bound);
  EXPECT_EQ(spgemm.b->row_ptr, sent.b->row_ptr);
  EXPECT_EQ(spgemm.b->values, sent.b->values);
}

TEST(Messages, WhatIsCutOrTooLongDoesNotArrive) {
  Bytes bytes = bytes_of(spmm());
  for (std::size_t length = 0; length < bytes.size(); ++length)
    EXPECT_THROW(arrived<SpmmProblem<double>>(
                     Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(length))),
                 Error);
  bytes.push_back(0);
  EXPECT_THROW(arrived<SpmmProblem<double>>(bytes), Error);
}

TEST(Messages, NumbersThatAreNotThereAreNotAllocatedAndThereIsNoSuchLayout) {
  for (const bool known : {true, false}) {
    Writer out;
    for (const Index number : {1, 1}) out.number(number);
    out.number(Offset{1});
    out.number(known ? Layout::row_major : Layout{2});
    if (known) out.number(~std::uint64_t{0} / 8 + 2);  // so many doubles are 8 bytes in 64 bits
    if (!known) out.array(Buffer<double>{1});
    const Bytes bytes = out.take();
    Reader in(bytes);
    Dense<double> result;
    EXPECT_THROW(take(in, result), Error) << known;
  }
}

}  // namespace
}  // namespace stages::judge
