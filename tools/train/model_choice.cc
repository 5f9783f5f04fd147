#include "tools/train/model_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/component/component_json.h"
#include "tools/parse.h"
#include "tools/train/saved_component.h"
#include "trainer/checkpoint.h"
#include "trainer/models/text_tower.h"
#include "trainer/nn/logit_scale.h"
#include "trainer/nn/tie.h"
#include "trainer/nn/whitening.h"

namespace millrace::tools {
namespace {

constexpr int kMaxSize = 16384;

trainer::ModelOptions model_options(const ModelChoice& choice, std::int64_t classes) {
  return {.num_classes = classes,
          .in_channels = choice.images.channels,
          .image = {choice.images.canvas().height, choice.images.canvas().width},
          .mask_channels = choice.task.mask_channels(classes),
          .depth_channels = choice.task.has_depth() ? 1 : 0};
}

/// A number if the sides are equal, as in checkpoints from before they could differ.
nlohmann::ordered_json size_json(const decode::Extent& size) {
  if (size.height == size.width) return size.height;
  return {size.height, size.width};
}

trainer::nn::Graph build_graph(const ModelChoice& choice, std::int64_t classes) {
  const Task& task = choice.task.what();
  auto graph = choice.model.make()->build(model_options(choice, classes));
  if (task.text) graph = trainer::models::with_text_tower(graph, task.text->tower);
  for (const std::string& tie : choice.ties) {
    const std::size_t equals = tie.find('=');
    require(equals != std::string::npos, "--tie " + tie + " is not LAYER=LAYER");
    graph = trainer::nn::tie_weights(
        graph, {.layer = tie.substr(0, equals), .to = tie.substr(equals + 1)});
  }
  if (task.learned_temperature)
    graph = trainer::nn::with_logit_scale(
        graph, {.temperature = *task.learned_temperature, .parts = task.text ? 2 : 1});
  return graph;
}

template <typename Integer>
Integer number_in_range(const nlohmann::ordered_json& json, const char* key, Integer least,
                        Integer most) {
  return json_integer<Integer>(json.at(key), std::string("the checkpoint's ") + key, least, most);
}

// A checkpoint's size: one number if the sides are equal.
decode::Extent size_from(const nlohmann::ordered_json& json) {
  const auto side = [](const nlohmann::ordered_json& value) {
    return json_integer<int>(value, "the checkpoint's size", 1, kMaxSize);
  };
  if (!json.is_array()) return side(json);
  return {side(json.at(0)), side(json.at(1))};
}

/// A checkpoint from before pictures kept their proportions does not say how they were fitted.
void read_fit(const nlohmann::ordered_json& json, ModelChoice& choice) {
  ImageOptions& images = choice.images;
  images.whole = choice.task.is_dense();
  if (!json.contains("fit")) return images.settle_as_before();
  json["fit"].get_to(images.fit);
  require(images.fit == "cover" || images.fit == "contain" || images.fit == "squeeze" ||
              images.fit == "none",
          "fit is cover, contain, squeeze or none");
  if (json.contains("eval_resize"))
    images.eval_resize = number_in_range<int>(json, "eval_resize", 1, kMaxSize);
}

void check_values(const std::vector<float>& values, const ImageOptions& images, const char* name) {
  const bool fits =
      values.size() == 1 || values.size() == static_cast<std::size_t>(images.channels);
  const bool finite =
      std::all_of(values.begin(), values.end(), [](float value) { return std::isfinite(value); });
  require(fits && finite, std::string(name) + " is not one number per channel");
}

/// A checkpoint must not contain what the command line would refuse.
void check_claims(const ModelChoice& choice) {
  constexpr std::size_t kMaxTies = 1024;  // each one rebuilds the graph
  require(choice.classes > 0 || choice.task.is_dense(), "classes are at least 1");
  require(choice.images.channels != 2, "channels are 1 or 3");
  require(choice.images.interpolation != decode::Interpolation::kRandom,
          "evaluation resizes nothing at random");
  require(choice.ties.size() <= kMaxTies, "more tied layers than a model has");
  check_values(choice.images.mean, choice.images, "mean");
  check_values(choice.images.std, choice.images, "std");
  choice.check();
}

}  // namespace

TaskKind ModelChoice::usual_task(bool has_classes) const {
  if (!model.make()->traits().is_dense) return tasks::Classify();
  if (has_classes) return tasks::Segment();
  return tasks::MaskDepth();
}

void ModelChoice::settle() {
  const trainer::ModelTraits traits = model.make()->traits();
  if (images.channels == 0) images.channels = traits.channels;
  if (!images.has_size()) images.size = traits.side;
  if (!task.is_chosen()) task.choose(usual_task(classes > 0));
  task.settle();
  if (classes == 0) classes = std::max(task.table_classes(), task.what().features);
  images.whole = task.is_dense();
  images.settle();
  images.multiple_of = traits.multiple_of;
}

void ModelChoice::check() const {
  ModelChoice settled = *this;
  settled.settle();
  settled.images.check();
  settled.task.check(name(), model.make()->traits().is_dense);
  require(settled.task.table_classes() <= settled.classes || settled.task.table_classes() == 0,
          "--task.colors lists more classes than --classes " + std::to_string(settled.classes));
  require(!settled.task.what().has_embeddings() || settled.classes == settled.task.what().features,
          "--task " + settled.task.name() +
              " has no classes: --task.features says how many outputs the model has");
  static_cast<void>(build_graph(settled, std::max<std::int64_t>(settled.classes, 2)));
}

ModelChoice ModelChoice::for_evaluation() const {
  ModelChoice seen = *this;
  seen.images = images.for_evaluation();
  return seen;
}

std::vector<std::string> ModelChoice::resized_for_evaluation() const {
  std::vector<std::string> resized;
  if (!images.has_eval_size()) return resized;
  const auto trained = build();
  const auto evaluated = for_evaluation().build();
  for (const trainer::Parameter& has : trained->parameters().entries()) {
    const trainer::Parameter* wanted = evaluated->parameters().find(has.name);
    if (wanted != nullptr && wanted->shape == has.shape) continue;
    if (wanted == nullptr || wanted->grid_height == 0)
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("{} is for pictures of one size, {}: its {} has another shape at {}", name(),
                      extent_text(images.size), has.name, extent_text(images.eval_size)));
    resized.push_back(has.name);
  }
  return resized;
}

bool ModelChoice::takes_start_samples() const {
  const auto built = build();
  return std::ranges::any_of(
      trainer::nn::whitening_layers(*built->graph()),
      [](const trainer::nn::WhiteningLayer& layer) { return layer.conv.init_samples > 0; });
}

std::unique_ptr<trainer::GraphModel> ModelChoice::build() const {
  return std::make_unique<trainer::GraphModel>(name(), build_graph(*this, classes));
}

std::string ModelChoice::to_json() const {
  const decode::Normalize normalize = images.normalize();
  nlohmann::ordered_json json = {{"model", component_json(model)}, {"classes", classes},
                                 {"size", size_json(images.size)}, {"channels", images.channels},
                                 {"augment", images.augment},      {"fit", images.fit},
                                 {"mean", normalize.mean},         {"std", normalize.std}};
  if (images.has_eval_size()) json["eval_size"] = size_json(images.eval_size);
  if (images.eval_resize > 0) json["eval_resize"] = images.eval_resize;
  if (images.interpolation != decode::Interpolation::kBilinear)
    json["interpolation"] =
        value_type(images.interpolation).write(&images.interpolation, ValueType::Form::kWhole).text;
  if (!ties.empty()) json["ties"] = ties;
  task.to_json(json);
  return json.dump();
}

bool ModelChoice::is_said_in(const std::string& text) {
  try {
    const auto json = parse_json<nlohmann::ordered_json>(text, "the checkpoint's options");
    return json.is_object() && json.contains("model");
  } catch (const Error&) {
    return false;
  }
}

ModelChoice ModelChoice::from_json(const std::string& text) {
  try {
    const auto json = parse_json<nlohmann::ordered_json>(text.empty() ? "null" : text,
                                                         "the checkpoint's options");
    ModelChoice choice;
    choice.model =
        trainer::ArchitectureChoice(saved_component(json, "model", trainer::standard_models()));
    choice.classes = number_in_range<std::int64_t>(json, "classes", 0, kMaxClasses);
    choice.images.size = size_from(json.at("size"));
    choice.images.channels = number_in_range<int>(json, "channels", 1, 3);
    if (json.contains("eval_size")) choice.images.eval_size = size_from(json["eval_size"]);
    if (json.contains("ties")) json["ties"].get_to(choice.ties);
    json.at("augment").get_to(choice.images.augment);
    json.at("mean").get_to(choice.images.mean);
    json.at("std").get_to(choice.images.std);
    if (json.contains("interpolation"))
      value_type(choice.images.interpolation)
          .read({.kind = Written::Kind::kWord, .text = json["interpolation"].get<std::string>()},
                &choice.images.interpolation);
    choice.task.from_json(json);
    read_fit(json, choice);
    check_claims(choice);
    choice.settle();
    return choice;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kCorrupt, "the checkpoint does not say which model it holds");
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    throw Error(ErrorCode::kCorrupt, "the checkpoint's options: " + error.message());
  }
}

ModelChoice ModelChoice::from_checkpoint(const std::string& path, const io::Opener& opener) {
  try {
    return from_json(trainer::read_checkpoint_state(path, opener).options);
  } catch (Error& error) {
    error.annotate({.url = path});
    throw;
  }
}

void check_checkpoint(const std::string& path) {
  require(io::is_network_url(path) || std::filesystem::is_directory(path),
          "no checkpoint at " + io::printable_url(path));
}

}  // namespace millrace::tools
