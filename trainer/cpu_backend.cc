// The CPU's backend: plans of oneDNN, flat buffers in the host's memory.
#include <fmt/format.h>
#include <omp.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <new>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/machine.h"
#include "trainer/composed_backend.h"
#include "trainer/detail/flat_math.h"
#include "trainer/detail/step/matrix_update.h"

namespace millrace::trainer {
namespace {

/// The alignment of vector registers and cache lines.
constexpr std::align_val_t kAlignment{64};

/// Floats per thread at least.
constexpr std::size_t kShareFloats = std::size_t{1} << 17;

/// The CPU's memory is the host's: a buffer's handle is its address.
std::span<float> host(DeviceSpan span) {
  const auto address = static_cast<std::uintptr_t>(span.buffer());
  // NOLINTNEXTLINE(performance-no-int-to-ptr)
  return {reinterpret_cast<float*>(address) + span.offset(), span.size()};
}

std::span<float> part_of(std::span<float> values, Range range) {
  return values.subspan(range.begin, range.size());
}

/// Cuts `range` into one share per thread, bounds at multiples of 16 except its own end, and calls
/// work(share) for each on the calling thread's OpenMP team.
template <typename Work>
void in_shares(Range range, const Work& work) {
  const std::size_t most = range.size() / kShareFloats;
  const auto shares = std::min(most, static_cast<std::size_t>(omp_get_max_threads()));
  if (shares < 2) return work(range);
  const std::size_t each = (range.size() / shares + 15) / 16 * 16;
  std::exception_ptr error;
  std::mutex mutex;
#pragma omp parallel for num_threads(static_cast <int>(shares)) schedule(static)
  for (std::size_t i = 0; i < shares; ++i) {
    try {
      const std::size_t begin = std::min(range.end, range.begin + i * each);
      work(Range{begin, std::min(range.end, begin + each)});
    } catch (...) {
      const std::lock_guard lock(mutex);
      error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
}

bool all_finite(std::span<float> values, Range range) {
  std::atomic<bool> finite = true;
  in_shares(range, [&](Range share) {
    if (!flat::all_finite(part_of(values, share))) finite = false;
  });
  return finite;
}

/// Where memory is overcommitted, the kernel would end the process without a word.
void check_size(std::size_t floats) {
  constexpr double kGiB = 1 << 30;
  const auto most = static_cast<double>(usable_memory());
  const double bytes = static_cast<double>(floats) * sizeof(float);
  if (bytes > most)
    throw Error(ErrorCode::kExhausted,
                fmt::format("a buffer for the {} values of a model takes {:.1f} GiB, which this "
                            "process cannot have (machine or cgroup: {:.1f} GiB)",
                            floats, bytes / kGiB, most / kGiB));
}

class CpuUpdater final : public Updater {
 public:
  explicit CpuUpdater(const UpdaterSetup& setup)
      : clip_(setup.clip),
        ema_decay_(static_cast<float>(setup.ema_decay)),
        optimizer_(detail::MatrixUpdate::of_others(setup.optimizer), setup.parameters),
        matrices_(setup.optimizer, setup.parameters, setup.owned, setup.group),
        weights_(host(setup.weights)),
        ema_(host(setup.ema)),
        gradients_(host(setup.gradients)),
        buffers_(host(setup.buffers)),
        kept_buffers_(host(setup.kept_buffers)),
        owned_(setup.owned),
        group_(setup.group),
        square_sums_(optimizer_.num_square_sums()) {
    for (const DeviceSpan state : setup.states) states_.push_back(host(state));
  }

  // Without clipping by value, the sum of squares also shows whether all gradients are finite.
  void measure(double scale, std::span<double> sums) override {
    double squares = 0.0;
    bool finite = true;
    for (const Range& range : owned_) {
      if (clip_.norm <= 0.0 || clip_.value > 0.0F) finite &= all_finite(gradients_, range);
      const std::span<float> own = part_of(gradients_, range);
      if (clip_.value > 0.0F) flat::clamp(own, clip_.value / static_cast<float>(scale));
      if (clip_.norm > 0.0) squares += flat::square_sum(own);
    }
    exchanged_.assign(sums.begin(), sums.end());
    exchanged_.insert(exchanged_.end(), {squares * scale * scale, finite ? 0.0 : 1.0});
    group_.all_reduce(std::span<double>(exchanged_));
    std::copy_n(exchanged_.begin(), sums.size(), sums.begin());
    squares_ = exchanged_[sums.size()];
    is_finite_ = exchanged_.back() == 0.0 && std::isfinite(squares_);
  }

  void update(const StepUpdate& step) override {
    was_finite_ = is_finite_ && step.is_finite;
    if (!was_finite_) {
      std::ranges::copy(kept_buffers_, buffers_.begin());
      return;
    }
    Update update{.weights = weights_,
                  .gradients = gradients_,
                  .states = states_,
                  .lr = step.lr,
                  .gradient_scale = clipped(step.gradient_scale),
                  .step = step.step,
                  .base_lr = step.base_lr,
                  .skipped = step.skipped};
    if (!square_sums_.empty()) {
      add_square_sums(update);
      update.square_sums = square_sums_;
    }
    for (const Range& range : matrices_.other_ranges()) {
      in_shares(range, [&](Range share) { change(update, share); });
    }
    matrices_.update(update, gradients_);
    for (const Range& range : matrices_.ranges()) update_ema(range);
  }

  bool was_finite() override { return was_finite_; }

 private:
  float clipped(double scale) const {
    const double norm = std::sqrt(squares_);
    // As torch's clip_grad_norm_.
    if (clip_.norm > 0.0 && norm > clip_.norm) scale *= clip_.norm / (norm + 1e-6);
    return static_cast<float>(scale);
  }

  void add_square_sums(const Update& update) {
    std::ranges::fill(square_sums_, 0.0);
    for (const Range& range : owned_) optimizer_.add_square_sums(update, range, square_sums_);
    group_.all_reduce(std::span<double>(square_sums_));
  }

  void change(const Update& update, Range range) const {
    optimizer_.update(update, range);
    update_ema(range);
  }

  void update_ema(Range range) const {
    if (ema_.empty()) return;
    flat::update_ema(part_of(ema_, range), part_of(weights_, range), ema_decay_);
  }

  ClipOptions clip_;
  float ema_decay_;
  Optimizer optimizer_;  // of all but the rule's matrices
  detail::MatrixUpdate matrices_;
  std::span<float> weights_;
  std::vector<std::span<float>> states_;
  std::span<float> ema_;
  std::span<float> gradients_;
  std::span<float> buffers_;
  std::span<const float> kept_buffers_;
  std::vector<Range> owned_;
  Collectives& group_;
  std::vector<double> square_sums_;  // of each parameter, for rules that use norms
  std::vector<double> exchanged_;
  double squares_ = 0.0;
  bool is_finite_ = true;  // the measured gradients
  bool was_finite_ = true;
};

class CpuBackend final : public ComposedBackend {
 public:
  const std::string& name() const override { return name_; }

  DeviceBuffer allocate(std::size_t floats) override {
    check_size(floats);
    const std::shared_ptr<void> memory(
        ::operator new(floats * sizeof(float), kAlignment),
        [](void* pointer) { ::operator delete(pointer, kAlignment); });
    const auto address = reinterpret_cast<std::uintptr_t>(memory.get());
    const DeviceSpan span(BufferHandle(address), 0, floats);
    set_zero(span);
    return {span, memory};
  }

  void write(std::span<const float> from, DeviceSpan to) override {
    MILLRACE_CHECK(from.size() == to.size(), "sizes differ");
    std::ranges::copy(from, host(to).begin());
  }
  void read(DeviceSpan from, std::span<float> to) override {
    MILLRACE_CHECK(from.size() == to.size(), "sizes differ");
    std::ranges::copy(host(from), to.begin());
  }
  void copy(DeviceSpan from, DeviceSpan to) override {
    MILLRACE_CHECK(from.size() == to.size(), "sizes differ");
    std::ranges::copy(host(from), host(to).begin());
  }
  void swap(DeviceSpan a, DeviceSpan b) override {
    MILLRACE_CHECK(a.size() == b.size(), "sizes differ");
    std::ranges::swap_ranges(host(a), host(b));
  }
  void set_zero(DeviceSpan values) override { std::ranges::fill(host(values), 0.0F); }
  void add(DeviceSpan into, DeviceSpan values) override {
    MILLRACE_CHECK(into.size() == values.size(), "sizes differ");
    flat::add(host(into), host(values));
  }

  void average(DeviceSpan values, double count, Collectives& group) override {
    group.all_reduce(host(values));
    flat::scale(host(values), 1.0F / static_cast<float>(count));
  }
  void all_gather(DeviceSpan values, Collectives& group) override {
    group.all_gather(host(values));
  }
  void all_gather_rounded(DeviceSpan values, std::span<const ValueRange> rounded,
                          Collectives& group) override {
    group.all_gather_rounded(host(values), rounded);
  }
  std::unique_ptr<GradientReducer> make_reducer(DeviceSpan gradients, Collectives& group,
                                                const GradientReducerOptions& options) override {
    return std::make_unique<BucketReducer>(host(gradients), group, options);
  }

  std::unique_ptr<nn::Plan> compile(const Model& model, const nn::PlanOptions& options,
                                    const PlanBuffers& buffers) override {
    return model.compile(options, {.parameters = host(buffers.parameters),
                                   .gradients = host(buffers.gradients),
                                   .buffers = host(buffers.buffers)});
  }
  std::unique_ptr<Updater> make_updater(const UpdaterSetup& setup) override {
    return std::make_unique<CpuUpdater>(setup);
  }

 private:
  std::string name_ = "cpu";
};

}  // namespace

std::unique_ptr<ComposedBackend> make_cpu_backend() { return std::make_unique<CpuBackend>(); }

}  // namespace millrace::trainer
