#include "trainer/rules/muon.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <utility>

#include "io/base/error.h"
#include "trainer/detail/flat_chunks.h"
#include "trainer/detail/flat_math.h"
#include "trainer/matrix_rule.h"
#include "trainer/rules/sgd.h"

namespace millrace::trainer {
namespace {

using Matrix = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

constexpr double kDefaultLr = 0.02;

/// Of values within whose Frobenius norm is 1, with no more rows than columns.
void newton_schulz(Matrix& x, int steps, const std::vector<float>& coefficients) {
  const float a = coefficients[0];
  const float b = coefficients[1];
  const float c = coefficients[2];
  for (int i = 0; i < steps; ++i) {
    const Matrix gram = x * x.transpose();
    Matrix factor = b * gram;
    factor.noalias() += c * gram * gram;
    Matrix next = a * x;
    next.noalias() += factor * x;
    x.swap(next);
  }
}

/// SGD for what is no matrix: a rate is a factor of the run's, which is the matrices'.
Sgd sgd_of(const Muon& options) {
  const double factor = options.sgd_lr ? *options.sgd_lr / options.lr.value_or(kDefaultLr) : 1.0;
  Sgd sgd{.lr = options.lr,
          .momentum = options.sgd_momentum,
          .nesterov = true,
          .weight_decay = options.weight_decay,
          .groups = options.groups};
  for (ParameterGroup& group : sgd.groups) group.rate *= factor;
  sgd.groups.push_back({.parameters = "*", .rate = factor});
  return sgd;
}

class MuonRule final : public MatrixRule {
 public:
  explicit MuonRule(const Muon& options)
      : MatrixRule({.lr = options.lr,
                    .weight_decay = options.weight_decay,
                    .groups = options.groups,
                    .usual = {.lr = kDefaultLr}}),
        options_(options),
        others_(others().make()) {}

  std::vector<std::string> state_names() const override { return others_->state_names(); }
  Rule others() const override { return sgd_of(options_); }
  /// Of what is no matrix, at the rate that the step has.
  void apply(const RuleStep& step, const RuleBuffers& buffers) const override {
    others_->apply(step, buffers);
  }

  bool has(const Parameter& parameter, std::string_view head) const override {
    if (parameter.shape.size() < 2) return false;
    const MatrixSize size = matrix_size(parameter);
    if (size.rows < 2 || size.columns < 2) return false;
    if (options_.matrices.empty()) return layer_of(parameter.name) != head;
    return std::ranges::any_of(options_.matrices, [&](const std::string& name) {
      return ParameterGroup{.parameters = name}.has(parameter);
    });
  }

  void accumulate(const RuleStep& step, std::span<float> gradients,
                  std::span<const std::span<float>> states) const override {
    flat::for_each_chunk(
        [scale = step.gradient_scale, keep = options_.momentum,
         of_gradient = options_.nesterov ? 1.0F : 0.0F,
         of_buffer = options_.nesterov ? options_.momentum : 1.0F](auto g, auto buffer) {
          const flat::Chunk<float> gradient = scale * g;
          const flat::Chunk<float> next = keep * buffer + gradient;
          buffer = next;
          g = of_gradient * gradient + of_buffer * next;
        },
        gradients, states[0]);
  }

  void make_step(const MatrixSize& size, std::span<float> direction) const override {
    Eigen::Map<Matrix> all(direction.data(), size.rows, size.columns);
    const bool is_tall = size.rows > size.columns;
    Matrix x = is_tall ? Matrix(all.transpose()) : Matrix(all);
    x /= static_cast<float>(std::sqrt(flat::square_sum(direction))) + 1e-7F;
    newton_schulz(x, options_.steps, options_.coefficients);
    if (is_tall) {
      all = x.transpose();
    } else {
      all = x;
    }
  }

  bool uses_norms() const override { return options_.normalise; }

  void move(const RuleStep& step, const MatrixSize& size, double norm, std::span<float> weights,
            std::span<const float> along) const override {
    const auto rows = static_cast<double>(size.rows);
    const double ratio = rows / static_cast<double>(size.columns);
    const float lr = step.lr * static_cast<float>(std::sqrt(std::max(1.0, ratio)));
    const double scale = norm > 0.0 ? std::sqrt(rows) / norm : 1.0;
    const float keep = static_cast<float>(scale) * (1.0F - step.lr * step.weight_decay);
    flat::for_each_chunk([lr, keep](auto w, auto x) { w = keep * w - lr * x; }, weights, along);
  }

 private:
  Muon options_;
  std::unique_ptr<UpdateRule> others_;
};

}  // namespace

MatrixSize matrix_size(const Parameter& parameter) {
  const std::int64_t rows = parameter.shape.front();
  return {.rows = rows,
          .columns = static_cast<std::int64_t>(parameter.size) / std::max<std::int64_t>(1, rows)};
}

const ComponentName Muon::kName = {"muon", "Muon",
                                   "Orthogonalised momentum for matrices, SGD for the rest"};

void Muon::fields(FieldList& field) {
  field("lr", lr, {.min = 0, .open_min = true}, "Learning rate of the matrices [0.02]");
  field.by_name();
  field("momentum", momentum, {.min = 0, .max = 1, .open_max = true}, "Momentum of the matrices");
  field("nesterov", nesterov, "Nesterov's momentum for them");
  field("steps", steps, {.min = 1, .max = 100}, "Newton-Schulz steps");
  field("coefficients", coefficients, {}, "Of such a step: a X + (b A + c A A) X, A = X X'");
  field("normalise", normalise, "Scales each matrix to the norm sqrt(rows) before its step");
  field("matrices", matrices,
        "Names or patterns of the matrices [two dimensions or more, not of the last layer]");
  field("sgd_lr", sgd_lr, {.min = 0, .open_min = true},
        "Learning rate of all others, by SGD with Nesterov's momentum [lr]");
  field("sgd_momentum", sgd_momentum, {.min = 0, .max = 1, .open_min = true, .open_max = true},
        "Momentum of the others");
  list_decay_and_groups(field, weight_decay, groups);
}

void Muon::check() const {
  require(coefficients.size() == 3, "coefficients are three, such as [3.4445, -4.775, 2.0315]");
  require(std::ranges::none_of(matrices, &std::string::empty), "a name of matrices is empty");
}

std::unique_ptr<UpdateRule> Muon::make() const { return std::make_unique<MuonRule>(*this); }

}  // namespace millrace::trainer
