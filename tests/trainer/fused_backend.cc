#include "tests/trainer/fused_backend.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <optional>
#include <utility>

#include "io/base/check.h"
#include "trainer/optimizer.h"

namespace millrace::testing {
namespace {

using trainer::EvaluationOutcome;
using trainer::StepOutcome;
using trainer::nn::Mode;

/// Puts new values in a buffer's place. Whoever still holds the old ones reads NaN.
void donate(FusedBuffer& buffer, std::vector<float> values) {
  std::ranges::fill(*buffer.values, std::numeric_limits<float>::quiet_NaN());
  buffer.values = std::make_shared<std::vector<float>>(std::move(values));
}

bool all_finite(std::span<const float> values) {
  return std::ranges::all_of(values, [](float value) { return std::isfinite(value); });
}

/// A compiled computation for batches of one shape, and the memory that it works in.
struct Kernel {
  std::vector<float> parameters, gradients, buffers;
  std::unique_ptr<trainer::nn::Plan> plan;
};

class FusedReplica final : public trainer::BackendReplica {
 public:
  FusedReplica(FusedBackend& backend, const trainer::ReplicaSetup& setup)
      : backend_(backend), setup_(setup) {}

  std::unique_ptr<trainer::ReplicaStep> make_step(const trainer::StepSetup& setup) override;
  std::unique_ptr<trainer::EvaluationStep> make_evaluation() override;
  std::unique_ptr<trainer::PredictionStep> make_prediction() override;
  void weights_changed() override {}
  std::vector<trainer::CompileEvent> take_compilations() override {
    return std::exchange(compilations_, {});
  }

  FusedBackend& backend() { return backend_; }
  const trainer::ReplicaSetup& setup() const { return setup_; }
  std::vector<float> values(trainer::DeviceSpan span) {
    return span.empty() ? std::vector<float>() : *backend_.buffer(span).values;
  }

  /// Computes a batch's outputs with the weights of the buffer and these running statistics.
  Kernel& forward(const pipeline::Batch& batch, Mode mode, std::span<const float> buffers,
                  const trainer::nn::BatchKey& key = {}) {
    Kernel& kernel = kernel_for(batch);
    std::ranges::copy(values(setup_.weights), kernel.parameters.begin());
    std::ranges::copy(buffers, kernel.buffers.begin());
    kernel.plan->parameters_changed();
    kernel.plan->set_random_key(key);
    std::vector<std::span<const std::byte>> inputs;
    for (const std::string& name : setup_.objective.inputs())
      inputs.emplace_back(batch.field(name).data);
    kernel.plan->forward(inputs, mode);
    return kernel;
  }

  std::int64_t score(const trainer::ScoreRequest& request, std::span<double> sums) {
    setup_.objective.score(request, sums);
    std::int64_t count = 0;
    for (std::size_t slot = 0; slot < request.batch.valid.size(); ++slot)
      if (request.batch.valid[slot] != 0 && !is_finite(request.plan, slot, request.batch.size))
        ++count;
    if (count > 0) sums.front() = std::nan("");
    return count;
  }

 private:
  static bool is_finite(trainer::nn::Plan& plan, std::size_t slot, std::int64_t slots) {
    bool finite = true;
    for (std::size_t i = 0; i < plan.num_outputs(); ++i) {
      const std::span<float> values = plan.output(i).data;
      const std::size_t width = values.size() / static_cast<std::size_t>(slots);
      finite = finite && all_finite(values.subspan(slot * width, width));
    }
    return finite;
  }

  Kernel& kernel_for(const pipeline::Batch& batch) {
    const decode::DType dtype = batch.field(setup_.objective.inputs().front()).spec.dtype;
    Kernel& kernel = kernels_[{batch.size, dtype}];
    if (kernel.plan != nullptr) return kernel;
    kernel.parameters.resize(setup_.model.parameters().padded_size());
    kernel.gradients.resize(kernel.parameters.size());
    kernel.buffers.resize(setup_.model.buffers().padded_size());
    kernel.plan = setup_.model.compile(
        {.batch_size = batch.size, .precision = setup_.precision, .input_dtype = dtype},
        {.parameters = kernel.parameters,
         .gradients = kernel.gradients,
         .buffers = kernel.buffers});
    compilations_.push_back({.rank = setup_.control.rank(), .shape = setup_.model.name()});
    return kernel;
  }

  FusedBackend& backend_;
  trainer::ReplicaSetup setup_;
  std::map<std::pair<std::int64_t, decode::DType>, Kernel> kernels_;
  std::vector<trainer::CompileEvent> compilations_;
};

/// What a program is called with.
struct Arguments {
  struct Micro {
    std::optional<pipeline::Batch> batch;
    double num_valid = 0;
    trainer::nn::BatchKey key;
  };
  std::vector<Micro> micros;
  trainer::StepNumbers numbers;
};

/// A whole step of training.
class Program {
 public:
  Program(FusedReplica& replica, const trainer::StepSetup& setup)
      : replica_(replica),
        setup_(setup),
        optimizer_(setup.optimizer, replica.setup().model.parameters()) {}

  StepOutcome run(const Arguments& arguments) {
    num_valid_ = 0;
    for (const Arguments::Micro& micro : arguments.micros) num_valid_ += micro.num_valid;
    gradients_.assign(replica_.setup().model.parameters().padded_size(), 0.0F);
    buffers_ = replica_.values(replica_.setup().buffers);
    sums_.assign(replica_.setup().objective.num_sums() + 2, 0.0);
    for (const Arguments::Micro& micro : arguments.micros) compute(micro);
    return finish(arguments.numbers);
  }

 private:
  double& samples() { return sums_[sums_.size() - 2]; }
  double& replicas() { return sums_.back(); }

  void compute(const Arguments::Micro& micro) {
    if (!micro.batch || micro.batch->num_valid == 0) return;
    Kernel& kernel = replica_.forward(*micro.batch, Mode::kTrain, buffers_, micro.key);
    replica_.score({.plan = *kernel.plan,
                    .batch = *micro.batch,
                    .gradients = true,
                    .divisor = std::max(1.0, num_valid_)},
                   std::span(sums_).first(sums_.size() - 2));
    kernel.plan->backward([](std::size_t) {});
    for (std::size_t i = 0; i < gradients_.size(); ++i) gradients_[i] += kernel.gradients[i];
    buffers_ = kernel.buffers;
    samples() += static_cast<double>(micro.batch->num_valid);
    replicas() = 1.0;
  }

  StepOutcome finish(const trainer::StepNumbers& numbers) {
    trainer::Collectives& group = setup_.gradient_group;
    if (replicas() == 0.0) std::ranges::fill(buffers_, 0.0F);
    group.all_reduce(std::span<float>(gradients_));
    group.all_reduce(std::span<float>(buffers_));
    group.all_reduce(std::span<double>(sums_));
    const bool is_finite = std::isfinite(sums_.front()) && all_finite(gradients_);
    const bool changes = is_finite && num_valid_ > 0.0;
    // Every rank has read what the process's first one replaces.
    if (!skipped_) skipped_ = numbers.skipped;
    if (changes && replica_.setup().device == 0) update(numbers, *skipped_);
    if (!changes) ++*skipped_;
    if (changes && !buffers_.empty()) {
      for (float& value : buffers_) value /= static_cast<float>(replicas());
      donate(replica_.backend().buffer(replica_.setup().buffers), buffers_);
    }
    group.barrier();
    return {.sums = {sums_.begin(), sums_.end() - 2}, .samples = samples(), .is_finite = is_finite};
  }

  void clip() {
    const float bound = setup_.clip.value;
    if (bound > 0.0F)
      for (float& value : gradients_) value = std::clamp(value, -bound, bound);
    double squares = 0;
    for (const float value : gradients_)
      squares += static_cast<double>(value) * static_cast<double>(value);
    const double norm = std::sqrt(squares);
    if (setup_.clip.norm <= 0.0 || norm <= setup_.clip.norm) return;
    for (float& value : gradients_) value *= static_cast<float>(setup_.clip.norm / (norm + 1e-6));
  }

  void update(const trainer::StepNumbers& numbers, std::int64_t skipped) {
    clip();
    std::vector<float> weights = replica_.values(replica_.setup().weights);
    std::vector<std::vector<float>> states;
    for (const trainer::DeviceSpan state : setup_.states) states.push_back(replica_.values(state));
    const std::vector<std::span<float>> spans(states.begin(), states.end());
    trainer::Update update{.weights = weights,
                           .gradients = gradients_,
                           .states = spans,
                           .lr = numbers.lr,
                           .step = numbers.step,
                           .base_lr = numbers.base_lr,
                           .skipped = skipped};
    std::vector<double> squares(optimizer_.num_square_sums());
    optimizer_.add_square_sums(update, {0, weights.size()}, squares);
    update.square_sums = squares;
    optimizer_.update(update, {0, weights.size()});
    FusedBackend& backend = replica_.backend();
    if (!setup_.ema.empty()) {
      const auto decay = static_cast<float>(setup_.ema_decay);
      std::vector<float> ema = replica_.values(setup_.ema);
      for (std::size_t i = 0; i < ema.size(); ++i)
        ema[i] = decay * ema[i] + (1.0F - decay) * weights[i];
      donate(backend.buffer(setup_.ema), std::move(ema));
    }
    donate(backend.buffer(replica_.setup().weights), std::move(weights));
    for (std::size_t i = 0; i < states.size(); ++i)
      donate(backend.buffer(setup_.states[i]), std::move(states[i]));
  }

  FusedReplica& replica_;
  trainer::StepSetup setup_;
  trainer::Optimizer optimizer_;
  double num_valid_ = 0;
  std::optional<std::int64_t> skipped_;  ///< as StepNumbers'
  std::vector<float> gradients_;
  std::vector<float> buffers_;
  std::vector<double> sums_;  ///< the objective's, valid samples, replicas that had one
};

class FusedStep final : public trainer::ReplicaStep {
 public:
  FusedStep(FusedReplica& replica, const trainer::StepSetup& setup)
      : backend_(replica.backend()), program_(replica, setup) {}
  ~FusedStep() override { backend_.given -= static_cast<int>(given_.size()); }

  void add(const trainer::MicroBatch& micro) override {
    next_.micros.push_back(
        {.batch = micro.batch == nullptr ? std::nullopt : std::optional(*micro.batch),
         .num_valid = micro.num_valid,
         .key = micro.random_key});
  }
  void apply(const trainer::StepNumbers& numbers) override {
    next_.numbers = numbers;
    given_.push_back(std::exchange(next_, {}));
    ++backend_.given;
    if (given_.size() > 1) run();
  }
  bool runs_ahead() const override { return true; }
  StepOutcome outcome() override {
    if (known_.empty()) force();
    MILLRACE_CHECK(!known_.empty(), "no step to ask for");
    StepOutcome outcome = std::move(known_.front());
    known_.pop_front();
    return outcome;
  }
  void await_weights() override {
    while (!given_.empty()) force();
  }
  void discard() override { next_ = {}; }
  bool is_intact() const override { return is_intact_; }

 private:
  void force() {
    if (given_.empty()) return;
    ++backend_.forced;
    run();
  }
  void run() {
    is_intact_ = false;
    known_.push_back(program_.run(given_.front()));
    is_intact_ = true;
    given_.pop_front();
    --backend_.given;
  }

  FusedBackend& backend_;
  Program program_;
  Arguments next_;
  std::deque<Arguments> given_;
  std::deque<StepOutcome> known_;
  bool is_intact_ = true;
};

class FusedEvaluation final : public trainer::EvaluationStep {
 public:
  explicit FusedEvaluation(FusedReplica& replica) : replica_(replica) {
    found_.sums.resize(replica.setup().objective.num_sums());
  }
  void add(const pipeline::Batch& batch) override { batches_.push_back(batch); }
  EvaluationOutcome outcome() override {
    for (const pipeline::Batch& batch : std::exchange(batches_, {})) {
      Kernel& kernel =
          replica_.forward(batch, Mode::kEvaluate, replica_.values(replica_.setup().buffers));
      found_.non_finite += replica_.score(
          {.plan = *kernel.plan, .batch = batch, .records = &found_.records}, found_.sums);
      found_.samples += static_cast<double>(batch.num_valid);
    }
    return found_;
  }

 private:
  FusedReplica& replica_;
  std::vector<pipeline::Batch> batches_;
  EvaluationOutcome found_;
};

class FusedPrediction final : public trainer::PredictionStep {
 public:
  explicit FusedPrediction(FusedReplica& replica) : replica_(replica) {}
  std::vector<trainer::nn::OutputView> outputs(const pipeline::Batch& batch) override {
    Kernel& kernel =
        replica_.forward(batch, Mode::kEvaluate, replica_.values(replica_.setup().buffers));
    std::vector<trainer::nn::OutputView> views;
    for (std::size_t i = 0; i < kernel.plan->num_outputs(); ++i)
      views.push_back(kernel.plan->output(i));
    return views;
  }

 private:
  FusedReplica& replica_;
};

std::unique_ptr<trainer::ReplicaStep> FusedReplica::make_step(const trainer::StepSetup& setup) {
  return std::make_unique<FusedStep>(*this, setup);
}

std::unique_ptr<trainer::EvaluationStep> FusedReplica::make_evaluation() {
  return std::make_unique<FusedEvaluation>(*this);
}

std::unique_ptr<trainer::PredictionStep> FusedReplica::make_prediction() {
  return std::make_unique<FusedPrediction>(*this);
}

}  // namespace

trainer::DeviceBuffer FusedBackend::allocate(std::size_t floats) {
  auto buffer = std::make_shared<FusedBuffer>();
  buffer->values = std::make_shared<std::vector<float>>(floats);
  return book_.add({buffer}, floats);
}

std::span<float> FusedBackend::host(trainer::DeviceSpan span) {
  MILLRACE_CHECK(given == 0, "the host uses a buffer while a step is on its way");
  return book_.find(span).values();
}

FusedBuffer& FusedBackend::buffer(trainer::DeviceSpan whole) { return *book_.find(whole).buffer; }

void FusedBackend::write(std::span<const float> from, trainer::DeviceSpan to) {
  std::ranges::copy(from, host(to).begin());
}

void FusedBackend::read(trainer::DeviceSpan from, std::span<float> to) {
  std::ranges::copy(host(from), to.begin());
}

void FusedBackend::copy(trainer::DeviceSpan from, trainer::DeviceSpan to) {
  std::ranges::copy(host(from), host(to).begin());
}

void FusedBackend::swap(trainer::DeviceSpan a, trainer::DeviceSpan b) {
  std::ranges::swap_ranges(host(a), host(b));
}

device::Landing FusedBackend::landing(const trainer::Objective& objective) const {
  device::Landing landing;
  for (const trainer::Head& head : objective.heads()) landing.stays.push_back(head.target);
  return landing;
}

std::unique_ptr<trainer::BackendReplica> FusedBackend::make_replica(
    const trainer::ReplicaSetup& setup) {
  return std::make_unique<FusedReplica>(*this, setup);
}

}  // namespace millrace::testing
