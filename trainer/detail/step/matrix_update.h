// MatrixUpdate: a rank's part of the steps of a MatrixRule's matrices.
//
// A matrix's direction is summed over the ranks, each of which has some runs of it; the rank that
// the matrix is dealt to, by its cost, makes the step of the whole; the step is given to all in the
// same way. The result does not depend on which rank that is, nor on the number of its threads.
//
//   MatrixUpdate matrices(rule, {.optimizer = options, .parameters = table, ...});
//   for (const Range& range : matrices.other_ranges()) optimizer.update(update, range);
//   matrices.update(update, gradients);
//
// Threads: one at a time, its replica's; works with the thread's OpenMP team.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "trainer/collectives.h"
#include "trainer/matrix_rule.h"
#include "trainer/optimizer.h"

namespace millrace::trainer::detail {

class MatrixUpdate {
 public:
  /// A rule that is no MatrixRule has no matrices. Borrows `group`.
  MatrixUpdate(const OptimizerOptions& options, const ParameterTable& table,
               const std::vector<Range>& owned, Collectives& group);

  /// What the Optimizer of all other parameters is made of: the options, with their rule.
  static OptimizerOptions of_others(const OptimizerOptions& options);
  /// The owned ranges without the matrices, bounds at multiples of 16.
  const std::vector<Range>& other_ranges() const { return other_ranges_; }
  /// The matrices' parts of the owned ranges.
  std::vector<Range> ranges() const;

  /// Updates the matrices' weights and states in the owned ranges. Their part of `gradients`, which
  /// are update.gradients, holds the steps afterwards. Throws: what a collective throws. A
  /// collective.
  void update(const Update& update, std::span<float> gradients) const;

 private:
  struct Entry {
    Range range;  ///< without padding
    MatrixSize size;
    ParameterSettings settings;
    std::vector<Range> owned;  ///< parts of the range
    bool is_dealt = false;     ///< this rank makes its step
  };

  void add_matrices(const ParameterTable& table, const std::vector<Range>& owned);
  void deal();
  std::vector<double> norms(std::span<const float> weights) const;
  void accumulate(const Update& update, std::span<float> gradients) const;
  void make_steps(std::span<float> gradients) const;
  void share(std::span<float> gradients) const;
  void move(const Update& update, std::span<const double> norms,
            std::span<const float> gradients) const;

  bool rounds_to_bf16_;
  Collectives& group_;
  std::unique_ptr<UpdateRule> made_;
  const MatrixRule* rule_;  ///< made_; null: another kind
  std::vector<Entry> entries_;
  std::vector<Range> other_ranges_;
};

}  // namespace millrace::trainer::detail
