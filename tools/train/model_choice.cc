#include "tools/train/model_choice.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/opener.h"
#include "tools/values.h"
#include "trainer/checkpoint.h"
#include "trainer/models/models.h"
#include "trainer/nn/tie.h"

namespace millrace::tools {
namespace {

trainer::ModelOptions model_options(const ModelChoice& choice, std::int64_t classes) {
  return {.num_classes = classes,
          .in_channels = choice.images.channels,
          .image = choice.images.size,
          .stem = choice.stem == "3x3" ? trainer::Stem::k3x3 : trainer::Stem::kImageNet};
}

trainer::nn::Graph build_graph(const ModelChoice& choice, std::int64_t classes) {
  auto graph = trainer::build_model(choice.model, model_options(choice, classes));
  for (const std::string& tie : choice.ties) {
    const std::size_t equals = tie.find('=');
    require(equals != std::string::npos, "--tie " + tie + " is not LAYER=LAYER");
    graph = trainer::nn::tie_weights(
        graph, {.layer = tie.substr(0, equals), .to = tie.substr(equals + 1)});
  }
  return graph;
}

std::vector<std::string> known_models() {
  const std::vector<std::string_view> names = trainer::model_names();
  return {names.begin(), names.end()};
}

}  // namespace

void ModelChoice::declare(CLI::App& app) {
  app.option_defaults()->group("Model and images");
  app.add_option("--model", model, "The network")->transform(one_of(known_models()));
  app.add_option("--stem", stem, "A ResNet's entry: 7x7 and max-pool, or 3x3 for small images")
      ->transform(one_of({"imagenet", "3x3"}, {{"7x7", "imagenet"}, {"cifar", "3x3"}}));
  app.add_option(
         "--classes", classes,
         "Number of classes or labels; 0: from the label map beside the shards, else counted "
         "in the labels")
      ->transform(whole_number(0, 1 << 24));
  app.add_option("--tie", ties,
                 "Layers that share their weights, such as layer1.1.conv1=layer1.0.conv1")
      ->type_name("LAYER=LAYER");
  images.declare(app);
}

void ModelChoice::settle() {
  const bool lenet = model == "lenet";
  if (images.channels == 0) images.channels = lenet ? 1 : 3;
  if (images.size == 0) images.size = lenet ? 28 : model == "unet" ? 96 : stem == "3x3" ? 32 : 224;
  task.settle(model);
}

void ModelChoice::check() const {
  ModelChoice settled = *this;
  settled.settle();
  settled.images.check();
  settled.task.check(model);
  static_cast<void>(build_graph(settled, std::max<std::int64_t>(classes, 2)));
}

std::unique_ptr<trainer::GraphModel> ModelChoice::build() const {
  return std::make_unique<trainer::GraphModel>(model, build_graph(*this, classes));
}

std::string ModelChoice::to_json() const {
  const decode::Normalize normalize = images.normalize();
  nlohmann::ordered_json json = {{"model", model},
                                 {"stem", stem},
                                 {"classes", classes},
                                 {"size", images.size},
                                 {"channels", images.channels},
                                 {"augment", images.augment},
                                 {"mean", normalize.mean},
                                 {"std", normalize.std}};
  if (!ties.empty()) json["ties"] = ties;
  task.to_json(json);
  return json.dump();
}

ModelChoice ModelChoice::from_json(const std::string& text) {
  try {
    const auto json = parse_json<nlohmann::ordered_json>(text.empty() ? "null" : text,
                                                         "the checkpoint's options");
    ModelChoice choice;
    json.at("model").get_to(choice.model);
    json.at("stem").get_to(choice.stem);
    json.at("classes").get_to(choice.classes);
    json.at("size").get_to(choice.images.size);
    json.at("channels").get_to(choice.images.channels);
    if (json.contains("ties")) json["ties"].get_to(choice.ties);
    json.at("augment").get_to(choice.images.augment);
    json.at("mean").get_to(choice.images.mean);
    json.at("std").get_to(choice.images.std);
    choice.task.from_json(json);
    return choice;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kCorrupt, "the checkpoint does not say which model it holds");
  }
}

ModelChoice ModelChoice::from_checkpoint(const std::string& path) {
  return from_json(trainer::read_checkpoint_state(path).options);
}

void check_checkpoint(const std::string& path) {
  require(io::is_network_url(path) || std::filesystem::is_directory(path),
          "no checkpoint at " + path);
}

}  // namespace millrace::tools
