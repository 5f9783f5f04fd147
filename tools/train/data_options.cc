#include "tools/train/data_options.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <iterator>

#include "io/base/error.h"
#include "tools/help.h"
#include "tools/option_settings.h"
#include "tools/text_edit.h"
#include "tools/values.h"
#include "wds/printable_spec.h"

namespace millrace::tools {
namespace {

constexpr std::string_view kFold = "{fold}";
constexpr double kMaxAlpha = 1000;

bool has_fold(const std::string& spec) { return spec.find(kFold) != std::string::npos; }

}  // namespace

void DataOptions::declare(CLI::App& app) {
  app.option_defaults()->group("Input");
  app.add_option("SPEC,--train", train,
                 "Shards to train on: braces, :: unions, folders, manifests, URLs or -; a mix of "
                 "several sets by their weights: 0.7:SPEC 0.3:SPEC")
      ->type_name("SPEC")
      ->check(own_of_process());
  mix.declare(app);
  app.add_option("--val", val, "Shards to evaluate on after each epoch")
      ->type_name("SPEC")
      ->check(in_short_help())
      ->check(own_of_process());
  app.add_option("--join", join,
                 "Shards with further fields of the samples of SPEC, found by key: as many "
                 "shards, in the same order; again for each further list")
      ->type_name("SPEC")
      ->allow_extra_args(false)
      ->check(own_of_process());
  app.add_option("--val-join", val_join, "The same for --val")
      ->type_name("SPEC")
      ->allow_extra_args(false)
      ->check(own_of_process());
  app.add_option(
         "--mixup", mixup.mixup,
         "MixUp: mix each picture of a batch, and its label, with another one of the batch; "
         "alpha of the Beta distribution of their shares, 0: off. Together with --cutmix, each "
         "batch has one of the two at random")
      ->transform(real_number(0, kMaxAlpha));
  app.add_option("--cutmix", mixup.cutmix,
                 "CutMix: the same by a random rectangle that is copied from the other picture")
      ->transform(real_number(0, kMaxAlpha));
  app.add_option("--folds", folds,
                 "{fold} in SPEC stands for each of the folds 0 to N-1 except --fold")
      ->transform(whole_number(0, 1 << 16));
  app.add_option("--fold", fold, "The fold to evaluate on if there is no --val")
      ->transform(whole_number(0, 1 << 16));
  order.declare(app);
  val_order.declare_range(app, "val-");
  val_order.declare_where(app, "val-");
  app.add_option("--fake-data", fake,
                 "Train on N generated samples per epoch, without reading shards; 0: off")
      ->transform(whole_number(0));
}

void DataOptions::check_folds() const {
  const bool asked = std::any_of(train.begin(), train.end(), has_fold);
  require(!asked || folds > 0, "{fold} in a SPEC needs --folds");
  require(fold == 0 || folds > 0, "--fold needs --folds");
  if (folds == 0) return;
  require(asked, "--folds needs {fold} in a SPEC");
  require(folds > 1, "--folds 1 leaves nothing to train on");
  require(fold < folds, "--fold " + std::to_string(fold) + ": of " + std::to_string(folds) +
                            " folds the last one is " + std::to_string(folds - 1));
}

void DataOptions::check_mix() const {
  mix.check(train, order.chosen(), "");
  require(folds == 0 || std::ranges::none_of(train, MixWords::has_weight),
          "--folds is not for a mix");
}

void DataOptions::settle(ReadOptions& read) {
  check_folds();
  for (const std::string& spec : val)
    require(!MixWords::has_weight(spec),
            "--val " + wds::printable_spec(spec) + ": what is evaluated has no weights");
  order.settle();
  val_order.settle();
  if (fake > 0) {
    require(train.empty() && val.empty() && join.empty() && val_join.empty(),
            "--fake-data takes neither shards nor --val");
    require(order.chosen().range.is_all(),
            "--fake-data N has N samples: --skip-samples and --take-samples are for shards");
    return;
  }
  require(!train.empty(), "no shards given: millrace train SPEC");
  check_mix();
  read.check(train_specs(), join);
  const bool has_val = !val_specs().empty();
  const SampleOrder& chosen = val_order.chosen();
  require(has_val || (val_join.empty() && chosen.range.is_all() && !chosen.shuffle.chooses()),
          "--val-join, --val-skip-samples, --val-take-samples and --val-where need --val");
  if (!has_val) return;
  read.check(val_specs(), val_join);
}

std::vector<std::string> DataOptions::train_specs() const {
  if (folds == 0) return MixWords::specs_of(train);
  std::vector<std::string> specs;
  for (int one = 0; one < folds; ++one) {
    if (one == fold) continue;
    for (const std::string& spec : train)
      if (has_fold(spec)) specs.push_back(replaced(spec, kFold, std::to_string(one)));
  }
  std::copy_if(train.begin(), train.end(), std::back_inserter(specs),
               [](const std::string& spec) { return !has_fold(spec); });
  return specs;
}

std::vector<std::string> DataOptions::val_specs() const {
  if (folds == 0 || !val.empty()) return val;
  std::vector<std::string> specs;
  for (const std::string& spec : train)
    if (has_fold(spec)) specs.push_back(replaced(spec, kFold, std::to_string(fold)));
  return specs;
}

}  // namespace millrace::tools
