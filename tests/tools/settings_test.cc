// The options of train as one description: what a checkpoint keeps and a resumed run compares, what
// config.json holds and --config takes, what the command line undoes of a recipe.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class RunSettings : public ::testing::Test {
 protected:
  RunSettings() : shards_(make_set(dir_, 32, 16)) {}

  ProcessResult train(const std::vector<std::string>& more,
                      const ProcessOptions& options = {}) const {
    std::vector<std::string> words = {"train", "--train",      shards_,     "--model",
                                      "lenet", "--size",       "16",        "--channels",
                                      "3",     "--batch-size", "8",         "--precision",
                                      "fp32",  "--run-dir",    dir_ / "run"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words, options);
  }
  nlohmann::json options_of(const std::string& run) const {
    return nlohmann::json::parse(read_file(dir_ / (run + "/config.json"))).at("options");
  }
  /// By name: the scope's number.
  std::map<std::string, int> kept_settings() const {
    const auto state = nlohmann::json::parse(read_file(dir_ / "run/checkpoints/last/state.json"));
    std::map<std::string, int> kept;
    for (const auto& one : state.at("settings")) kept[one.at(0)] = one.at(2);
    return kept;
  }

  TempDir dir_;
  std::string shards_;
};

std::set<std::string> options_in_help(const std::string& command) {
  std::set<std::string> names;
  for (const std::string& line : lines_of(millrace({command, "--help", "all"}).out)) {
    if (!line.starts_with("  -")) continue;
    const std::size_t begin = line.find("--");
    names.insert(line.substr(begin, line.find_first_of(" ,", begin) - begin));
  }
  return names;
}

// An option is compared by being declared. What is listed here is marked where it is declared.
TEST_F(RunSettings, EachOptionOfTrainIsComparedOrMarked) {
  ASSERT_EQ(0, train({}).status);
  std::set<std::string> all = options_in_help("train");
  ASSERT_GT(all.size(), 80U);
  for (const char* of_program : {"--help", "--version", "--config", "--json"})
    EXPECT_EQ(1U, all.erase(of_program)) << of_program;
  const std::set<std::string> own_of_process = {"--val",
                                                "--join",
                                                "--val-join",
                                                "--allow-pipe",
                                                "--retry-for",
                                                "--cache",
                                                "--cache-size",
                                                "--devices",
                                                "--accelerator",
                                                "--threads",
                                                "--prefetch",
                                                "--no-autotune",
                                                "--plugin",
                                                "--plugin-path",
                                                "--plugin-timeout",
                                                "--cache-decoded",
                                                "--cache-decoded-in"};
  const std::set<std::string> of_this_start = {
      "--run-dir",      "--force",       "--resume",       "--allow-changed-data", "--upload",
      "--fast-dev-run", "--summary",     "--dump-plan",    "--dump-program",       "--trace",
      "--trace-events", "--trace-steps", "--trace-layers", "--metrics-listen"};
  const auto kept = kept_settings();
  for (const std::string& name : all) {
    const bool is_marked = own_of_process.contains(name) || of_this_start.contains(name);
    EXPECT_NE(is_marked, kept.contains(name)) << name;
  }
  for (const auto& [name, scope] : kept) {
    const bool is_field = name.find('.') != std::string::npos;
    EXPECT_EQ(is_field, !all.contains(name))
        << name << ": a component's fields are in its own help";
    const bool makes_another_run =
        name.starts_with("--model.") || name.starts_with("--task.") || name.starts_with("--order.");
    if (is_field) {
      EXPECT_EQ(makes_another_run ? 0 : 1, scope) << name;
    }
  }
  for (const char* name :
       {"--size", "--mean", "--std", "--augment", "--task.label-smoothing", "--order",
        "--order.buffer", "--uneven", "--skip-samples", "--seed", "--precision"})
    EXPECT_EQ(0, kept.at(name)) << name << " makes another run";
  for (const char* name :
       {"--epochs", "--log-steps", "--optimizer.lr", "--save-top-k", "--batch-size"})
    EXPECT_EQ(1, kept.at(name)) << name << " may change when a run is resumed";
}

TEST_F(RunSettings, AResumedRunSaysWhatHasChanged) {
  ASSERT_EQ(0, train({"--mean", "0.5", "--lr", "0.01"}).status);
  const auto again = [&](std::vector<std::string> more) {
    more.insert(more.end(), {"--resume", "auto"});
    return train(more);
  };
  const ProcessResult same = again({"--mean", "0.50", "--lr", "1e-2"});
  EXPECT_THAT(same.err, AllOf(Not(HasSubstr("another setting")), Not(HasSubstr("other options"))));
  const ProcessResult other =
      again({"--mean", "0.1", "--augment", "flip", "--std", "2", "--lr", "0.02"});
  EXPECT_EQ(0, other.status);
  EXPECT_THAT(
      other.err,
      AllOf(HasSubstr("resumed with another setting (--augment: none saved, flip given; "
                      "--mean: 0.5 saved, 0.1 given; --std: "),
            HasSubstr("resumed with other options than before: --optimizer.lr: 0.01 saved, 0.02")));
}

// Checkpoints from before --augment took calls have the names.
TEST_F(RunSettings, AListOfTransformsIsTheSameByItsName) {
  ASSERT_EQ(0, train({"--augment", "crop-flip"}).status);
  EXPECT_EQ(options_of("run").at("augment"), "crop-flip");
  EXPECT_THAT(train({"--resume", "auto", "--augment", "rcrop(padding=2), hflip"}).err,
              Not(HasSubstr("another setting")));
  EXPECT_THAT(
      train({"--resume", "auto", "--augment", "rcrop(padding=1), hflip"}).err,
      HasSubstr("--augment: crop-flip saved, rcrop(size=16, padding=1, padding_mode=constant), "
                "hflip(p=0.5, alternate=false) given"));
}

TEST_F(RunSettings, InMidEpochARunContinuesWithItsOwnOptionsOnly) {
  const std::string saved = dir_ / "run/checkpoints/last/state.json";
  const auto train_long = [&](std::vector<std::string> more, const ProcessOptions& options = {}) {
    more.insert(more.end(), {"--epoch-samples", "100000000"});  // an epoch does not end here
    return train(more, options);
  };
  const ProcessResult stopped = train_long(
      {"--save-every-steps", "1"},
      {.signal_when = [&] { return std::filesystem::exists(saved); }, .signal = SIGTERM});
  ASSERT_EQ(128 + SIGTERM, stopped.status) << stopped.err;
  ASSERT_FALSE(nlohmann::json::parse(read_file(saved)).at("position").is_null());
  const ProcessResult refused = train_long({"--resume", "auto", "--mean", "0.1"});
  EXPECT_EQ(2, refused.status);
  EXPECT_THAT(refused.err, HasSubstr("in mid-epoch and continues only with its own options: "
                                     "--mean: 0.485,0.456,0.406 saved, 0.1 given"));
  EXPECT_EQ(0, train_long({"--resume", "auto", "--max-time", "1s"}).status);
}

TEST_F(RunSettings, ConfigJsonHoldsTheWholeRun) {
  const ProcessResult run = train({"--warmup-epochs", "0.5"});
  ASSERT_EQ(0, run.status) << run.err;
  const auto options = options_of("run");
  EXPECT_EQ(options.at("model"), "lenet");
  EXPECT_EQ(options.at("size"), 16);
  EXPECT_EQ(options.at("classes"), 10) << "counted";
  EXPECT_EQ(
      options.at("optimizer"),
      "sgd(lr=0.003125, momentum=0.9, dampening=0, nesterov=false, weight_decay=0, groups=[])")
      << "whole, the rate scaled to the step";
  EXPECT_EQ(options.at("schedule"),
            "cosine(to=0, warmup=0.5ep, warmup_start=0, by=epoch, after_warmup=false)");
  EXPECT_FALSE(options.contains("optimizer.lr"));
  EXPECT_EQ(options.at("task"),
            "classify(label_smoothing=0, loss=ce, threshold=none, sum_classes=false)");
  EXPECT_EQ(options.at("order"), "shuffled(buffer=5000, open_shards=1)");
  EXPECT_EQ(options.at("on-fault"), "fail");
  EXPECT_EQ(options.at("run-dir"), dir_ / "run");
  EXPECT_EQ(options.at("train"), (std::vector<std::string>{shards_}));
  EXPECT_FALSE(options.contains("config"));
}

TEST_F(RunSettings, ConfigJsonGivesTheSameRunAgain) {
  ASSERT_EQ(0, train({"--epochs", "2", "--optimizer", "adam", "--augment", "flip", "--seed", "5",
                      "--take", "24", "--mean", "0.4,0.5,0.6"})
                   .status);
  const ProcessResult again =
      millrace({"train", "--config", dir_ / "run", "--run-dir", dir_ / "again"});
  ASSERT_EQ(0, again.status) << again.err;
  EXPECT_EQ(read_file(dir_ / "run/checkpoints/last/model.safetensors"),
            read_file(dir_ / "again/checkpoints/last/model.safetensors"));
  auto first = options_of("run");
  auto second = options_of("again");
  for (auto* options : {&first, &second}) options->erase("run-dir");
  EXPECT_EQ(first, second);
  const ProcessResult other = millrace({"train", "--config", dir_ / "run/config.json", "--run-dir",
                                        "none", "--global-batch", "4", "--epochs", "1"});
  EXPECT_EQ(0, other.status) << other.err;
  EXPECT_THAT(other.err, AllOf(HasSubstr("= 4 samples per step"), HasSubstr("1 epoch")));
  write_file(dir_ / "bad.json", R"({"options":{"epoch":3}})");
  EXPECT_THAT(millrace({"train", "--config", dir_ / "bad.json"}).err,
              HasSubstr("bad.json: unknown option --epoch; did you mean --epochs?"));
  write_file(dir_ / "bad.json", R"({"model":"lenet"})");
  EXPECT_THAT(millrace({"train", "--config", dir_ / "bad.json"}).err,
              HasSubstr("is not the config.json of a run"));
}

// Options that are one now were two in runs of before.
TEST_F(RunSettings, AConfigOfBeforeGivesTheSameRun) {
  ASSERT_EQ(0, train({"--uneven", "drop", "--streams", "2/process", "--allreduce", "tree-bf16",
                      "--order", "shuffled(7, open_shards=2)", "--on-fault", "skip(3)"})
                   .status);
  auto config = nlohmann::json::parse(read_file(dir_ / "run/config.json"));
  auto& options = config.at("options");
  options.erase("allreduce");
  options.update(nlohmann::json{{"uneven", "pad"},
                                {"drop-last", true},
                                {"partial", false},
                                {"workers", 2},
                                {"streams", 0},
                                {"order", "millrace"},
                                {"shuffle", 7},
                                {"open-shards", 2},
                                {"shuffle-initial", 100},
                                {"shard-shuffle", 100},
                                {"detshuffle", false},
                                {"on-fault", "skip"},
                                {"max-faults", "3"},
                                {"global-batch", 0},
                                {"passes", 0},
                                {"reduce", "tree"},
                                {"reduce-precision", "bf16"},
                                {"deterministic", false}});
  write_file(dir_ / "before.json", config.dump());
  const ProcessResult again =
      millrace({"train", "--config", dir_ / "before.json", "--run-dir", dir_ / "again"});
  ASSERT_EQ(0, again.status) << again.err;
  auto first = options_of("run");
  auto second = options_of("again");
  for (auto* each : {&first, &second}) each->erase("run-dir");
  EXPECT_EQ(first, second);
}

TEST_F(RunSettings, WhatARecipeSetsIsUndone) {
  write_file(dir_ / "c.toml",
             "resume = \"auto\"\nval = \"" + shards_ + "\"\nnesterov = true\nglobal-batch = 16\n");
  const auto run = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"train",    shards_, "--config",  dir_ / "c.toml",
                                      "--model",  "lenet", "--size",    "16",
                                      "--epochs", "1",     "--run-dir", dir_ / "run"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  };
  ASSERT_EQ(0, run({}).status);
  EXPECT_THAT(run({}).err, HasSubstr("Resumed from"));
  EXPECT_THAT(run({"--no-resume"}).err, HasSubstr("continue it with --resume auto"));
  const ProcessResult over =
      run({"--no-resume", "--force", "--no-val", "--batch-size", "4", "--no-nesterov"});
  EXPECT_EQ(0, over.status) << over.err;
  EXPECT_THAT(over.err, AllOf(Not(HasSubstr("Resumed")), Not(HasSubstr("val_")),
                              HasSubstr("= 4 samples per step")));
  EXPECT_THAT(options_of("run").at("optimizer").get<std::string>(), HasSubstr("nesterov=false"));
  EXPECT_THAT(run({"--no-resume", "--resume", "auto"}).err,
              HasSubstr("--resume and --no-resume: give only one of them"));
  EXPECT_THAT(run({"--no-shuffle"}).err, HasSubstr("unknown option --no-shuffle"))
      << "its default is not off";
}

TEST_F(RunSettings, TwoNamesOfOneOptionInAFileAreRefused) {
  write_file(dir_ / "c.toml", "epochs = 2\nlr = 0.1\nmax-epochs = 3\n");
  const ProcessResult result = millrace({"train", shards_, "--config", dir_ / "c.toml"});
  EXPECT_EQ(2, result.status);
  EXPECT_THAT(result.err,
              HasSubstr("c.toml:3: max-epochs is another name of epochs, which is set on line 1"));
}

TEST_F(RunSettings, WrongStartsAreNamedForWhatTheyAre) {
  ASSERT_EQ(0, train({}).status);
  const ProcessResult classes = train({"--force", "--init", dir_ / "run", "--classes", "12"});
  EXPECT_EQ(2, classes.status);
  EXPECT_THAT(classes.err, HasSubstr("--replace-head starts the last layer anew"));
  std::filesystem::create_directory(dir_ / "demo");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"eval", shards_, "--checkpoint", dir_ / "demo"},
        {"train", shards_, "--model", "lenet", "--init", dir_ / "demo", "--run-dir", "none"}}) {
    const ProcessResult none = millrace(words);
    EXPECT_EQ(1, none.status);
    EXPECT_THAT(none.err, AllOf(HasSubstr("no checkpoint in " + (dir_ / "demo")),
                                Not(HasSubstr("No such file"))));
  }
}

TEST_F(RunSettings, WeightsToStartFromThatAreNotFiniteAreNamed) {
  ASSERT_EQ(0, train({}).status);
  std::string file = read_file(dir_ / "run/checkpoints/last/model.safetensors");
  file.replace(file.size() - 4, 4, std::string("\x00\x00\xC0\x7F", 4));
  write_file(dir_ / "nan.safetensors", file);
  const ProcessResult result = train({"--force", "--init", dir_ / "nan.safetensors"});
  EXPECT_EQ(1, result.status);
  EXPECT_THAT(result.err, AllOf(HasSubstr("1 of "), HasSubstr(" are not finite numbers"),
                                HasSubstr("nan.safetensors"), Not(HasSubstr("learning rate"))));
}

}  // namespace
}  // namespace millrace::testing
