#include "trainer/prometheus_metrics.h"

#include <fmt/format.h>

#include <array>
#include <chrono>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "trainer/prometheus_page.h"

namespace millrace::trainer {
namespace {

constexpr std::array<std::string_view, 5> kPhases = {"starting", "training", "evaluating", "saving",
                                                     "ended"};

double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

/// An input's name, and what it told.
struct Input {
  std::string_view set;
  InputState state;
};
using Inputs = std::vector<Input>;

Inputs inputs_of(const WatchedRun& run) {
  Inputs inputs;
  const auto add = [&](std::string_view set, const WatchedRun::Input& input) {
    if (!input) return;
    if (auto state = input()) inputs.push_back({set, *std::move(state)});
  };
  add("train", run.train);
  add("val", run.validation);
  return inputs;
}

/// A value for each stage of each input.
template <typename Value>
void stage_values(PrometheusPage& page, const Inputs& inputs, const Value& value) {
  for (const Input& input : inputs)
    for (const pipeline::StageStatistics& stage : input.state.statistics.stages)
      page.value(value(stage), {{"set", input.set}, {"stage", stage.name}});
}

void add_stages(PrometheusPage& page, const Inputs& inputs) {
  using Stage = pipeline::StageStatistics;
  page.counter("millrace_input_samples_total", "Samples that a stage of the input has done");
  stage_values(page, inputs, [](const Stage& stage) { return stage.items; });
  page.counter("millrace_input_bytes_total",
               "Encoded bytes that a stage has done; of deliver, bytes of batches");
  stage_values(page, inputs, [](const Stage& stage) { return stage.bytes; });
  page.counter("millrace_input_busy_seconds_total", "Time that a stage's threads worked, summed");
  stage_values(page, inputs, [](const Stage& stage) { return seconds(stage.busy); });
  page.counter("millrace_input_waiting_seconds_total",
               "Time that a stage's threads had nothing to do or were blocked, summed");
  stage_values(page, inputs, [](const Stage& stage) { return seconds(stage.waiting); });
  page.gauge("millrace_input_threads", "Threads of a stage");
  stage_values(page, inputs, [](const Stage& stage) { return stage.threads; });
}

void add_inputs(PrometheusPage& page, const Inputs& inputs) {
  const auto each = [&](const auto& value) {
    for (const Input& input : inputs)
      page.value(value(input.state.statistics), {{"set", input.set}});
  };
  using Counts = pipeline::Statistics;
  page.gauge("millrace_input_landed_samples", "Samples of batches that wait for a device");
  for (const Input& input : inputs)
    if (input.state.landed_samples) page.value(*input.state.landed_samples, {{"set", input.set}});
  page.gauge("millrace_input_held_bytes", "Encoded samples and batches that the input holds");
  each([](const Counts& counts) { return counts.held_bytes; });
  page.counter("millrace_input_batches_total", "Batches handed out");
  each([](const Counts& counts) { return counts.batches; });
  page.counter("millrace_input_consumer_wait_seconds_total",
               "Time for which the input let its consumer wait");
  each([](const Counts& counts) { return seconds(counts.consumer_wait); });
  page.counter("millrace_skipped_samples_total", "Samples that the fault policy has skipped");
  each([](const Counts& counts) { return counts.skipped; });
  page.counter("millrace_refetched_total",
               "Samples and indexes that arrived damaged, and intact when fetched again");
  each([](const Counts& counts) { return counts.refetched; });
}

std::uint64_t handed_out(const Inputs& inputs) {
  std::uint64_t samples = 0;
  for (const Input& input : inputs) samples += input.state.statistics.samples;
  return samples;
}

/// The last step of rank 0, and where the time of all of them went.
void add_step(PrometheusPage& page, const StepEvent& step, const StepTimes& times) {
  page.gauge("millrace_step", "Step in the epoch, from 1").value(step.step);
  page.gauge("millrace_steps_per_epoch", "Steps of an epoch; 0: unknown")
      .value(step.steps_per_epoch);
  page.gauge("millrace_samples_per_second",
             "Samples of all replicas per second, since the epoch began")
      .value(step.total_rate);
  page.gauge("millrace_loss", "Loss of the last step").value(step.loss);
  page.gauge("millrace_mean_loss", "Mean loss of the epoch so far").value(step.mean_loss);
  page.gauge("millrace_learning_rate", "Learning rate of the last step").value(step.lr);
  page.counter("millrace_step_seconds_total", "Time of rank 0's steps, by what it was spent on");
  for (const StepTimes::Part& part : StepTimes::parts())
    page.value(times.*part.value, {{"part", part.name}});
}

}  // namespace

PrometheusMetrics::PrometheusMetrics(std::string version, const Clock& clock)
    : version_(std::move(version)),
      clock_(clock),
      wall_start_(seconds_since_1970()),
      progress_(clock.now()) {}

PrometheusMetrics::Watched::Watched(PrometheusMetrics& metrics, const WatchedRun& run)
    : metrics_(metrics) {
  MutexLock watching(metrics_.run_mutex_);
  metrics_.run_ = run;
  MutexLock lock(metrics_.mutex_);
  if (run.topology.process > 0) metrics_.progressed("training");  // nobody will say more of it
}

PrometheusMetrics::Watched::~Watched() {
  MutexLock lock(metrics_.run_mutex_);
  metrics_.run_ = {};
}

void PrometheusMetrics::progressed(std::string_view phase) {
  phase_ = phase;
  progress_ = clock_.now();
}

void PrometheusMetrics::on_fit_start() {
  MutexLock lock(mutex_);
  progressed("starting");
}

void PrometheusMetrics::on_epoch_start(std::int64_t epoch) {
  MutexLock lock(mutex_);
  told_.epoch = epoch;
  progressed("training");
}

void PrometheusMetrics::on_step(const StepEvent& event) {
  MutexLock lock(mutex_);
  told_.step = event;
  ++told_.steps;
  told_.samples += event.global_samples;
  told_.times.add(event.times);
  progressed("training");
}

void PrometheusMetrics::on_train_end(const EpochEvent& event) {
  MutexLock lock(mutex_);
  told_.measures["train"] = event.train;
}

void PrometheusMetrics::on_evaluation_start(std::int64_t /*epoch*/) {
  MutexLock lock(mutex_);
  progressed("evaluating");
}

void PrometheusMetrics::on_evaluation_step(std::int64_t /*batches*/) {
  MutexLock lock(mutex_);
  ++told_.evaluated_batches;
  progressed("evaluating");
}

void PrometheusMetrics::on_evaluation_end(const EpochEvent& event) {
  MutexLock lock(mutex_);
  told_.measures["val"] = event.val;
}

void PrometheusMetrics::on_epoch_end(const EpochEvent& event) {
  MutexLock lock(mutex_);
  for (const auto& [fault, samples] : event.input.faults) told_.faults[fault] += samples;
  if (event.is_best) told_.best_epoch = event.epoch;
}

void PrometheusMetrics::on_checkpoint_start(const std::string& /*path*/) {
  MutexLock lock(mutex_);
  progressed("saving");
}

void PrometheusMetrics::on_checkpoint(const std::string& /*path*/) {
  MutexLock lock(mutex_);
  ++told_.checkpoints;
  told_.checkpoint = clock_.now();
  progressed(phase_ == "saving" ? "training" : phase_);
}

void PrometheusMetrics::on_fit_end(const EndEvent& /*event*/) {
  MutexLock lock(mutex_);
  progressed("ended");
}

double PrometheusMetrics::seconds_since(Clock::TimePoint then) const {
  return seconds(clock_.now() - then);
}

// Where no hooks are called, and between them, what the input hands out is progress too.
double PrometheusMetrics::idle_seconds(std::uint64_t samples) const {
  if (std::exchange(seen_samples_, samples) != samples) progress_ = clock_.now();
  return seconds_since(progress_);
}

double PrometheusMetrics::seconds_since_progress() const {
  MutexLock watching(run_mutex_);
  const std::uint64_t samples = handed_out(inputs_of(run_));
  MutexLock lock(mutex_);
  return idle_seconds(samples);
}

std::string PrometheusMetrics::health() const {
  MutexLock watching(run_mutex_);
  const std::uint64_t samples = handed_out(inputs_of(run_));
  MutexLock lock(mutex_);
  return nlohmann::ordered_json{{"phase", phase_},
                                {"epoch", told_.epoch},
                                {"step", told_.step.step},
                                {"seconds_since_progress", idle_seconds(samples)}}
      .dump();
}

std::string PrometheusMetrics::told_text() const {
  PrometheusPage page;
  page.gauge("millrace_phase", "1 for what the run does, 0 for the others");
  for (const std::string_view phase : kPhases)
    page.value(phase == phase_ ? 1 : 0, {{"phase", phase}});
  page.gauge("millrace_epoch", "Epoch, from 1").value(told_.epoch);
  page.counter("millrace_steps_total", "Steps since the process was started").value(told_.steps);
  page.counter("millrace_samples_total", "Samples of these, of all replicas").value(told_.samples);
  page.counter("millrace_evaluated_batches_total", "Batches of one device evaluated")
      .value(told_.evaluated_batches);
  if (told_.steps > 0) add_step(page, told_.step, told_.times);
  page.gauge("millrace_measure", "Loss and measures of the last epoch");
  for (const auto& [set, values] : told_.measures)
    for (const auto& [measure, value] : values)
      page.value(value, {{"set", set}, {"measure", measure}});
  page.gauge("millrace_best_epoch", "The best one so far; 0: none").value(told_.best_epoch);
  page.counter("millrace_faults_total", "Samples that faults have cost, by the end of an epoch");
  for (const auto& [fault, samples] : told_.faults) page.value(samples, {{"fault", fault}});
  page.counter("millrace_checkpoints_total", "Checkpoints written").value(told_.checkpoints);
  if (told_.checkpoints > 0)
    page.gauge("millrace_checkpoint_age_seconds", "Since the last checkpoint was complete")
        .value(seconds_since(told_.checkpoint));
  return page.take();
}

std::string PrometheusMetrics::text() const {
  MutexLock watching(run_mutex_);
  const Inputs inputs = inputs_of(run_);
  PrometheusPage page;
  page.gauge("millrace_build_info", "The program's version").value(1, {{"version", version_}});
  page.add_process(run_.topology, wall_start_);
  page.gauge("millrace_epochs", "Epochs that the run has").value(run_.epochs);
  add_inputs(page, inputs);
  add_stages(page, inputs);
  if (run_.network) page.add_network(run_.network());
  MutexLock lock(mutex_);
  page.gauge("millrace_seconds_since_progress",
             "Since a step, a batch evaluated, a checkpoint, a sample handed out")
      .value(idle_seconds(handed_out(inputs)));
  return page.take() + told_text();
}

}  // namespace millrace::trainer
