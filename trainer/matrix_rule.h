// MatrixRule: an update rule that changes some parameters as whole matrices, as Muon does.
//
// A parameter of shape (O, ...) is a matrix of O rows; its further dimensions are the columns. The
// step of a matrix follows from all of its gradients, which no rank alone has: each rank makes its
// runs' part of the direction, the parts are exchanged, one rank makes the step of the whole, and
// each moves its runs (detail/step/matrix_update.h). All other parameters have a rule of their own.
//
//   const auto* rule = dynamic_cast<const MatrixRule*>(&update_rule);   // null: another kind
//
// Threads: const, from many threads at once for values that do not overlap.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "trainer/update_rule.h"

namespace millrace::trainer {

struct MatrixSize {
  std::int64_t rows = 0;
  std::int64_t columns = 0;
};
/// Of a parameter with two dimensions or more.
MatrixSize matrix_size(const Parameter& parameter);

class MatrixRule : public UpdateRule {
 public:
  using UpdateRule::UpdateRule;

  /// Whether it changes the parameter as a matrix. `head`: ParameterTable::head().
  virtual bool has(const Parameter& parameter, std::string_view head) const = 0;
  /// The rule of all parameters that it does not have. Its state_names() are the same.
  virtual Rule others() const = 0;

  /// Of a run of a matrix: changes its states, and replaces the gradients by the direction.
  virtual void accumulate(const RuleStep& step, std::span<float> gradients,
                          std::span<const std::span<float>> states) const = 0;
  /// Replaces a matrix's direction by its step. Shape: (rows, columns), row-major.
  virtual void make_step(const MatrixSize& size, std::span<float> direction) const = 0;
  /// Of a run: moves the weights along the step. `norm`: of the matrix's weights before, if
  /// uses_norms(); else 0.
  virtual void move(const RuleStep& step, const MatrixSize& size, double norm,
                    std::span<float> weights, std::span<const float> along) const = 0;
};

}  // namespace millrace::trainer
