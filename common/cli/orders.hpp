#pragma once
// What rank 0 tells the others of a problem, before it leads them through it.

#include <type_traits>

#include "common/cli/machines/ranks.hpp"
#include "common/harness/problem.hpp"

namespace stages {

/// A problem as a rank other than 0 knows it: what rank 0 has said of it.
template <class Problem>
Problem ordered(const Order& order) {
  Problem problem;
  if constexpr (Problem::kOp == Op::spmv) {
    problem.mode = order.mode;
    problem.n_vectors = order.products;
  } else if constexpr (Problem::kOp == Op::spmm) {
    problem.n_cols = order.n_cols;
    problem.alpha = static_cast<typename Problem::Value>(order.alpha);
    problem.beta = static_cast<typename Problem::Value>(order.beta);
  } else {
    problem.destination = order.destination;
    problem.rounds = order.products;
  }
  return problem;
}

/// Calls work(problem) with the problem that rank 0 has told of.
template <class Work>
void with_ordered(const Order& order, Work&& work) {
  const auto of_type = [&]<class T>() {
    if (order.op == Op::spmv) work(ordered<SpmvProblem<T>>(order));
    if (order.op == Op::spmm) work(ordered<SpmmProblem<T>>(order));
    if (order.op == Op::spgemm) work(ordered<SpgemmProblem<T>>(order));
  };
  order.single_precision ? of_type.template operator()<float>() : of_type.template operator()<double>();
}

/// What rank 0 says of a problem.
template <class Problem>
Order order_for(const Problem& problem) {
  Order order{.op = Problem::kOp, .single_precision = std::is_same_v<typename Problem::Value, float>};
  if constexpr (Problem::kOp == Op::spmv) {
    order.mode = problem.mode;
    order.products = problem.n_vectors;
  } else if constexpr (Problem::kOp == Op::spmm) {
    order.n_cols = problem.n_cols;
    order.alpha = static_cast<double>(problem.alpha);
    order.beta = static_cast<double>(problem.beta);
  } else {
    order.destination = problem.destination;
    order.products = problem.rounds;
  }
  return order;
}

}  // namespace stages
