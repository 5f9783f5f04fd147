#include "tools/train/data_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "io/base/error.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

constexpr std::string_view kFold = "{fold}";

bool has_fold(const std::string& spec) { return spec.find(kFold) != std::string::npos; }

std::string with_fold(std::string spec, int fold) {
  for (auto at = spec.find(kFold); at != std::string::npos; at = spec.find(kFold))
    spec.replace(at, kFold.size(), std::to_string(fold));
  return spec;
}

}  // namespace

void DataOptions::declare(CLI::App& app) {
  app.option_defaults()->group("Input");
  app.add_option("SPEC,--train", train,
                 "Shards to train on: braces, :: unions, folders, manifests, URLs or -")
      ->type_name("SPEC");
  app.add_option("--val", val, "Shards to evaluate on after each epoch")->type_name("SPEC");
  app.add_option("--folds", folds,
                 "{fold} in --train stands for each of the folds 0 to N-1 except --fold")
      ->transform(whole_number(0, 1 << 16));
  app.add_option("--fold", fold, "The fold to evaluate on if there is no --val")
      ->transform(whole_number(0, 1 << 16));
  order.declare(app);
  app.add_option("--fake-data", fake,
                 "Train on N generated samples per epoch, without reading shards; 0: off")
      ->transform(whole_number(0));
}

void DataOptions::check_folds() const {
  const bool asked = std::any_of(train.begin(), train.end(), has_fold);
  require(!asked || folds > 0, "{fold} in --train needs --folds");
  require(fold == 0 || folds > 0, "--fold needs --folds");
  if (folds == 0) return;
  require(asked, "--folds needs {fold} in --train");
  require(folds > 1, "--folds 1 leaves nothing to train on");
  require(fold < folds, "--fold " + std::to_string(fold) + ": of " + std::to_string(folds) +
                            " folds the last one is " + std::to_string(folds - 1));
}

void DataOptions::check(const ReadOptions& read) const {
  check_folds();
  order.check();
  if (fake > 0) {
    require(train.empty() && val.empty(), "--fake-data takes neither --train nor --val");
    return;
  }
  require(!train.empty(), "no shards given: millrace train SPEC, or --train SPEC");
  read.check(train_specs());
  if (!val_specs().empty()) read.check(val_specs());
}

std::vector<std::string> DataOptions::train_specs() const {
  if (folds == 0) return train;
  std::vector<std::string> specs;
  for (int one = 0; one < folds; ++one) {
    if (one == fold) continue;
    for (const std::string& spec : train)
      if (has_fold(spec)) specs.push_back(with_fold(spec, one));
  }
  std::copy_if(train.begin(), train.end(), std::back_inserter(specs),
               [](const std::string& spec) { return !has_fold(spec); });
  return specs;
}

std::vector<std::string> DataOptions::val_specs() const {
  if (folds == 0 || !val.empty()) return val;
  std::vector<std::string> specs;
  for (const std::string& spec : train)
    if (has_fold(spec)) specs.push_back(with_fold(spec, fold));
  return specs;
}

}  // namespace millrace::tools
