#include "trainer/detail/loop/epoch_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/base/json.h"

namespace millrace::trainer::detail {
namespace {

std::string verdict_of(const StallReport& report) {
  if (report.steps == 0) return "too short for a verdict";
  const double percent = 100.0 * report.wait_share;
  const double total = report.mean_step.total();
  const double reduce_share = total > 0.0 ? report.mean_step.reduce / total : 0.0;
  if (reduce_share >= kReductionBoundShare && reduce_share > report.wait_share)
    return fmt::format("reduction-bound (sums take {:.1f} %)", 100.0 * reduce_share);
  const double land_share = total > 0.0 ? report.mean_step.land / total : 0.0;
  if (land_share >= kTransferBoundShare && land_share > report.wait_share)
    return fmt::format("transfer-bound (copies to the devices take {:.1f} %)", 100.0 * land_share);
  if (report.wait_share < kInputBoundShare) {
    return fmt::format("compute-bound (waits {:.1f} %)", percent);
  }
  return fmt::format("input-bound{} (waits {:.1f} %)",
                     report.slowest_stage.empty() ? "" : " by " + report.slowest_stage, percent);
}

}  // namespace

StallReport make_stall_report(const std::vector<ReplicaTimes>& times, std::int64_t steps,
                              const std::string& busiest_stage) {
  StallReport report;
  report.steps = std::max<std::int64_t>(0, steps - 1);
  const double replicas = static_cast<double>(std::max<std::size_t>(1, times.size()));
  const double per_step = report.steps == 0 ? 0.0 : 1.0 / static_cast<double>(report.steps);
  for (const ReplicaTimes& one : times) {
    report.first_step.add(one.first, 1.0 / replicas);
    report.mean_step.add(one.all, per_step / replicas);
    report.mean_step.add(one.first, -per_step / replicas);
  }
  const double total = report.mean_step.total();
  report.wait_share = total > 0.0 ? report.mean_step.wait / total : 0.0;
  report.free_input_step = total - report.mean_step.wait;
  report.slowest_stage = busiest_stage;
  report.verdict = verdict_of(report);
  return report;
}

std::vector<StepTimes> mean_steps(const std::vector<ReplicaTimes>& times, std::int64_t steps) {
  std::vector<StepTimes> means(times.size());
  if (steps < 2) return means;
  const double per_step = 1.0 / static_cast<double>(steps - 1);
  for (std::size_t rank = 0; rank < times.size(); ++rank) {
    means[rank].add(times[rank].all, per_step);
    means[rank].add(times[rank].first, -per_step);
  }
  return means;
}

namespace {

using Json = nlohmann::json;

Json step_times_json(const StepTimes& times) {
  Json json = Json::array();
  for (const StepTimes::Part& part : StepTimes::parts()) json.push_back(times.*part.value);
  return json;
}

StepTimes times_from(const Json& json) {
  StepTimes times;
  std::size_t next = 0;
  for (const StepTimes::Part& part : StepTimes::parts()) times.*part.value = json.at(next++);
  return times;
}

Json skip_json(const SkippedSample& one) {
  return {one.shard, one.key,    one.member, one.offset ? Json(*one.offset) : Json(nullptr),
          one.fault, one.reason, one.samples};
}

SkippedSample skip_from(const Json& json) {
  SkippedSample one{.shard = json.at(0),
                    .key = json.at(1),
                    .member = json.at(2),
                    .fault = json.at(4),
                    .reason = json.at(5),
                    .samples = json.at(6)};
  if (!json.at(3).is_null()) one.offset = json.at(3).get<std::int64_t>();
  return one;
}

Json epoch_input_json(const InputReport& input) {
  Json skips = Json::array();
  for (const SkippedSample& one : input.skips) skips.push_back(skip_json(one));
  Json stages = Json::array();
  for (const InputStage& one : input.stages)
    stages.push_back({one.name, one.samples, one.bytes, one.busy, one.waiting, one.threads});
  return {{"stages", std::move(stages)}, {"requests", input.requests}, {"ready", input.ready},
          {"emitted", input.emitted},    {"filtered", input.filtered}, {"faults", input.faults},
          {"skips", std::move(skips)}};
}

InputReport input_from(const Json& json) {
  InputReport input{.requests = json.at("requests"),
                    .ready = json.at("ready"),
                    .emitted = json.at("emitted"),
                    .filtered = json.at("filtered"),
                    .faults = json.at("faults")};
  for (const Json& one : json.at("skips")) input.skips.push_back(skip_from(one));
  for (const Json& one : json.at("stages"))
    input.stages.push_back({.name = one.at(0),
                            .samples = one.at(1),
                            .bytes = one.at(2),
                            .busy = one.at(3),
                            .waiting = one.at(4),
                            .threads = one.at(5)});
  return input;
}

std::string to_text(const ProcessReport& report) {
  Json times = Json::array();
  for (const ReplicaTimes& one : report.times)
    times.push_back({step_times_json(one.all), step_times_json(one.first)});
  return Json{{"samples", report.samples},     {"skipped", report.skipped},
              {"refetched", report.refetched}, {"times", std::move(times)},
              {"stage", report.busiest_stage}, {"input", epoch_input_json(report.input)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add(const InputStage& stage, std::vector<InputStage>& all) {
  const auto known = std::ranges::find(all, stage.name, &InputStage::name);
  if (known == all.end()) return all.push_back(stage);
  known->samples += stage.samples;
  known->bytes += stage.bytes;
  known->busy += stage.busy;
  known->waiting += stage.waiting;
  known->threads += stage.threads;
}

void add(const InputReport& input, InputReport& all) {
  for (const InputStage& stage : input.stages) add(stage, all.stages);
  all.requests += input.requests;
  all.ready += input.ready;
  all.emitted += input.emitted;
  all.filtered += input.filtered;
  for (const auto& [name, samples] : input.faults) all.faults[name] += samples;
  for (const SkippedSample& one : input.skips)
    if (all.skips.size() < SkippedSample::kMost) all.skips.push_back(one);
}

/// Adds a process's report to `all`; returns the seconds that its replicas waited for input.
double add(const Json& json, ProcessReport& all) {
  all.samples += json.at("samples").get<std::int64_t>();
  all.skipped += json.at("skipped").get<std::int64_t>();
  all.refetched += json.at("refetched").get<std::int64_t>();
  double waited = 0.0;
  for (const Json& one : json.at("times")) {
    all.times.push_back({.all = times_from(one.at(0)), .first = times_from(one.at(1))});
    waited += all.times.back().all.wait;
  }
  add(input_from(json.at("input")), all.input);
  return waited;
}

}  // namespace

ProcessReport gather_reports(Processes& processes, const ProcessReport& own) {
  ProcessReport all;
  double longest = -1.0;
  for (const std::string& text : processes.gather(to_text(own))) {
    const auto json = parse_json<Json>(text, "a process's report");
    const double waited = add(json, all);
    if (waited <= longest) continue;
    longest = waited;
    all.busiest_stage = json.at("stage");
  }
  return all;
}

std::vector<CompileEvent> gather_compilations(Processes& processes,
                                              const std::vector<CompileEvent>& own) {
  Json list = Json::array();
  for (const CompileEvent& one : own)
    list.push_back({one.rank, one.shape, one.seconds, one.activation_bytes});
  std::vector<CompileEvent> all;
  for (const std::string& text : processes.gather(list.dump())) {
    for (const Json& one : parse_json<Json>(text, "a process's compilations"))
      all.push_back({.rank = one.at(0),
                     .shape = one.at(1),
                     .seconds = one.at(2),
                     .activation_bytes = one.at(3)});
  }
  return all;
}

}  // namespace millrace::trainer::detail
