#include "trainer/detail/step/matrix_update.h"

#include <omp.h>

#include <algorithm>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <utility>

#include "trainer/detail/flat_math.h"

namespace millrace::trainer::detail {
namespace {

template <typename T>
std::span<T> part_of(std::span<T> values, Range range) {
  return values.subspan(range.begin, range.size());
}

/// The ranges' parts within `bounds`.
std::vector<Range> parts_within(const std::vector<Range>& ranges, Range bounds) {
  std::vector<Range> parts;
  for (const Range& range : ranges) {
    const Range part{std::max(range.begin, bounds.begin), std::min(range.end, bounds.end)};
    if (part.begin < part.end) parts.push_back(part);
  }
  return parts;
}

Range without_padding(const Parameter& entry) { return {entry.offset, entry.offset + entry.size}; }
Range with_padding(const Parameter& entry) {
  return {entry.offset, entry.offset + (entry.size + 15) / 16 * 16};
}

/// Of a Newton-Schulz step, in multiply-adds but for a factor.
double cost_of(const MatrixSize& size) {
  const auto [less, more] = std::minmax(size.rows, size.columns);
  return static_cast<double>(less) * static_cast<double>(less) * static_cast<double>(more);
}

/// Calls work(i) for i < count on the calling thread's OpenMP team.
template <typename Work>
void in_parallel(std::size_t count, const Work& work) {
  std::exception_ptr error;
  std::mutex mutex;
#pragma omp parallel for schedule(dynamic)
  for (std::size_t i = 0; i < count; ++i) {
    try {
      work(i);
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

}  // namespace

MatrixUpdate::MatrixUpdate(const OptimizerOptions& options, const ParameterTable& table,
                           const std::vector<Range>& owned, Collectives& group)
    : rounds_to_bf16_(options.round_to_bf16),
      group_(group),
      made_(options.rule.make()),
      rule_(dynamic_cast<const MatrixRule*>(made_.get())) {
  add_matrices(table, owned);
  deal();
}

OptimizerOptions MatrixUpdate::of_others(const OptimizerOptions& options) {
  const std::unique_ptr<UpdateRule> made = options.rule.make();
  const auto* rule = dynamic_cast<const MatrixRule*>(made.get());
  if (rule == nullptr) return options;
  return {.rule = rule->others(), .round_to_bf16 = options.round_to_bf16};
}

void MatrixUpdate::add_matrices(const ParameterTable& table, const std::vector<Range>& owned) {
  std::size_t begin = 0;  // of the parameters since the last matrix
  const auto add_others = [&](Range between) {
    const std::vector<Range> parts = parts_within(owned, between);
    other_ranges_.insert(other_ranges_.end(), parts.begin(), parts.end());
  };
  for (const Parameter& entry : table.entries()) {
    if (rule_ == nullptr || !rule_->has(entry, table.head())) continue;
    add_others({begin, entry.offset});
    begin = with_padding(entry).end;
    entries_.push_back({.range = without_padding(entry),
                        .size = matrix_size(entry),
                        .settings = settings_for(entry, rule_->settings()),
                        .owned = parts_within(owned, without_padding(entry))});
  }
  add_others({begin, table.padded_size()});
  // A rate of 0 freezes: neither the step nor a norm moves a weight.
  std::erase_if(entries_, [](const Entry& one) { return one.settings.rate == 0.0F; });
}

// The most expensive first, each to the rank that has least.
void MatrixUpdate::deal() {
  std::vector<std::size_t> order(entries_.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::greater<>(),
                           [this](std::size_t i) { return cost_of(entries_[i].size); });
  std::vector<double> load(static_cast<std::size_t>(group_.world()));
  for (const std::size_t i : order) {
    const auto least = std::ranges::min_element(load);
    *least += cost_of(entries_[i].size);
    entries_[i].is_dealt = least - load.begin() == group_.rank();
  }
}

std::vector<Range> MatrixUpdate::ranges() const {
  std::vector<Range> all;
  for (const Entry& entry : entries_) all.insert(all.end(), entry.owned.begin(), entry.owned.end());
  return all;
}

void MatrixUpdate::update(const Update& update, std::span<float> gradients) const {
  if (entries_.empty()) return;
  const std::vector<double> before = norms(update.weights);
  accumulate(update, gradients);
  share(gradients);
  make_steps(gradients);
  share(gradients);
  move(update, before, gradients);
}

/// Zeros for a rule that asks for none.
std::vector<double> MatrixUpdate::norms(std::span<const float> weights) const {
  std::vector<double> sums(entries_.size());
  if (!rule_->uses_norms()) return sums;
  for (std::size_t i = 0; i < sums.size(); ++i)
    for (const Range& range : entries_[i].owned)
      sums[i] += flat::square_sum(part_of(weights, range));
  group_.all_reduce(std::span<double>(sums));
  for (double& sum : sums) sum = std::sqrt(sum);
  return sums;
}

/// Leaves zeros where other ranks have the sums of the gradients.
void MatrixUpdate::accumulate(const Update& update, std::span<float> gradients) const {
  std::vector<std::span<float>> states(update.states.size());
  for (const Entry& entry : entries_) {
    std::size_t at = entry.range.begin;
    for (const Range& range : entry.owned) {
      std::ranges::fill(part_of(gradients, {at, range.begin}), 0.0F);
      for (std::size_t k = 0; k < states.size(); ++k) states[k] = part_of(update.states[k], range);
      rule_->accumulate(step_of(update, entry.settings), part_of(gradients, range), states);
      at = range.end;
    }
    std::ranges::fill(part_of(gradients, {at, entry.range.end}), 0.0F);
  }
}

/// Leaves zeros for the matrices of other ranks.
void MatrixUpdate::make_steps(std::span<float> gradients) const {
  in_parallel(entries_.size(), [&](std::size_t i) {
    const std::span<float> values = part_of(gradients, entries_[i].range);
    if (entries_[i].is_dealt) {
      rule_->make_step(entries_[i].size, values);
    } else {
      std::ranges::fill(values, 0.0F);
    }
  });
}

/// Each value is one rank's, and zero on the others.
void MatrixUpdate::share(std::span<float> gradients) const {
  if (group_.world() == 1) return;
  for (const Entry& entry : entries_) group_.all_reduce(part_of(gradients, entry.range));
}

void MatrixUpdate::move(const Update& update, std::span<const double> norms,
                        std::span<const float> gradients) const {
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (entries_[i].settings.rate_at(update.step) == 0.0F) continue;
    for (const Range& range : entries_[i].owned) {
      const std::span<float> weights = part_of(update.weights, range);
      rule_->move(step_of(update, entries_[i].settings), entries_[i].size, norms[i], weights,
                  part_of(gradients, range));
      if (!rounds_to_bf16_) continue;
      flat::round_to_bf16(weights);
      for (const std::span<float> state : update.states) flat::round_to_bf16(part_of(state, range));
    }
  }
}

}  // namespace millrace::trainer::detail
