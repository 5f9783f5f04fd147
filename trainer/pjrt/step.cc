#include "trainer/pjrt/step.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>
#include <string>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/hash.h"
#include "trainer/optimizer.h"

namespace millrace::trainer {
namespace {

using device::pjrt::Buffer;
using hlo::Role;

DeviceArrays one(Buffer array) {
  DeviceArrays arrays;
  arrays.push_back(std::move(array));
  return arrays;
}

std::string weights_digest(const std::vector<float>& values) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(values)));
  return hash.hex();
}

hlo::StepProgramOptions program_options(const StepSetup& setup) {
  hlo::StepProgramOptions options{.optimizer = setup.optimizer, .clip = setup.clip};
  if (!setup.ema.empty()) options.ema_decay = setup.ema_decay;
  return options;
}

}  // namespace

PjrtStep::PjrtStep(PjrtReplica& replica, const StepSetup& setup)
    : replica_(replica),
      setup_(setup),
      // Refuses what contradicts itself.
      state_names_(Optimizer(setup.optimizer, replica.setup().model.parameters()).state_names()),
      is_split_(setup.accumulate > 1 || sums_on_host()),
      has_base_lr_(has_falling_group(setup.optimizer.rule.make()->settings())) {
  ReplicaTeam& team = replica.team();
  if (replica.device() == 0)
    team.programs().set_training(program_options(setup), team.size(),
                                 is_split_ ? ProgramKind::kGradients : ProgramKind::kStep);
  team.add(replica.device(), *this);
}

bool PjrtStep::has_several_processes() const {
  return setup_.gradient_group.world() > replica_.team().size();
}

/// Of processes that the plugin does not connect.
bool PjrtStep::sums_on_host() const {
  return has_several_processes() && !replica_.team().programs().spans_processes();
}

bool PjrtStep::is_first() const { return replica_.team().steps().front() == this; }

void PjrtStep::add(const MicroBatch& micro) {
  num_valid_ += micro.num_valid;
  slots_ = micro.batch_size;
  // How many samples an accumulated step will have is not known yet.
  if (divisor_ == 0)
    divisor_ =
        static_cast<double>(setup_.accumulate * micro.batch_size) * setup_.gradient_group.world();
  if (micro.batch == nullptr || micro.batch->num_valid == 0) return;
  replica_.check_targets(*micro.batch);
  is_split_ ? accumulate(micro) : keep(micro);
  has_sample_ = true;
  setup_.clock.lap(is_split_ ? &StepTimes::device : &StepTimes::land);
}

void PjrtStep::keep(const MicroBatch& micro) {
  const CompiledProgram& program =
      replica_.program(ProgramKind::kStep, shape_of(*micro.batch, replica_.setup().objective));
  batch_ = land(replica_.client(), replica_.device(), program.manifest, *micro.batch);
  key_ = one(copy_key(replica_.client(), replica_.device(), micro.random_key));
}

void PjrtStep::accumulate(const MicroBatch& micro) {
  const device::pjrt::Client& client = replica_.client();
  const std::size_t device = replica_.device();
  const CompiledProgram& program =
      replica_.program(ProgramKind::kGradients, shape_of(*micro.batch, replica_.setup().objective));
  const BatchArrays batch = land(client, device, program.manifest, *micro.batch);
  const Buffer key = copy_key(client, device, micro.random_key);
  const Buffer divisor = copy_number(client, device, static_cast<float>(divisor_));
  const Buffer first = copy_flag(client, device, !has_sample_);
  if (accumulated_.gradients.empty()) complete_sums();
  Arguments arguments(program.manifest);
  arguments.give(Role::kWeight, replica_.weights());
  arguments.give(Role::kBuffer, has_sample_ ? accumulated_.buffers : replica_.buffers());
  batch.give_to(arguments);
  arguments.give(Role::kRandomKey, key);
  arguments.give(Role::kGradient, accumulated_.gradients);
  arguments.give(Role::kSums, accumulated_.sums);
  arguments.give(Role::kNumSamples, accumulated_.samples);
  arguments.give(Role::kDivisor, divisor);
  arguments.give(Role::kIsFirst, first);
  DeviceArrays results = program.program.run_on(device, arguments.take());
  accumulated_ = {.gradients = take_results(program.manifest, results, Role::kGradient),
                  .sums = take_results(program.manifest, results, Role::kSums),
                  .samples = take_results(program.manifest, results, Role::kNumSamples),
                  .buffers = take_results(program.manifest, results, Role::kNewBuffer)};
}

/// Zeros, if this replica has had no sample.
void PjrtStep::complete_sums() {
  if (has_sample_) return;
  const Model& model = replica_.setup().model;
  const auto zeros = [&](const std::vector<std::int64_t>& shape) {
    return copy_zeros(replica_.client(), replica_.device(), shape);
  };
  accumulated_ = {};
  for (const Parameter& entry : model.parameters().entries())
    accumulated_.gradients.push_back(zeros(entry.shape));
  for (const Parameter& entry : model.buffers().entries())
    accumulated_.buffers.push_back(zeros(entry.shape));
  const auto sums = static_cast<std::int64_t>(replica_.setup().objective.num_sums());
  accumulated_.sums = one(zeros({sums}));
  accumulated_.samples = one(zeros({}));
}

void PjrtStep::apply(const StepNumbers& numbers) {
  if (num_valid_ == 0) {
    pending_.emplace_back();
    skip(numbers);
    return forget();
  }
  land_numbers(numbers);
  if (is_split_) complete_sums();
  setup_.clock.lap(&StepTimes::land);
  if (sums_on_host()) sum_over_processes();
  setup_.gradient_group.barrier();
  setup_.clock.lap_collectives();
  if (is_first()) run_all();
  setup_.gradient_group.barrier();
  forget();
  setup_.clock.lap(&StepTimes::device);
}

/// Counts a step without a sample, which no program does.
void PjrtStep::skip(const StepNumbers& numbers) {
  std::int64_t skipped = numbers.skipped;
  if (!skipped_.empty()) skipped_.front().read(std::as_writable_bytes(std::span(&skipped, 1)));
  skipped_ = one(copy_number(replica_.client(), replica_.device(), skipped + 1));
}

void PjrtStep::land_numbers(const StepNumbers& numbers) {
  const device::pjrt::Client& client = replica_.client();
  const std::size_t device = replica_.device();
  lr_ = one(copy_number(client, device, numbers.lr));
  if (has_base_lr_) base_lr_ = one(copy_number(client, device, numbers.unscheduled_lr()));
  step_ = one(copy_number(client, device, numbers.step));
  if (skipped_.empty()) skipped_ = one(copy_number(client, device, numbers.skipped));
  valid_ = one(copy_number(client, device, static_cast<float>(num_valid_)));
  if (is_split_) divisor_array_ = one(copy_number(client, device, static_cast<float>(divisor_)));
}

/// Makes the sums over all replicas of all processes, and the buffers' mean, each replica's.
void PjrtStep::sum_over_processes() {
  const device::pjrt::Client& client = replica_.client();
  const std::size_t device = replica_.device();
  const Model& model = replica_.setup().model;
  const std::size_t num_sums = replica_.setup().objective.num_sums();
  Collectives& group = setup_.gradient_group;
  // In two parts, so that gradients travel as the run wants them to (ClusterOptions).
  std::vector<float> gradients = flat(model.parameters(), accumulated_.gradients);
  if (!gradients.empty()) group.reduce_scatter(gradients);
  if (!gradients.empty()) group.all_gather(gradients);
  std::vector<float> buffers = flat(model.buffers(), accumulated_.buffers);
  if (!buffers.empty()) group.all_reduce(std::span<float>(buffers));
  std::vector<double> sums;
  for (const float sum : values_of(accumulated_.sums.front(), num_sums)) sums.push_back(sum);
  sums.push_back(values_of(accumulated_.samples.front(), 1).front());
  sums.push_back(has_sample_ ? 1.0 : 0.0);
  group.all_reduce(std::span<double>(sums));
  for (float& value : buffers) value /= static_cast<float>(std::max(1.0, sums.back()));
  const std::vector<float> totals(sums.begin(), sums.end());
  accumulated_ = {.gradients = copy_table(client, device, model.parameters(), gradients),
                  .sums = one(copy_floats(client, device, std::span(totals).first(num_sums),
                                          {static_cast<std::int64_t>(num_sums)})),
                  .samples = one(copy_number(client, device, totals[num_sums])),
                  .buffers = copy_table(client, device, model.buffers(), buffers)};
}

/// On the host; zeros, if this replica has had no sample.
std::vector<float> PjrtStep::flat(const ParameterTable& table, const DeviceArrays& arrays) const {
  std::vector<float> values(table.padded_size());
  if (has_sample_) read_table(table, arrays, values);
  return values;
}

/// Runs the step's program for all replicas of the process.
void PjrtStep::run_all() {
  const std::vector<PjrtStep*> steps = replica_.team().steps();
  const CompiledProgram& program = program_of(steps);
  std::vector<std::vector<const Buffer*>> all;
  for (PjrtStep* const step : steps) all.push_back(step->arguments(program.manifest));
  replica_.team().set_has_weights(false);  // a program that fails has consumed them
  auto results = program.program.run(all);
  for (std::size_t r = 0; r < steps.size(); ++r)
    steps[r]->take(program.manifest, std::move(results[r]));
  replica_.team().set_has_weights(true);
}

const CompiledProgram& PjrtStep::program_of(const std::vector<PjrtStep*>& steps) {
  if (sums_on_host()) return replica_.program(ProgramKind::kSummedUpdate);
  if (is_split_) return replica_.program(ProgramKind::kUpdate);
  return replica_.program(ProgramKind::kStep, shape_of_step(steps));
}

/// Where other processes take part, each knows the shape by itself.
BatchShape PjrtStep::shape_of_step(const std::vector<PjrtStep*>& steps) {
  BatchShape shape{.slots = slots_, .input = replica_.team().programs().usual_input()};
  const auto known =
      std::ranges::find_if(steps, [](const PjrtStep* step) { return step->batch_.has_value(); });
  if (known != steps.end()) shape.input = (*known)->batch_->shape.input;
  if (known != steps.end() && !has_several_processes()) shape = (*known)->batch_->shape;
  for (const PjrtStep* const step : steps)
    if (step->batch_ && step->batch_->shape != shape)
      throw Error(
          ErrorCode::kUnsupported,
          fmt::format("a step of batches of {} and {} samples: devices that run one program "
                      "take batches of one size (--uneven pad)",
                      shape.slots, step->batch_->shape.slots));
  return shape;
}

std::vector<const Buffer*> PjrtStep::arguments(const hlo::Program& program) {
  const device::pjrt::Client& client = replica_.client();
  const ParameterTable& table = replica_.setup().model.parameters();
  const auto on_device = [&](DeviceSpan span) -> const DeviceArrays& {
    return FlatBuffer::of(span).on(client, replica_.device(), table);
  };
  Arguments arguments(program);
  arguments.give(Role::kWeight, replica_.weights());
  for (std::size_t k = 0; k < state_names_.size(); ++k)
    arguments.give(Role::kState, on_device(setup_.states[k]), state_names_[k]);
  if (!setup_.ema.empty()) arguments.give(Role::kEma, on_device(setup_.ema));
  arguments.give(Role::kBuffer, replica_.buffers());
  arguments.give(Role::kLearningRate, lr_);
  if (has_base_lr_) arguments.give(Role::kBaseRate, base_lr_);
  arguments.give(Role::kStep, step_);
  arguments.give(Role::kSkipped, skipped_);
  arguments.give(Role::kNumValid, valid_);
  if (is_split_) {
    arguments.give(Role::kGradient, accumulated_.gradients);
    arguments.give(Role::kSums, accumulated_.sums);
    arguments.give(Role::kNumSamples, accumulated_.samples);
    arguments.give(Role::kNewBuffer, accumulated_.buffers);
    arguments.give(Role::kDivisor, divisor_array_);
    return arguments.take();
  }
  if (!batch_) {
    batch_ = land_none(client, replica_.device(), program);
    key_ = one(copy_key(client, replica_.device(), {}));
  }
  batch_->give_to(arguments);
  arguments.give(Role::kRandomKey, key_);
  return arguments.take();
}

void PjrtStep::take(const hlo::Program& program, DeviceArrays results) {
  const std::size_t device = replica_.device();
  const auto replace = [&](DeviceSpan span, Role role, const std::string& state = {}) {
    if (span.empty()) return;
    FlatBuffer::of(span).replace(device, take_results(program, results, role, state));
  };
  replace(replica_.setup().weights, Role::kWeight);
  for (std::size_t k = 0; k < state_names_.size(); ++k)
    replace(setup_.states[k], Role::kState, state_names_[k]);
  replace(setup_.ema, Role::kEma);
  replace(replica_.setup().buffers, Role::kBuffer);
  skipped_ = take_results(program, results, Role::kSkipped);
  pending_.push_back({.sums = take_results(program, results, Role::kSums),
                      .samples = take_results(program, results, Role::kNumSamples),
                      .is_finite = take_results(program, results, Role::kIsFinite)});
}

void PjrtStep::forget() {
  batch_.reset();
  num_valid_ = divisor_ = 0;
  has_sample_ = false;
}

// If a program has failed, its weights are none.
StepOutcome PjrtStep::outcome() {
  MILLRACE_CHECK(!pending_.empty(), "no step to ask for");
  const Results results = std::move(pending_.front());
  pending_.pop_front();
  try {
    StepOutcome outcome = read(results);
    setup_.clock.lap(&StepTimes::device);
    return outcome;
  } catch (...) {
    is_intact_ = false;
    throw;
  }
}

StepOutcome PjrtStep::read(const Results& results) const {
  StepOutcome outcome{.sums = std::vector<double>(replica_.setup().objective.num_sums())};
  if (results.sums.empty()) return outcome;
  std::ranges::copy(values_of(results.sums.front(), outcome.sums.size()), outcome.sums.begin());
  outcome.samples = static_cast<double>(values_of(results.samples.front(), 1).front());
  std::array<std::byte, 1> flag{};
  results.is_finite.front().read(flag);
  outcome.is_finite = flag[0] != std::byte{0};
  return outcome;
}

void PjrtStep::await_weights() {
  try {
    for (const Results& one : pending_)
      if (!one.is_finite.empty()) one.is_finite.front().wait();
    if (has_several_processes()) check_same_weights();
  } catch (...) {
    is_intact_ = false;
    throw;
  }
}

/// Each process has computed the same update, and weights are not exchanged: processors that round
/// differently would train models of their own. Throws: Corrupt, on a process whose weights are not
/// the others'.
void PjrtStep::check_same_weights() {
  // Parts of a digest, whose sums are exact in a double; and the number of processes.
  constexpr std::size_t kParts = 8;
  std::array<double, kParts + 1> sums{};
  if (is_first()) {
    std::vector<float> weights(replica_.setup().weights.size());
    FlatBuffer::of(replica_.setup().weights).read(0, weights);
    const std::string digest = weights_digest(weights);
    const std::size_t digits = digest.size() / kParts;
    for (std::size_t i = 0; i < kParts; ++i)
      sums[i] = static_cast<double>(std::stoul(digest.substr(i * digits, digits), nullptr, 16));
    sums[kParts] = 1.0;
  }
  const auto own = sums;
  setup_.gradient_group.all_reduce(std::span<double>(sums));
  if (!is_first()) return;
  for (std::size_t i = 0; i < kParts; ++i)
    if (sums[i] != own[i] * sums[kParts])
      throw Error(ErrorCode::kCorrupt,
                  "this process's weights are not the others': their devices do not round alike, "
                  "and a run of several processes on a plugin's devices needs devices of one kind");
}

void PjrtStep::discard() { forget(); }

}  // namespace millrace::trainer
