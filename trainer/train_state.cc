#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/json.h"
#include "pipeline/position.h"
#include "trainer/checkpoint.h"

namespace millrace::trainer {
namespace {

using OrderedJson = nlohmann::ordered_json;

// More than any run has; sums and products of them stay within an int64.
constexpr std::int64_t kMaxEpochs = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxSteps = std::int64_t{1} << 53;
constexpr int kMaxWorld = 1 << 20;
constexpr std::int64_t kMaxBatchSize = 1 << 24;
constexpr std::int64_t kMaxAccumulate = 1 << 16;
constexpr std::size_t kMaxTextBytes = 256;
constexpr std::size_t kMaxTop = std::size_t{1} << 20;
constexpr std::size_t kMaxMeters = std::size_t{1} << 16;
// Enough for the position of a shuffle buffer of millions of samples.
constexpr std::size_t kMaxBytes = std::size_t{256} << 20;

[[noreturn]] void corrupt_state(const std::string& what) {
  throw Error(ErrorCode::kCorrupt, "state.json: " + what);
}

OrderedJson embedded(const std::string& text) {
  return text.empty() ? OrderedJson(nullptr)
                      : parse_json<OrderedJson>(text, "state.json", {.bytes = kMaxBytes});
}

std::string extracted(const OrderedJson& json) {
  return json.is_null() ? std::string() : json.dump();
}

template <typename Integer>
Integer number(const OrderedJson& json, const char* key, Integer least, Integer most) {
  return json_integer<Integer>(json.at(key), std::string("state.json: ") + key, least, most);
}

std::string short_text(const OrderedJson& json, const char* key) {
  std::string text = json.at(key).get<std::string>();
  if (text.size() > kMaxTextBytes) corrupt_state(std::string(key) + " is too long");
  return text;
}

double finite(const OrderedJson& value, const char* name) {
  if (!value.is_number() || !std::isfinite(value.get<double>()))
    corrupt_state(std::string(name) + " is not a finite number");
  return value.get<double>();
}

/// The name becomes a path, under which a checkpoint is deleted.
bool is_epoch_name(const std::string& name) {
  constexpr std::string_view kPrefix = "epoch-";
  return name.starts_with(kPrefix) && name.size() > kPrefix.size() &&
         name.find_first_not_of("0123456789", kPrefix.size()) == std::string::npos;
}

std::vector<std::pair<std::string, double>> top_from(const OrderedJson& list) {
  if (!list.is_array() || list.size() > kMaxTop) corrupt_state("top is not a list of checkpoints");
  std::vector<std::pair<std::string, double>> top;
  for (const OrderedJson& one : list) {
    std::string name = one.at(0).get<std::string>();
    if (!is_epoch_name(name)) corrupt_state("top names a checkpoint that no run writes");
    top.emplace_back(std::move(name), finite(one.at(1), "top"));
  }
  return top;
}

void check_meters(const OrderedJson& meters) {
  if (meters.is_null()) return;
  if (!meters.is_array() || meters.size() > kMaxMeters)
    corrupt_state("meters is not a list of sums");
  for (const OrderedJson& sum : meters) static_cast<void>(finite(sum, "meters"));
}

// Only checks that it can be parsed; the run parses it when it opens the input.
void check_position(const TrainState& state) {
  if (state.position.empty()) return;
  const auto position = pipeline::Position::from_json(state.position);
  if (position.epoch != state.epoch) {
    corrupt_state("the input's position is in epoch " + std::to_string(position.epoch) +
                  ", the state in epoch " + std::to_string(state.epoch));
  }
}

TrainState state_from(const OrderedJson& json) {
  TrainState state;
  state.model = short_text(json, "model");
  state.epoch = number<std::int64_t>(json, "epoch", 0, kMaxEpochs);
  state.step_in_epoch = number<std::int64_t>(json, "step_in_epoch", 0, kMaxSteps);
  state.global_step = number<std::int64_t>(json, "global_step", state.step_in_epoch, kMaxSteps);
  if (json.contains("skipped_updates"))
    state.skipped_updates = number<std::int64_t>(json, "skipped_updates", 0, state.global_step);
  state.seed = number<std::uint64_t>(json, "seed", 0, std::numeric_limits<std::uint64_t>::max());
  state.world = number<int>(json, "world", 1, kMaxWorld);
  state.batch_size = number<std::int64_t>(json, "batch_size", 0, kMaxBatchSize);
  state.accumulate = number<std::int64_t>(json, "accumulate", 1, kMaxAccumulate);
  state.optimizer = short_text(json, "optimizer");
  state.monitor = short_text(json, "monitor");
  if (!json.at("best").is_null()) state.best = finite(json.at("best"), "best");
  state.best_epoch = number<std::int64_t>(json, "best_epoch", 0, kMaxEpochs);
  if (json.contains("top")) state.top = top_from(json.at("top"));
  check_meters(json.at("meters"));
  state.meters = extracted(json.at("meters"));
  state.position = extracted(json.at("position"));
  check_position(state);
  if (json.contains("data") && !json.at("data").is_null())
    state.data = pipeline::DataIdentity::from_json(json.at("data").dump());
  if (json.contains("validation") && !json.at("validation").is_null())
    state.validation = pipeline::DataIdentity::from_json(json.at("validation").dump());
  state.options = extracted(json.at("options"));
  if (json.contains("has_init")) json.at("has_init").get_to(state.has_init);
  if (json.contains("settings")) state.settings = settings_from_json(json.at("settings").dump());
  return state;
}

}  // namespace

std::string TrainState::to_json() const {
  OrderedJson json{{"model", model},
                   {"epoch", epoch},
                   {"step_in_epoch", step_in_epoch},
                   {"global_step", global_step},
                   {"skipped_updates", skipped_updates},
                   {"seed", seed},
                   {"world", world},
                   {"batch_size", batch_size},
                   {"accumulate", accumulate},
                   {"optimizer", optimizer},
                   {"monitor", monitor}};
  json["best"] = best ? OrderedJson(*best) : OrderedJson(nullptr);
  json["best_epoch"] = best_epoch;
  json["top"] = top;
  json["position"] = embedded(position);
  json["meters"] = embedded(meters);
  json["data"] = data ? embedded(data->to_json()) : OrderedJson(nullptr);
  json["validation"] = validation ? embedded(validation->to_json()) : OrderedJson(nullptr);
  json["options"] = embedded(options);
  json["settings"] = embedded(settings_to_json(settings));
  if (has_init && global_step == 0) json["has_init"] = true;
  return json.dump() + "\n";
}

TrainState TrainState::from_json(const std::string& text) {
  try {
    return state_from(parse_json<OrderedJson>(text, "state.json", {.bytes = kMaxBytes}));
  } catch (const nlohmann::json::exception& error) {
    corrupt_state("not a checkpoint's state: " + fault_text(error));
  }
}

}  // namespace millrace::trainer
