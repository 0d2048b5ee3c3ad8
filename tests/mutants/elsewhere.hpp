#pragma once
// Plans that multiply right and not in run(): others do it, whom nobody times.

#include "common/harness/plan.hpp"
#include "common/harness/registry.hpp"

namespace stages::mutants {

enum class Elsewhere {
  none,
  load,  ///< and reset() does nothing either
  reset,
  fetch,
  lazy,      ///< run() notes that it was called, and fetch() then multiplies
  copied,    ///< load() multiplies, and run() copies the result
  replayed,  ///< run() multiplies after a load, and later ones leave what is there
  by_place,  ///< load() has what lay at the place of the operands when it last met another place
  once,      ///< fetch() gives the result away
};

/// `Right` is a plan class of this directory: with its fault none.
template <template <class> class Right>
struct Misplaced {
  template <class T>
  class Plan final : public Right<T> {
   public:
    using Problem = typename Right<T>::Problem;

    Plan(const Problem& problem, Exec& exec, Elsewhere where) : Right<T>(problem, exec, {}), where_(where) {}

    void load(const typename Problem::Operands& operands) override {
      if (where_ == Elsewhere::by_place && std::exchange(place_, &operands) != &operands) held_ = operands;
      Right<T>::load(where_ == Elsewhere::by_place ? held_ : operands);
      runs_since_load_ = 0;
      if (where_ != Elsewhere::load && where_ != Elsewhere::copied) return;
      Right<T>::reset();
      Right<T>::run();
      made_ = Right<T>::fetch();
    }
    void reset() override {
      if (where_ == Elsewhere::load) return;
      Right<T>::reset();
      was_run_ = false;
      if (where_ == Elsewhere::reset) Right<T>::run();
    }
    void run() override {
      was_run_ = true;
      const bool is_first = runs_since_load_++ == 0;
      if (where_ == Elsewhere::copied) copied_ = made_;
      const bool runs =
          where_ == Elsewhere::none || where_ == Elsewhere::by_place || where_ == Elsewhere::once;
      if (runs || (where_ == Elsewhere::replayed && is_first)) Right<T>::run();
    }
    typename Problem::Result fetch() override {
      if (where_ == Elsewhere::fetch || (where_ == Elsewhere::lazy && was_run_)) Right<T>::run();
      if (where_ == Elsewhere::once && !std::exchange(was_run_, false)) return {};
      return where_ == Elsewhere::copied ? copied_ : Right<T>::fetch();
    }

   private:
    Elsewhere where_;
    typename Problem::Result made_, copied_;
    typename Problem::Operands held_;
    const void* place_ = nullptr;
    int runs_since_load_ = 0;
    bool was_run_ = false;  // since the last reset
  };
};

}  // namespace stages::mutants
