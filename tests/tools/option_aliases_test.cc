// The table of other names: each leads to something that there is, and what checkpoints of before
// have saved is compared by the names of now.
#include "tools/option_aliases.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>

#include "tests/tools/support.h"
#include "tools/train/saved_settings.h"
#include "trainer/rules/sgd.h"
#include "trainer/update_rule.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using trainer::Setting;

std::set<std::string> commands_in_help() {
  std::set<std::string> commands;
  bool listed = false;
  for (const std::string& line : lines_of(millrace({"--help"}).out)) {
    std::istringstream words(line);
    std::string word;
    if (line == "Commands:") listed = true;
    if (listed && line.starts_with("  ") && words >> word) commands.insert(word);
    if (listed && line.empty()) break;
  }
  return commands;
}

TEST(OptionAliases, EachIsANameOfAnOptionThatACommandHas) {
  std::set<std::pair<std::string, std::string>> shown;
  for (const std::string& command : commands_in_help()) {
    const std::string text = millrace({command, "--help", "aliases"}).out;
    const std::regex pair("\n  (--\\S+)\\s+(--\\S+)");
    for (std::sregex_iterator one(text.begin(), text.end(), pair), end; one != end; ++one)
      shown.emplace((*one)[1], (*one)[2]);
  }
  for (const tools::OptionAlias& alias : tools::option_aliases())
    EXPECT_TRUE(shown.contains({"--" + std::string(alias.name), "--" + std::string(alias.known)}))
        << alias.name << " is " << alias.known;
}

/// What torchvision's train.py, timm's train.py and Lightning's Trainer take.
constexpr const char* kTheirs[] = {
    // torchvision
    "device", "batch-size", "epochs", "workers", "opt", "lr", "momentum", "weight-decay",
    "norm-weight-decay", "bias-weight-decay", "label-smoothing", "mixup-alpha", "cutmix-alpha",
    "lr-scheduler", "lr-warmup-epochs", "lr-warmup-method", "lr-warmup-decay", "lr-step-size",
    "lr-gamma", "lr-min", "print-freq", "output-dir", "resume", "start-epoch", "sync-bn",
    "test-only", "auto-augment", "ra-magnitude", "augmix-severity", "random-erase", "amp",
    "world-size", "model-ema", "model-ema-steps", "model-ema-decay", "use-deterministic-algorithms",
    "interpolation", "val-resize-size", "val-crop-size", "train-crop-size", "clip-grad-norm",
    "ra-sampler", "ra-reps", "weights", "data-path",
    // timm
    "data-dir", "model", "pretrained", "initial-checkpoint", "num-classes", "img-size", "in-chans",
    "input-size", "crop-pct", "mean", "std", "validation-batch-size", "channels-last",
    "grad-accum-steps", "torchcompile", "amp-dtype", "opt-eps", "opt-betas", "clip-grad",
    "clip-mode", "layer-decay", "sched", "sched-on-updates", "lr-base", "min-lr", "warmup-lr",
    "warmup-epochs", "decay-epochs", "decay-milestones", "decay-rate", "no-aug", "scale", "ratio",
    "hflip", "vflip", "color-jitter", "aa", "aug-repeats", "bce-loss", "bce-target-thresh",
    "reprob", "remode", "recount", "mixup", "cutmix", "mixup-prob", "mixup-switch-prob",
    "smoothing", "train-interpolation", "drop", "drop-path", "seed", "log-interval", "output",
    "experiment", "tta", "log-wandb", "cooldown-epochs", "patience-epochs", "checkpoint-hist",
    "eval-metric", "pin-mem",
    // Lightning
    "max-epochs", "max-steps", "min-epochs", "devices", "num-nodes", "strategy", "accelerator",
    "precision", "limit-train-batches", "limit-val-batches", "fast-dev-run", "overfit-batches",
    "val-check-interval", "check-val-every-n-epoch", "num-sanity-val-steps", "log-every-n-steps",
    "accumulate-grad-batches", "gradient-clip-val", "gradient-clip-algorithm", "deterministic",
    "benchmark", "profiler", "detect-anomaly", "default-root-dir", "sync-batchnorm", "logger",
    "max-time", "callbacks", "enable-progress-bar", "enable-checkpointing", "enable-model-summary"};

TEST(OptionAliases, SeveralWordsOfAListAreToldToBeOne) {
  const auto said = [](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", "--fake-data", "4", "--classes", "2", "--summary"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    return std::to_string(result.status) + " " + result.err;
  };
  EXPECT_EQ(said({"--schedule", "multi-step", "--milestones", "30", "60", "80"}),
            "2 millrace train: --milestones 30 60: several values are one list, without spaces: "
            "--milestones 30,60\n");
  EXPECT_THAT(said({"--optimizer", "adam", "--opt-betas", "0.9", "0.99"}),
              ::testing::HasSubstr("--opt-betas 0.9,0.99\n"));
  EXPECT_THAT(said({"--schedule", "multi-step", "--milestones", "30,60"}),
              ::testing::StartsWith("0 "));
}

TEST(OptionAliases, WhatOtherTrainersTakeIsAnOptionOrAnsweredByWhatToWrite) {
  std::set<std::string> answered;
  for (const auto& [name, option, said] : tools::foreign_options()) {
    const std::string command = option == "checkpoint" ? "eval" : "train";
    const ProcessResult refused = millrace({command, "--" + std::string(name) + "=1"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_EQ(refused.err, fmt::format("millrace {}: --{}: {}\n", command, name, said));
    answered.emplace(name);
  }
  const std::string known =
      millrace({"train", "--help", "all"}).out + millrace({"train", "--help", "aliases"}).out;
  for (const std::string name : kTheirs)
    EXPECT_TRUE(answered.contains(name) || known.find("\n  --" + name) != std::string::npos)
        << name;
}

/// What an answer has in quotes behind an option.
TEST(OptionAliases, WhatToWriteInsteadIsTaken) {
  const std::regex call("(--[a-z.-]+) '([^']+)'");
  std::set<std::string> tried;
  for (const auto& foreign : tools::foreign_options()) {
    const std::string said(foreign.said);
    for (std::sregex_iterator one(said.begin(), said.end(), call), end; one != end; ++one) {
      if (!tried.insert(one->str()).second) continue;
      const ProcessResult taken =
          millrace({"train", "--summary", "--classes", "10", (*one)[1].str(), (*one)[2].str()});
      EXPECT_EQ(taken.status, 0) << foreign.name << ": " << taken.err;
    }
  }
  EXPECT_GT(tried.size(), 8U);
}

TEST(OptionAliases, NamesOfOtherTrainersAreTheSameRun) {
  const TempDir dir;
  const auto options = [&](const std::string& run, std::vector<std::string> words) {
    words.insert(words.begin(), {"train", "--fake-data", "4", "--batch-size", "2", "--classes", "2",
                                 "--size", "32", "--run-dir", dir.path() / run});
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << result.err;
    auto said = nlohmann::json::parse(read_file(dir.path() / run / "config.json")).at("options");
    said.erase("run-dir");
    return said;
  };
  EXPECT_EQ(
      options("theirs",
              {"--amp", "--smoothing", "0.1", "--mixup-alpha", "0.2", "--lr-scheduler", "steplr",
               "--lr-step-size", "3", "--lr-gamma", "0.5", "--lr-warmup-epochs", "1",
               "--lr-warmup-decay", "0.01", "--clip-grad-norm", "1", "--drop-path", "0.1"}),
      options("ours", {"--precision", "bf16", "--task", "classify(label_smoothing=0.1)", "--mixup",
                       "0.2", "--schedule", "step(3, gamma=0.5, warmup=1ep, warmup_start=0.01)",
                       "--clip-norm", "1", "--model", "resnet18(stochastic_depth=0.1)"}));
}

TEST(OptionAliases, APartOfAWordIsNotWhatItMeans) {
  const auto refused = [](const char* word) { return millrace({"train", word, "1"}).err; };
  EXPECT_THAT(refused("--val-frequency"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(refused("--model-parallel"), Not(HasSubstr("did you mean")));
  EXPECT_THAT(refused("--momentumm"), HasSubstr("did you mean --momentum?"));
  EXPECT_THAT(refused("--label-smooth"), HasSubstr("did you mean --label-smoothing?"));
}

TEST(OptionAliases, AWordIsOneOfThoseThatTheOptionTakes) {
  for (const tools::WordAlias& alias : tools::word_aliases()) {
    const std::string option(alias.option);
    if (alias.known.empty()) {
      const ProcessResult refused = millrace({"train", "--" + option, std::string(alias.word)});
      EXPECT_EQ(refused.status, 2);
      EXPECT_THAT(refused.err, HasSubstr(std::string(alias.said)));
      continue;
    }
    EXPECT_THAT(millrace({"train", "--help", option}).out,
                HasSubstr("\n  " + std::string(alias.known) + " "))
        << alias.word;
  }
}

TEST(OptionAliases, WhatIsGoneIsNoOption) {
  for (const auto& [name, said] : tools::gone_options()) {
    const ProcessResult refused = millrace({"train", "--" + std::string(name), "2"});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr(std::string(said)));
  }
}

std::vector<std::string> differences(const std::vector<Setting>& saved,
                                     const std::vector<Setting>& now) {
  return setting_differences(tools::renewed_settings(saved, now), "saved", now, "given");
}

// The lists that checkpoints had before rules and schedules were components, as they were written.
TEST(SavedSettings, OfBeforeComponentsAreComparedByTheNamesOfNow) {
  const std::vector<Setting> saved = trainer::settings_from_json(
      R"([["--optimizer","sgd",0,0,""],["--momentum","0.9",1,0,""],["--betas","0.9,0.999",1,0,""],)"
      R"(["--no-decay-norms-biases","true",1,1,""],["--schedule","warmup-exponential",1,1,""],)"
      R"(["--schedule-unit","epoch",1,0,""],["--step-epochs","30",1,0,""],["--gamma","0.1",1,0,""],)"
      R"(["--divisor","4",1,1,""],["--warmup-epochs","0",1,0,""],["--warmup-steps","0",1,0,""]])");
  const trainer::Sgd sgd = {.groups = {{.parameters = "norms-biases", .weight_decay = 0.0F}}};
  const std::vector<Setting> now = {
      {.name = "--optimizer", .value = "sgd"},
      {.name = "--optimizer.momentum", .value = "0.8"},
      {.name = "--optimizer.groups",
       .value = trainer::setting_text(written(trainer::Rule(sgd)).items.back())},
      {.name = "--schedule", .value = "step"},
      {.name = "--schedule.every", .value = "20"},
      {.name = "--schedule.gamma", .value = "0.25"},
      {.name = "--schedule.warmup", .value = "0.9ep"},
      {.name = "--schedule.by", .value = "epoch"}};
  EXPECT_THAT(differences(saved, now), ElementsAre("--optimizer.momentum: 0.9 saved, 0.8 given",
                                                   "--schedule.every: 30 saved, 20 given"));
}

TEST(SavedSettings, AWarmUpHasTheUnitOfItsOption) {
  const auto said = [](const char* epochs, const char* steps, const char* now) {
    return differences(
        {{.name = "--warmup-epochs", .value = epochs}, {.name = "--warmup-steps", .value = steps}},
        {{.name = "--schedule.warmup", .value = now}});
  };
  EXPECT_THAT(said("0", "100", "100steps"), IsEmpty());
  EXPECT_THAT(said("5", "0", "5ep"), IsEmpty());
  EXPECT_THAT(said("0", "0", "none"), IsEmpty());
  EXPECT_THAT(said("0", "0", "0"), IsEmpty());
  EXPECT_THAT(said("0", "0", "5ep"), ElementsAre(HasSubstr("0 saved, 5ep given")));
  EXPECT_THAT(said("5", "0", "0"), ElementsAre(HasSubstr("5ep saved, 0 given")));
}

TEST(SavedSettings, OfSeveralOptionsThatAreOneNowTheOneThatSaysSomethingCounts) {
  const auto uneven = [](const char* drop, const char* own, const char* now) {
    return differences({{.name = "--uneven", .value = own}, {.name = "--drop-last", .value = drop}},
                       {{.name = "--uneven", .value = now}});
  };
  EXPECT_THAT(uneven("true", "pad", "drop"), IsEmpty());
  EXPECT_THAT(uneven("false", "partial", "partial"), IsEmpty());
  EXPECT_THAT(uneven("true", "pad", "pad"), ElementsAre("--uneven: drop saved, pad given"));
  EXPECT_THAT(
      differences({{.name = "--streams", .value = "0"}, {.name = "--workers", .value = "2"}},
                  {{.name = "--streams", .value = "2/process"}}),
      IsEmpty());
  EXPECT_THAT(differences({{.name = "--reduce", .value = "tree"},
                           {.name = "--reduce-precision", .value = "bf16"}},
                          {{.name = "--allreduce", .value = "tree"}}),
              ElementsAre("--allreduce: tree-bf16 saved, tree given"));
  EXPECT_THAT(differences({{.name = "--skip", .value = "5"}, {.name = "--take", .value = "9"}},
                          {{.name = "--skip-samples", .value = "5"},
                           {.name = "--take-samples", .value = "8"}}),
              ElementsAre("--take-samples: 9 saved, 8 given"));
}

TEST(SavedSettings, FieldsThatWereAddedHaveTheirDefaults) {
  const auto augment = [](const char* before, const char* now) {
    return differences({{.name = "--augment", .value = before}},
                       {{.name = "--augment", .value = now}});
  };
  const char* now =
      "rcrop(size=16, padding=1, padding_mode=constant), hflip(p=0.5, alternate=false)";
  EXPECT_THAT(augment("rcrop(size=16, padding=1, padding_mode=constant), hflip(p=0.5)", now),
              IsEmpty());
  EXPECT_THAT(augment("rcrop(size=16, padding=1, padding_mode=constant), hflip(p=0.4)", now),
              ElementsAre(HasSubstr("hflip(p=0.4, alternate=false) saved")));
  EXPECT_THAT(augment("is_no_more(p=1)", now), ElementsAre(HasSubstr("is_no_more(p=1) saved")));
  EXPECT_THAT(augment("crop-flip", "crop-flip"), IsEmpty());
  const trainer::Sgd sgd = {.groups = {{.parameters = "fc.", .rate = 10}}};
  const std::string groups = trainer::setting_text(written(trainer::Rule(sgd)).items.back());
  const std::string first = "group(parameters=fc., rate=10, weight_decay=none";
  ASSERT_THAT(groups, StartsWith(first));
  EXPECT_THAT(differences({{.name = "--optimizer.groups", .value = first + ")"}},
                          {{.name = "--optimizer.groups", .value = groups}}),
              IsEmpty());
}

TEST(SavedSettings, OfOrdersAreComparedAsParameters) {
  const std::vector<Setting> saved = {
      {.name = "--order", .value = "millrace"}, {.name = "--shuffle", .value = "7"},
      {.name = "--open-shards", .value = "1"},  {.name = "--shuffle-initial", .value = "100"},
      {.name = "--on-fault", .value = "skip"},  {.name = "--max-faults", .value = "3"}};
  const std::vector<Setting> now = {{.name = "--order", .value = "shuffled"},
                                    {.name = "--order.buffer", .value = "9"},
                                    {.name = "--order.open-shards", .value = "1"},
                                    {.name = "--on-fault", .value = "skip"},
                                    {.name = "--on-fault.max", .value = "0.5"}};
  EXPECT_THAT(differences(saved, now), ElementsAre("--order.buffer: 7 saved, 9 given",
                                                   "--on-fault.max: 3 saved, 0.5 given"));
}

TEST(SavedSettings, OfModelsAndTasksAreComparedAsParameters) {
  const std::vector<Setting> saved = {{.name = "--stem", .value = "imagenet"},
                                      {.name = "--label-smoothing", .value = "0.1"},
                                      {.name = "--mask-loss", .value = "bce"}};
  const std::vector<Setting> now = {{.name = "--model.stem", .value = "3x3"},
                                    {.name = "--task.label-smoothing", .value = "0.1"}};
  EXPECT_THAT(differences(saved, now), ElementsAre("--model.stem: imagenet saved, 3x3 given"))
      << "a mask's loss is no setting of a task without one";
}

}  // namespace
}  // namespace millrace::testing
