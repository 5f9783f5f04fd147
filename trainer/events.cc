#include "trainer/events.h"

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>

namespace millrace::trainer {
namespace {

using OrderedJson = nlohmann::ordered_json;

// NaN and infinity, which JSON lacks, are written as null by dump().
void add_values(OrderedJson& json, const std::string& prefix, const NamedValues& values) {
  for (const auto& [name, value] : values) json[prefix + name] = value;
}

OrderedJson times_json(const StepTimes& step) {
  OrderedJson json;
  for (const StepTimes::Part& part : StepTimes::parts())
    json[std::string(part.name)] = step.*part.value;
  return json;
}

OrderedJson times_json(const StallReport& stall) {
  OrderedJson json = times_json(stall.mean_step);
  json["free_input"] = stall.free_input_step;
  json["first"] = stall.first_step.total();
  return json;
}

OrderedJson skips_json(const std::vector<SkippedSample>& skips) {
  auto list = OrderedJson::array();
  for (const SkippedSample& one : skips) {
    OrderedJson json{{"shard", one.shard}, {"key", one.key}, {"member", one.member}};
    json["offset"] = one.offset ? OrderedJson(*one.offset) : OrderedJson(nullptr);
    json["fault"] = one.fault;
    json["reason"] = one.reason;
    json["samples"] = one.samples;
    list.push_back(std::move(json));
  }
  return list;
}

/// Names in shards may be any bytes.
std::string dumped(const OrderedJson& json) {
  return json.dump(-1, ' ', false, OrderedJson::error_handler_t::replace);
}

OrderedJson input_json(const InputReport& input) {
  auto stages = OrderedJson::array();
  for (const InputStage& stage : input.stages)
    stages.push_back({{"stage", stage.name},
                      {"samples", stage.samples},
                      {"bytes", stage.bytes},
                      {"busy", stage.busy},
                      {"waiting", stage.waiting},
                      {"threads", stage.threads}});
  return {{"stages", std::move(stages)},     {"requests", input.requests}, {"ready", input.ready},
          {"emitted", input.emitted},        {"filtered", input.filtered}, {"faults", input.faults},
          {"skips", skips_json(input.skips)}};
}

}  // namespace

std::span<const StepTimes::Part> StepTimes::parts() {
  static constexpr std::array<Part, 8> kParts = {
      {{&StepTimes::wait, "wait", "wait", "WaitTime"},
       {&StepTimes::land, "land", "land", "TransferToDeviceTime"},
       {&StepTimes::forward, "forward", "forward", "ForwardTime"},
       {&StepTimes::backward, "backward", "backward", "BackwardTime"},
       {&StepTimes::device, "device", "device", "ExecuteTime"},
       {&StepTimes::reduce, "reduce", "reduce", "ReduceTime"},
       {&StepTimes::peer_wait, "peer_wait", "others", "PeerWaitTime"},
       {&StepTimes::update, "update", "update", "UpdateTime"}}};
  return kParts;
}

bool StepTimes::has(const Part& part) const {
  const bool is_of_program = part.value == &StepTimes::land || part.value == &StepTimes::device;
  if (device == 0) return !is_of_program;
  return is_of_program || part.value == &StepTimes::wait || this->*part.value > 0;
}

double StepTimes::total() const {
  double sum = 0;
  for (const Part& part : parts()) sum += this->*part.value;
  return sum;
}

void StepTimes::add(const StepTimes& times, double share) {
  for (const Part& part : parts()) this->*part.value += times.*part.value * share;
}

std::optional<double> find_value(const NamedValues& values, const std::string& name) {
  for (const auto& [known, value] : values) {
    if (known == name) return value;
  }
  return std::nullopt;
}

std::string to_json(const StepEvent& event) {
  return OrderedJson{{"event", "step"},
                     {"epoch", event.epoch},
                     {"step", event.step},
                     {"global_step", event.global_step},
                     {"loss", event.loss},
                     {"mean_loss", event.mean_loss},
                     {"lr", event.lr},
                     {"rate", event.rate},
                     {"global_rate", event.global_rate},
                     {"total_rate", event.total_rate},
                     {"recent_rate", event.recent_rate},
                     {"rank", event.rank},
                     {"device", event.device}}
      .dump();
}

std::string to_json(const EpochEvent& event) {
  OrderedJson json{{"event", "epoch"}, {"epoch", event.epoch}};
  add_values(json, "train_", event.train);
  json["train_samples"] = event.train_samples;
  json["skipped_steps"] = event.skipped_steps;
  json["skipped_step_samples"] = event.skipped_step_samples;
  add_values(json, "val_", event.val);
  json["val_samples"] = event.val_samples;
  json["skipped"] = event.skipped_samples;
  json["refetched"] = event.refetched;
  json["val_skipped"] = event.val_skipped_samples;
  json["train_seconds"] = event.train_seconds;
  json["val_seconds"] = event.val_seconds;
  json["seconds"] = event.seconds;
  json["rate"] = event.rate;
  json["wait_share"] = event.stall.wait_share;
  json["step_seconds"] = times_json(event.stall);
  json["verdict"] = event.stall.verdict;
  json["steps"] = event.stall.steps;
  json["global_step"] = event.global_step;
  json["from_step"] = event.from_step;
  auto by_rank = OrderedJson::array();
  for (const StepTimes& step : event.step_by_rank) by_rank.push_back(times_json(step));
  json["step_seconds_by_rank"] = std::move(by_rank);
  json["input"] = input_json(event.input);
  json["is_best"] = event.is_best;
  return dumped(json);
}

std::string to_json(const SavedEvent& event) {
  return dumped({{"event", "saved"}, {"epoch", event.epoch}, {"seconds", event.seconds}});
}

std::string to_json(const FaultEvent& event) {
  return dumped({{"event", "fault"},
                 {"fault", event.fault},
                 {"message", event.message},
                 {"epoch", event.epoch},
                 {"global_step", event.global_step},
                 {"seconds", event.seconds}});
}

std::string to_json(const EndEvent& event) {
  OrderedJson json{{"event", "end"}, {"epochs", event.epochs}, {"monitor", event.monitor}};
  json["best"] = event.best ? OrderedJson(*event.best) : OrderedJson(nullptr);
  json["best_epoch"] = event.best_epoch;
  json["seconds"] = event.seconds;
  json["rate"] = event.mean_rate;
  json["verdict"] = event.verdict;
  json["interrupted"] = event.interrupted;
  json["stopped_by"] =
      event.stopped_by.empty() ? OrderedJson(nullptr) : OrderedJson(event.stopped_by);
  return json.dump();
}

}  // namespace millrace::trainer
