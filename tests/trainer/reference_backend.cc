#include "tests/trainer/reference_backend.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <map>

#include "io/base/error.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/lamb.h"
#include "trainer/rules/lars.h"
#include "trainer/rules/lion.h"

namespace millrace::testing {
namespace {

using trainer::Range;

/// Sums once, when all gradients are ready.
class PlainReducer final : public trainer::GradientReducer {
 public:
  PlainReducer(std::span<double> gradients, trainer::Collectives& group)
      : gradients_(gradients), group_(group), buckets_{{0, gradients.size()}} {
    const auto [begin, end] = group.slice(gradients.size(), group.rank());
    if (begin < end) owned_.push_back({begin, end});
  }
  const std::vector<Range>& buckets() const override { return buckets_; }
  const std::vector<Range>& owned() const override { return owned_; }
  void begin() override {}
  void gradients_ready(std::size_t) override {}
  void wait() override { group_.all_reduce(gradients_); }

 private:
  std::span<double> gradients_;
  trainer::Collectives& group_;
  std::vector<Range> buckets_;
  std::vector<Range> owned_;
};

/// One float's weight and state.
struct Place {
  double& weight;
  double& first;
  double& second;
};

/// The rules' formulas in trainer/rules/.
class Formula {
 public:
  Formula(const trainer::Rule& rule, double lr, std::int64_t step)
      : rule_(rule), lr_(lr), step_(static_cast<double>(step)) {}

  /// `rate` is the layer's factor of LARS's rate, or LAMB's.
  void apply(double gradient, double decay, double rate, const Place& place) const {
    const double with_decay = gradient + decay * place.weight;
    if (const auto* it = rule_.get_if<trainer::Sgd>()) return sgd(*it, with_decay, place);
    if (const auto* it = rule_.get_if<trainer::Lars>()) return lars(*it, with_decay, rate, place);
    if (const auto* it = rule_.get_if<trainer::Lamb>()) {
      const LambMove move = lamb(*it, gradient, decay, place);
      place.first = move.first;
      place.second = move.second;
      place.weight -= lr_ * rate * move.direction;
      return;
    }
    if (const auto* it = rule_.get_if<trainer::Lion>()) return lion(*it, gradient, decay, place);
    if (const auto* it = rule_.get_if<trainer::Adam>()) return adam(*it, with_decay, place);
    place.weight *= 1.0 - lr_ * decay;
    adam(*rule_.get_if<trainer::AdamW>(), gradient, place);
  }

  struct LambMove {
    double first, second, direction;
  };
  LambMove lamb(const trainer::Lamb& it, double g, double decay, const Place& place) const {
    const double b1 = number(it.betas[0]);
    const double b2 = number(it.betas[1]);
    const double first = b1 * place.first + (1.0 - b1) * g;
    const double second = b2 * place.second + (1.0 - b2) * g * g;
    const double root = std::sqrt(second / (1.0 - std::pow(b2, step_)));
    const double mean = first / (1.0 - std::pow(b1, step_));
    return {first, second, mean / (root + number(it.eps)) + decay * place.weight};
  }

 private:
  void sgd(const trainer::Sgd& it, double g, const Place& place) const {
    const double momentum = number(it.momentum);
    if (momentum == 0.0) {
      place.weight -= lr_ * g;
      return;
    }
    double& buffer = place.first;
    buffer = step_ == 1.0 ? g : momentum * buffer + (1.0 - number(it.dampening)) * g;
    place.weight -= lr_ * (it.nesterov ? g + momentum * buffer : buffer);
  }
  void lars(const trainer::Lars& it, double g, double rate, const Place& place) const {
    const double momentum = number(it.momentum);
    const double move = lr_ * rate * g + (momentum == 0.0 ? 0.0 : momentum * place.first);
    if (momentum != 0.0) place.first = move;
    place.weight -= move;
  }
  void lion(const trainer::Lion& it, double g, double decay, const Place& place) const {
    const double b1 = number(it.betas[0]);
    const double b2 = number(it.betas[1]);
    const double mean = b1 * place.first + (1.0 - b1) * g;
    const double sign = mean > 0.0 ? 1.0 : mean < 0.0 ? -1.0 : 0.0;
    place.weight -= lr_ * (sign + decay * place.weight);
    place.first = b2 * place.first + (1.0 - b2) * g;
  }
  void adam(const auto& it, double g, const Place& place) const {
    const double b1 = number(it.betas[0]);
    const double b2 = number(it.betas[1]);
    place.first = b1 * place.first + (1.0 - b1) * g;
    place.second = b2 * place.second + (1.0 - b2) * g * g;
    place.weight -= lr_ * (place.first / (1.0 - std::pow(b1, step_))) /
                    (std::sqrt(place.second / (1.0 - std::pow(b2, step_))) + number(it.eps));
  }
  static double number(float value) { return static_cast<double>(value); }

  const trainer::Rule& rule_;
  double lr_;
  double step_;
};

class ReferenceUpdater final : public trainer::Updater {
 public:
  struct Spans {
    std::span<double> weights, ema, gradients, buffers, kept_buffers;
    std::vector<std::span<double>> states;
  };

  ReferenceUpdater(const trainer::UpdaterSetup& setup, Spans spans)
      : rule_(setup.optimizer.rule),
        settings_(rule_.make()->settings()),
        table_(setup.parameters),
        clip_(setup.clip),
        ema_decay_(setup.ema_decay),
        owned_(setup.owned),
        group_(setup.group),
        spans_(std::move(spans)) {}

  void measure(double scale, std::span<double> sums) override {
    std::vector<double> exchanged(sums.begin(), sums.end());
    double squares = 0.0;
    double bad = 0.0;
    for_each_owned([&](std::size_t i) {
      double& g = spans_.gradients[i];
      if (!std::isfinite(g)) bad = 1.0;
      const double bound = static_cast<double>(clip_.value) / scale;
      if (clip_.value > 0.0F) g = std::clamp(g, -bound, bound);
      squares += g * g * scale * scale;
    });
    exchanged.insert(exchanged.end(), {squares, bad});
    group_.all_reduce(std::span<double>(exchanged));
    std::copy_n(exchanged.begin(), sums.size(), sums.begin());
    norm_ = std::sqrt(exchanged[sums.size()]);
    is_finite_ = exchanged.back() == 0.0;
  }

  void update(const trainer::StepUpdate& step) override {
    was_finite_ = is_finite_ && step.is_finite;
    if (!was_finite_) {
      std::ranges::copy(spans_.kept_buffers, spans_.buffers.begin());
      return;
    }
    double scale = step.gradient_scale;
    if (clip_.norm > 0.0 && norm_ > clip_.norm) scale *= clip_.norm / (norm_ + 1e-6);
    const std::vector<double> rates = rates_of(scale, step.step - step.skipped);
    for_each_owned([&](std::size_t i) {
      const std::size_t entry = entry_of(i);
      const trainer::ParameterSettings group = settings_of(entry);
      const Formula formula(rule_, lr_of(group, step), step.step - step.skipped);
      if (!group.is_over(step.step))
        formula.apply(scale * spans_.gradients[i], decay_of(entry), rates[entry], place_of(i));
      if (!spans_.ema.empty())
        spans_.ema[i] = ema_decay_ * spans_.ema[i] + (1.0 - ema_decay_) * spans_.weights[i];
    });
  }
  bool was_finite() override { return was_finite_; }

 private:
  static double lr_of(const trainer::ParameterSettings& group, const trainer::StepUpdate& step) {
    if (step.step <= group.after) return 0.0;
    const auto lr = static_cast<double>((group.falls ? step.base_lr : step.lr) * group.rate);
    if (!group.falls) return lr;
    return lr * static_cast<double>(group.until + 1 - step.step) /
           static_cast<double>(group.until - group.after);
  }

  template <typename Each>
  void for_each_owned(const Each& each) const {
    for (const Range& range : owned_)
      for (std::size_t i = range.begin; i < range.end; ++i) each(i);
  }
  std::size_t entry_of(std::size_t place) const {
    std::size_t entry = 0;
    while (entry + 1 < table_.entries().size() && table_.entries()[entry + 1].offset <= place)
      ++entry;
    return entry;
  }
  trainer::ParameterSettings settings_of(std::size_t entry) const {
    return trainer::settings_for(table_.entries()[entry], settings_);
  }
  double decay_of(std::size_t entry) const {
    return static_cast<double>(settings_of(entry).weight_decay);
  }
  Place place_of(std::size_t i) const {
    const auto state = [&](std::size_t k) -> double& {
      return k < spans_.states.size() ? spans_.states[k][i] : none_[k];
    };
    return {spans_.weights[i], state(0), state(1)};
  }
  /// Each parameter's factor of LARS's rate, or LAMB's; 1 for other rules.
  std::vector<double> rates_of(double scale, std::int64_t step) const {
    std::vector<double> rates(table_.entries().size(), 1.0);
    const auto* lars = rule_.get_if<trainer::Lars>();
    const auto* lamb = rule_.get_if<trainer::Lamb>();
    if (lars == nullptr && lamb == nullptr) return rates;
    std::vector<double> squares(2 * rates.size());
    for_each_owned([&](std::size_t i) {
      double direction = scale * spans_.gradients[i];
      if (lamb != nullptr) {
        const Formula formula(rule_, 0.0, step);
        direction = formula.lamb(*lamb, direction, decay_of(entry_of(i)), place_of(i)).direction;
      }
      squares[2 * entry_of(i)] += std::pow(spans_.weights[i], 2);
      squares[2 * entry_of(i) + 1] += std::pow(direction, 2);
    });
    group_.all_reduce(std::span<double>(squares));
    for (std::size_t entry = 0; entry < rates.size(); ++entry) {
      const double weights = std::sqrt(squares[2 * entry]);
      const double decayed = lars == nullptr ? 0.0 : decay_of(entry) * weights;
      const double under = std::sqrt(squares[2 * entry + 1]) + decayed;
      if (table_.entries()[entry].decay && weights > 0.0 && under > 0.0)
        rates[entry] = (lars == nullptr ? 1.0 : static_cast<double>(lars->trust)) * weights / under;
    }
    return rates;
  }

  trainer::Rule rule_;
  trainer::RuleSettings settings_;
  const trainer::ParameterTable& table_;
  trainer::ClipOptions clip_;
  double ema_decay_;
  std::vector<Range> owned_;
  trainer::Collectives& group_;
  Spans spans_;
  mutable std::array<double, 2> none_ = {};  ///< in place of states that the rule has not
  double norm_ = 0.0;
  bool is_finite_ = true;
  bool was_finite_ = true;
};

}  // namespace

trainer::DeviceBuffer ReferenceBackend::allocate(std::size_t floats) {
  return book_.add({std::make_shared<std::vector<double>>(floats)}, floats);
}

void ReferenceBackend::write(std::span<const float> from, trainer::DeviceSpan to) {
  std::ranges::copy(from, book_.find(to).begin());
}

void ReferenceBackend::read(trainer::DeviceSpan from, std::span<float> to) {
  std::ranges::transform(book_.find(from), to.begin(),
                         [](double value) { return static_cast<float>(value); });
}

void ReferenceBackend::copy(trainer::DeviceSpan from, trainer::DeviceSpan to) {
  std::ranges::copy(book_.find(from), book_.find(to).begin());
}

void ReferenceBackend::swap(trainer::DeviceSpan a, trainer::DeviceSpan b) {
  std::ranges::swap_ranges(book_.find(a), book_.find(b));
}

void ReferenceBackend::set_zero(trainer::DeviceSpan values) {
  std::ranges::fill(book_.find(values), 0.0);
}

void ReferenceBackend::add(trainer::DeviceSpan into, trainer::DeviceSpan values) {
  std::ranges::transform(book_.find(into), book_.find(values), book_.find(into).begin(),
                         std::plus<>());
}

void ReferenceBackend::average(trainer::DeviceSpan values, double count,
                               trainer::Collectives& group) {
  group.all_reduce(book_.find(values));
  for (double& value : book_.find(values)) value /= count;
}

void ReferenceBackend::all_gather(trainer::DeviceSpan values, trainer::Collectives& group) {
  const std::span<double> all = book_.find(values);
  const auto [begin, end] = group.slice(all.size(), group.rank());
  const auto parts = group.all_gather_bytes(std::as_bytes(all.subspan(begin, end - begin)));
  for (int rank = 0; rank < group.world(); ++rank) {
    const auto& part = parts[static_cast<std::size_t>(rank)];
    if (rank == group.rank() || part.empty()) continue;
    std::memcpy(all.data() + group.slice(all.size(), rank).first, part.data(), part.size());
  }
}

std::unique_ptr<trainer::GradientReducer> ReferenceBackend::make_reducer(
    trainer::DeviceSpan gradients, trainer::Collectives& group,
    const trainer::GradientReducerOptions&) {
  return std::make_unique<PlainReducer>(book_.find(gradients), group);
}

std::unique_ptr<trainer::nn::Plan> ReferenceBackend::compile(
    const trainer::Model& model, const trainer::nn::PlanOptions& options,
    const trainer::PlanBuffers& buffers) {
  if (model.graph() == nullptr)
    throw Error(ErrorCode::kUnsupported, model.name() + " has no graph to compile");
  return compile_reference(*model.graph(), options,
                           {.parameters = book_.find(buffers.parameters),
                            .gradients = book_.find(buffers.gradients),
                            .buffers = book_.find(buffers.buffers)});
}

std::unique_ptr<trainer::Updater> ReferenceBackend::make_updater(
    const trainer::UpdaterSetup& setup) {
  const std::string_view word = setup.optimizer.rule.type().name().word;
  if (std::ranges::count(trainer::standard_rules().words(), word) == 0)
    throw Error(ErrorCode::kUnsupported, "the reference knows millrace's own rules alone");
  ReferenceUpdater::Spans spans{.weights = book_.find(setup.weights),
                                .ema = book_.find(setup.ema),
                                .gradients = book_.find(setup.gradients),
                                .buffers = book_.find(setup.buffers),
                                .kept_buffers = book_.find(setup.kept_buffers),
                                .states = {}};
  for (const trainer::DeviceSpan state : setup.states) spans.states.push_back(book_.find(state));
  return std::make_unique<ReferenceUpdater>(setup, std::move(spans));
}

}  // namespace millrace::testing
