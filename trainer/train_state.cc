#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "io/base/json.h"
#include "trainer/checkpoint.h"

namespace millrace::trainer {
namespace {

using Json = nlohmann::ordered_json;

// The position of a shuffle buffer of millions of samples is the most of it.
constexpr std::size_t kMaxBytes = std::size_t{256} * 1024 * 1024;

Json embedded(const std::string& text) {
  return text.empty() ? Json(nullptr) : parse_json<Json>(text, "state.json");
}

std::string extracted(const Json& json) { return json.is_null() ? std::string() : json.dump(); }

}  // namespace

std::string TrainState::to_json() const {
  Json json{{"model", model},
            {"epoch", epoch},
            {"step_in_epoch", step_in_epoch},
            {"global_step", global_step},
            {"seed", seed},
            {"world", world},
            {"batch_size", batch_size},
            {"optimizer", optimizer},
            {"monitor", monitor}};
  json["best"] = best ? Json(*best) : Json(nullptr);
  json["best_epoch"] = best_epoch;
  json["top"] = top;
  json["position"] = embedded(position);
  json["meters"] = embedded(meters);
  json["options"] = embedded(options);
  return json.dump(2) + "\n";
}

TrainState TrainState::from_json(const std::string& text) {
  try {
    const Json json = parse_json<Json>(text, "state.json", {.bytes = kMaxBytes});
    TrainState state;
    json.at("model").get_to(state.model);
    json.at("epoch").get_to(state.epoch);
    json.at("step_in_epoch").get_to(state.step_in_epoch);
    json.at("global_step").get_to(state.global_step);
    json.at("seed").get_to(state.seed);
    json.at("world").get_to(state.world);
    json.at("batch_size").get_to(state.batch_size);
    json.at("optimizer").get_to(state.optimizer);
    json.at("monitor").get_to(state.monitor);
    if (!json.at("best").is_null()) state.best = json.at("best").get<double>();
    json.at("best_epoch").get_to(state.best_epoch);
    if (json.contains("top")) json.at("top").get_to(state.top);
    state.position = extracted(json.at("position"));
    state.meters = extracted(json.at("meters"));
    state.options = extracted(json.at("options"));
    return state;
  } catch (const nlohmann::json::exception& error) {
    throw Error(ErrorCode::kCorrupt,
                std::string("state.json is not what a checkpoint holds: ") + error.what());
  }
}

}  // namespace millrace::trainer
