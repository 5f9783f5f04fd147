// What users type and read: names from other tools, typos, --help, recipes by name, and
// configuration files, whose errors name the file and line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const std::vector<std::string> kCommands = {"create", "ls",    "cat",     "view",  "stats",
                                            "verify", "index", "reshard", "order", "bench",
                                            "train",  "eval",  "predict"};

/// Eight colour samples of that height and width; returns their shard.
std::string make_pictures(const TempDir& dir, const std::string& size) {
  const ProcessResult made = millrace({"create", dir / "p-%06d.tar", "--synthetic", "classes",
                                       "--count", "8", "--size", size, "--no-index"});
  EXPECT_EQ(made.status, 0) << made.err;
  return dir / "p-000000.tar";
}

TEST(Words, NamesFromPyTorchAndLightningAreUnderstood) {
  const TempDir dir;
  const std::string shards = make_set(dir, 16, 8);
  const std::vector<std::string> common = {
      "train",      shards, "--arch",    "LeNet", "--num-classes",       "10",
      "--channels", "3",    "--run-dir", "none",  "--log-every-n-steps", "1"};
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--precision", "16-mixed", "--devices", "auto", "--max-epochs", "1"},
           {"--precision", "bf16-mixed", "--devices", "1", "--learning-rate", "1e-3"},
           {"--precision", "bfloat16", "--num-workers", "2", "--batch", "4"},
           {"--precision=BF16", "--optimizer", "Adam", "--num_epochs=1"},
           {"--precision", "16", "--optim", "AdamW", "--scheduler", "CosineAnnealingLR"}}) {
    std::vector<std::string> words = common;
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << more[1] << ": " << result.err;
    EXPECT_THAT(result.err, AllOf(HasSubstr(", bf16\n"), HasSubstr("1 device x batch size"),
                                  HasSubstr("1 epoch")));
  }
}

TEST(Words, AnotherProcessorIsRefusedWithWhatThereIs) {
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--gpus", "1"}, {"--gpus=1"}, {"--tpu_cores", "8"}, {"--num-gpus", "2"}}) {
    std::vector<std::string> words = {"train", "--fake-data", "8", "--fast-dev-run"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 2) << more[0];
    EXPECT_THAT(result.err, AllOf(HasSubstr("--devices cuda:2"), HasSubstr("--devices N")));
    EXPECT_EQ(count_of(result.err, "\n"), 1U) << result.err;
  }
  const TempDir dir;
  write_file(dir / "run.toml", "gpus = 1\n");
  const ProcessResult configured = millrace({"train", "--config", dir / "run.toml"});
  EXPECT_EQ(configured.status, 2);
  EXPECT_THAT(configured.err, HasSubstr("run.toml:1: --gpus: --devices cuda:2"));
  const std::string folder = dir / "no_packages";
  std::filesystem::create_directory(folder);
  for (const std::vector<std::string>& more : std::vector<std::vector<std::string>>{
           {"--accelerator", "gpu"}, {"--accelerator=CUDA"}, {"--device", "cuda"}}) {
    std::vector<std::string> words = {"train", "--fake-data", "8", "--plugin-path", folder};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 1) << more[0];
    EXPECT_THAT(result.err, HasSubstr("no plugin for cuda is installed")) << more[0];
    EXPECT_THAT(result.err, HasSubstr("pip install jax-cuda13-pjrt"));
  }
  for (const std::string accelerator : {"cpu", "auto", "CPU"}) {
    const ProcessResult result =
        millrace({"train", "--fake-data", "8", "--fast-dev-run", "--model", "lenet", "--classes",
                  "10", "--accelerator", accelerator});
    EXPECT_EQ(result.status, 0) << result.err;
  }
}

TEST(Words, DevicesMayBeAListWithoutBrackets) {
  const TempDir dir;
  const std::string shards = make_set(dir, 16, 8);
  const ProcessResult result =
      millrace({"train", shards, "--model", "lenet", "--channels", "3", "--devices", "0,2",
                "--batch-size", "4", "--fast-dev-run", "--log-steps", "1"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("2 devices x batch size 4 = 8 samples per step"));
}

struct Slip {
  std::vector<std::string> words;
  std::string says;
};

TEST(Words, AMisspelledNameGetsTheNearestOne) {
  const std::vector<Slip> slips = {
      {{"trian"}, "no command trian; did you mean train?"},
      {{"Train", "x"}, "did you mean train?"},
      {{"fit", "x"}, "did you mean train?"},
      {{"help", "evl"}, "did you mean eval?"},
      {{"--model", "lenet"}, "the command comes first, before --model"},
      {{"train", "x.tar", "--epoch", "3"}, "unknown option --epoch; did you mean --epochs?"},
      {{"train", "x.tar", "-epochs", "3"}, "unknown option -epochs; did you mean --epochs?"},
      {{"train", "x.tar", "--weight-dacay=3"}, "did you mean --weight-decay?"},
      {{"train", "x.tar", "--num-worker", "3"},
       "unknown option --num-worker; did you mean --num-workers?"},
      {{"ls", "pipe:cat x.tar"}, "--allow-pipe"},
      {{"ls", "x.tar", "--frobnicate"}, "unknown option --frobnicate (see millrace ls --help)\n"},
      {{"train", "x.tar", "--optimizer", "adm"}, "--optimizer: there is no optimizer 'adm'"},
      {{"train", "x.tar", "--optimizer", "adm"}, "did you mean adam?"},
      {{"train", "x.tar", "--model", "resnet"}, "did you mean resnet"},
      {{"train", "x.tar", "--precision", "bf-16x"}, "did you mean bf16?"},
      {{"train", "x.tar", "--config", "cifar10-resnet19"}, "did you mean cifar10-resnet18?"},
      {{"train", "x.tar", "--lr"}, "--lr needs a value"},
      {{"train", "x.tar", "--lr", "--epochs", "3"}, "--lr needs a value"},
      {{"train", "x.tar", "--run-dir", ""}, "--run-dir needs a value"},
      {{"train", "x.tar", "--lr", "1", "--lr", "2"}, "--optimizer.lr is given more than once"},
      {{"cat", "x.tar", "a.jpg", "b.jpg"}, "unexpected argument b.jpg"},
      {{"train"}, "no shards given: millrace train SPEC"},
  };
  for (const Slip& slip : slips) {
    const ProcessResult result = millrace(slip.words);
    EXPECT_EQ(result.status, 2) << slip.says;
    EXPECT_THAT(result.err, HasSubstr(slip.says));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
}

TEST(Words, NoCommandStartsAnyNumberOfThreads) {
  for (const char* command :
       {"create", "stats", "verify", "index", "order", "bench", "train", "eval", "predict"}) {
    const ProcessResult result = millrace({command, "x.tar", "--threads", "1000000"});
    EXPECT_EQ(result.status, 2) << command;
    EXPECT_THAT(result.err, HasSubstr("--threads: '1000000': must be at most 1024")) << command;
  }
}

TEST(Words, WrongValuesAreReportedShortly) {
  const std::string huge(3000, '9');
  const std::vector<Slip> wrong = {
      {{"--lr", "nan"}, "--optimizer.lr: 'nan' is not a number"},
      {{"--lr", "inf"}, "--optimizer.lr: 'inf' is not a number"},
      {{"--lr", "0"}, "--optimizer.lr: '0': must be above 0"},
      {{"--lr", "fast"}, "--optimizer.lr: 'fast' is not a number"},
      {{"--lr", huge}, "--optimizer.lr: '99999"},
      {{"--momentum", "1.5"}, "--optimizer.momentum: '1.5': must be at least 0 and below 1"},
      {{"--momentum", "-0.1"}, "--optimizer.momentum: '-0.1': must be at least 0"},
      {{"--weight-decay", "-1"}, "--optimizer.weight-decay: '-1': must be at least 0"},
      {{"--epochs", "2.5"}, "--epochs: '2.5' is not a whole number"},
      {{"--epochs", "0"}, "--epochs: '0': must be at least 1"},
      {{"--epochs", huge}, "must be at most 1048576"},
      {{"--seed", "-1"}, "--seed: '-1': must be at least 0"},
      {{"--seed", "abc"}, "--seed: 'abc' is not a whole number"},
      {{"--std", "0"}, "--std: '0': must be above 0"},
      {{"--model", "lenet", "--mean", "0.1,0.2,0.3"}, "--mean has 3 values for 1 channel"},
      {{"--mean", "0.1,0.2"}, "--mean has 2 values for 3 channels"},
      {{"--batch-size", "1e9"}, "--batch-size 1000000000: at most 1048576"},
      {{"--optimizer", huge}, "..."},
      {{"--devices", "gpu0"}, "--devices gpu0: there are tpu, cuda"},
      {{"--devices", "cpu:x"}, "devices \"x\""},
      {{"--devices", "-1"}, "devices \"-1\""},
  };
  for (const Slip& one : wrong) {
    std::vector<std::string> words = {"train", "x.tar"};
    words.insert(words.end(), one.words.begin(), one.words.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 2) << one.says;
    EXPECT_THAT(result.err, HasSubstr(one.says));
    EXPECT_LT(result.err.size(), 400U);
  }
}

TEST(Words, NumbersMayBeWrittenInPowersOfTen) {
  const TempDir dir;
  const std::string shards = make_set(dir, 8, 4);
  EXPECT_EQ(millrace({"ls", shards, "--limit", "1e6"}).status, 0);
  EXPECT_EQ(millrace({"ls", shards, "--limit", "1_000"}).status, 0);
}

/// The part of --help before its examples, which have their own width.
std::string options_of(const std::string& command) {
  const ProcessResult result = millrace({command, "--help", "all"});
  EXPECT_EQ(result.status, 0);
  return result.out.substr(0, result.out.find("\nExample:"));
}

TEST(Help, IsReadableInEightyColumns) {
  for (const std::string& command : kCommands) {
    const std::string help = options_of(command);
    for (const std::string& line : lines_of(help)) EXPECT_LE(line.size(), 80U) << line;
    for (const std::string noise :
         {"{false}", "{true}", "[Option Group", "INT", "FLOAT", "TEXT:", "NONNEGATIVE", "POSITIVE",
          "=[]", "[]", "Positionals", "REQUIRED"})
      EXPECT_THAT(help, Not(HasSubstr(noise))) << command;
  }
}

TEST(Help, EveryOptionIsDescribed) {
  for (const std::string& command : kCommands) {
    const std::vector<std::string> lines = lines_of(options_of(command));
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (!lines[i].starts_with("  -")) continue;
      const bool below = i + 1 < lines.size() && lines[i + 1].starts_with(std::string(28, ' '));
      EXPECT_TRUE(lines[i].size() > 28 || below) << command << ": " << lines[i];
    }
  }
}

TEST(Help, GeneralOptionsComeLastAndRequiredOnesAreMarked) {
  for (const std::string& command : kCommands) {
    const std::string help = options_of(command);
    const std::size_t general = help.find("\nGeneral:");
    ASSERT_NE(general, help.npos) << command;
    EXPECT_EQ(help.find(":\n", general + 10), help.npos) << command;
    EXPECT_GT(help.find("--config"), general) << command;
  }
  EXPECT_THAT(options_of("eval"), HasSubstr("(required)"));
  EXPECT_THAT(options_of("view"), HasSubstr("(required)"));
  EXPECT_THAT(options_of("ls"),
              AllOf(HasSubstr("Usage: millrace ls SPEC... [options]"), HasSubstr("(required)")));
  EXPECT_THAT(options_of("create"), HasSubstr("Source, one of these:\n"));
}

TEST(Help, IsTwoScreensAtMostAndSaysWhereTheRestIs) {
  for (const std::string& command : kCommands) {
    const std::string help = millrace({command, "--help"}).out;
    EXPECT_LE(lines_of(help).size(), 110U) << command;
    for (const std::string& line : lines_of(help.substr(0, help.find("\nExample:"))))
      EXPECT_LE(line.size(), 80U) << line;
  }
  const std::string train = millrace({"train", "--help"}).out;
  EXPECT_THAT(train, AllOf(HasSubstr("--epochs N"), Not(HasSubstr("--resampled")),
                           HasSubstr("millrace train --help all"), HasSubstr("checkpoints")));
  EXPECT_THAT(millrace({"train", "--help", "all"}).out, HasSubstr("--resampled"));
  EXPECT_THAT(millrace({"help", "train", "input"}).out,
              AllOf(StartsWith("Input:\n"), HasSubstr("--resampled")));
  EXPECT_THAT(millrace({"train", "--help", "open-shards"}).out,
              StartsWith("  --order.open-shards N"));
  EXPECT_THAT(millrace({"train", "--help", "shuffle"}).out, StartsWith("  --order.buffer N"));
  EXPECT_THAT(millrace({"train", "--help", "aliases"}).out,
              AllOf(HasSubstr("--drop-last "), HasSubstr("--uneven 'drop'"),
                    HasSubstr("--num-workers "), HasSubstr("--streams N/process"),
                    HasSubstr("--deterministic "), HasSubstr("--train ")));
}

TEST(Help, IsACommandTooAndSoIsVersion) {
  EXPECT_EQ(millrace({"help", "train"}).out, millrace({"train", "--help"}).out);
  EXPECT_EQ(millrace({"help"}).out, millrace({"--help"}).out);
  EXPECT_THAT(millrace({"version"}).out, StartsWith("millrace 0."));
}

TEST(RecipeName, IsFoundByItsName) {
  const TempDir dir;
  const std::string shards = make_pictures(dir, "32");
  for (const std::string name : {"cifar10-resnet18", "cifar10-resnet18.toml"}) {
    const ProcessResult result = millrace(
        {"train", shards, "--config", name, "--val", shards, "--batch-size", "2", "--fast-dev-run"},
        {.folder = dir.path().string()});
    EXPECT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("resnet18: "));
  }
  EXPECT_THAT(millrace({"train", "--help"}).out,
              AllOf(HasSubstr(" cifar10-resnet18,"), HasSubstr("unet-mask-depth\n")));
}

TEST(RecipeName, IsFoundFromAnInstalledProgram) {
  const TempDir dir;
  const std::filesystem::path& root = dir.path();
  std::filesystem::create_directories(root / "bin");
  std::filesystem::create_directories(root / "share/millrace/recipes");
  std::filesystem::copy_file(MILLRACE_PROGRAM, root / "bin/millrace");
  write_file(dir / "share/millrace/recipes/mine.toml", "model = \"lenet\"\n");
  const ProcessResult result = run_process(
      {dir / "bin/millrace", "train", "--config", "mine", "--classes", "10", "--summary"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("lenet: 61706 parameters"));
}

TEST(Header, SaysWhatBecomesOfTheImages) {
  const TempDir dir;
  const std::string shards = make_pictures(dir, "32");
  const auto header = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train", shards, "--fast-dev-run", "--batch-size", "2"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words).err;
  };
  EXPECT_THAT(header({"--model", "lenet"}),
              HasSubstr("28x28x1 images (stored 32x32x3: made grey), bf16"));
  EXPECT_THAT(header({"--model", "lenet", "--size", "96", "--channels", "3"}),
              HasSubstr("96x96x3 images (stored 32x32x3: enlarged 3.0 times), bf16"));
  EXPECT_THAT(header({"--model", "lenet", "--size", "32", "--channels", "3"}),
              HasSubstr("32x32x3 images, bf16"));
}

TEST(Bench, NamesTheSizeAndMeasuresSmallImagesAsTheyAreStored) {
  const TempDir dir;
  const std::string shards = make_pictures(dir, "24");
  const ProcessResult stored = millrace({"bench", shards, "--seconds", "0.2"});
  EXPECT_EQ(stored.status, 0) << stored.err;
  EXPECT_THAT(stored.out, HasSubstr("(decode to 24x24x3, stored 24x24x3)"));
  const ProcessResult large = millrace({"bench", shards, "--seconds", "0.2", "--size", "48"});
  EXPECT_THAT(large.out, HasSubstr("(decode to 48x48x3, stored 24x24x3)"));
  const ProcessResult json = millrace({"bench", shards, "--seconds", "0.2", "--json"});
  EXPECT_EQ(json_lines(json.out).at(0)["image"], nlohmann::json({24, 24, 3}));
  const ProcessResult read = millrace({"bench", shards, "--seconds", "0.2", "--stage", "read"});
  EXPECT_THAT(read.out, HasSubstr("(read)"));
}

TEST(Init, APyTorchFileIsRecognised) {
  const TempDir dir;
  write_file(dir / "zip.safetensors", std::string("PK\x03\x04") + std::string(100, 'x'));
  write_file(dir / "old.pth", std::string("\x80\x02") + std::string(100, 'x'));
  for (const std::string& path : {dir / "zip.safetensors", dir / "old.pth",
                                  std::string("https://host/resnet18.pth?token=1")}) {
    const ProcessResult result =
        millrace({"train", "--fake-data", "8", "--init", path}, {.folder = dir.path().string()});
    EXPECT_EQ(result.status, 2);
    EXPECT_THAT(result.err, AllOf(HasSubstr("is a PyTorch file"), HasSubstr("save_file"),
                                  Not(HasSubstr("token"))));
  }
  EXPECT_EQ(list_dir(dir.path().string()).size(), 2U);
}

TEST(Plural, OneIsOne) {
  const TempDir dir;
  const std::string shards = make_set(dir, 1, 4);
  const ProcessResult result = millrace({"train", dir / "set-000000.tar", "--model", "lenet",
                                         "--channels", "3", "--batch-size", "1", "--fast-dev-run"});
  EXPECT_THAT(result.err, HasSubstr("1 shard, 1 device x batch size 1 = 1 sample per step"));
  EXPECT_THAT(millrace({"stats", dir / "set-000000.tar"}).out,
              HasSubstr("1 sample, 1 image, 1 class"));
}

class Toml : public ::testing::Test {
 protected:
  ProcessResult read(const std::string& text, const std::vector<std::string>& more = {}) const {
    write_file(dir_ / "c.toml", text);
    std::vector<std::string> words = {"train", "x.tar", "--config", dir_ / "c.toml"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }
  void expect_refused(const std::string& text, const std::string& says) const {
    const ProcessResult result = read(text);
    EXPECT_EQ(result.status, 2) << says << ": " << result.err;
    EXPECT_THAT(result.err, HasSubstr(says));
    EXPECT_LT(result.err.size(), 600U);
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }

  TempDir dir_;
};

TEST_F(Toml, ErrorsNameFileAndLine) {
  expect_refused("model = 'lenet'\n\nlr = 'fast'\n",
                 "c.toml:3: --optimizer.lr: 'fast' is not a number");
  expect_refused("\nmodel = lenet\n", "c.toml:2: words need quotes in TOML: \"lenet\"");
  expect_refused("# one\ncolour = true\n", "c.toml:2: unknown option --colour");
  expect_refused("epoch = 3\n", "c.toml:1: unknown option --epoch; did you mean --epochs?");
  expect_refused(
      "lr = 0.1\nlr = 0.2\n",
      "c.toml:2: Error while parsing key-value pair: cannot redefine existing floating-point 'lr'");
  expect_refused("[train]\nlr = 0.1\n", "c.toml:2: unknown option --train.lr");
  expect_refused("model = \"lenet\n", "c.toml:1: Error while parsing string");
  expect_refused("milestones = [1, 2\n",
                 "c.toml:1: Error while parsing array: encountered end-of-file");
  expect_refused("optimizer = {momentum = {}}\n", "c.toml:1: optimizer.momentum is an empty table");
  expect_refused("augment = [{p = 0.5}]\n", "c.toml:1: a table here needs a name");
  expect_refused("lr = 1979-05-27\n", "c.toml:1: no option takes a date or a time");
  expect_refused("[optimizer]\nname = 'sgd'\nmomentun = 0.8\n",
                 "sgd has no 'momentun'; did you mean momentum?");
  expect_refused("nesterov = 'maybe'\n", "c.toml:1: --optimizer.nesterov is a flag: true or false");
  expect_refused("just words\n",
                 "c.toml:1: Error while parsing key-value pair: expected '=', saw 'w'");
  expect_refused("epochs =\n", "c.toml:1: Error while parsing key-value pair: expected value");
  expect_refused("config = \"d.toml\"\n", "c.toml:1: --config is for the command line only");
  expect_refused(std::string("lr = 0.1\nmodel = 'a\0b'\n", 23),
                 "c.toml:2: Error while parsing literal string: control characters");
  expect_refused("model = '" + std::string(100'000, 'x') + "'\n",
                 "c.toml:1: --model: this is too long");
}

TEST_F(Toml, BombsAreRefusedAtOnce) {
  expect_refused("lr = " + std::string(200'000, '[') + "\n",
                 "c.toml:1: Error while parsing value: exceeded maximum nested value depth");
  expect_refused(std::string(200'000, '['), "c.toml:1: Error while parsing key");
  expect_refused("lr = " + std::string(200'000, '{'), "c.toml:1: Error while parsing inline table");
  expect_refused(std::string(3'000'000, '#'), "over 1 MiB");
  const ProcessResult folder = millrace({"train", "x.tar", "--config", dir_.path().string()});
  EXPECT_EQ(folder.status, 2);
  EXPECT_THAT(folder.err, HasSubstr("is a folder without a run's config.json"));
  const ProcessResult endless = millrace({"train", "x.tar", "--config", "/dev/zero"});
  EXPECT_EQ(endless.status, 2);
  EXPECT_THAT(endless.err, HasSubstr("over 1 MiB"));
}

TEST_F(Toml, IsReadAsTomlIs) {
  const std::string shards = make_set(dir_, 16, 8);
  write_file(dir_ / "c.toml",
             "# a comment\n"
             "\"model\" = 'lenet'   # another\n"
             "learning_rate = 1_0.0e-3\n"
             "max-epochs = 2\n"
             "channels = 3\n"
             "classes = 10\n"
             "milestones = [\n  1,  # first\n  2,\n]\n"
             "schedule = \"MultiStepLR\"\r\n"
             "nesterov = true\n"
             "log-steps = 1\n");
  const ProcessResult result = millrace({"train", shards, "--config", dir_ / "c.toml", "--run-dir",
                                         "none", "--json", "--epochs", "1"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err,
              AllOf(HasSubstr("lenet: "), HasSubstr("lr 0.01 multi-step"), HasSubstr("1 epoch")));
}

TEST_F(Toml, ATableIsACall) {
  const std::string shards = make_set(dir_, 16, 8);
  const auto options = [&](const std::string& text) {
    write_file(dir_ / "c.toml", "model = 'lenet'\nchannels = 3\nclasses = 10\nsize = 16\n" + text);
    const std::string run = dir_ / ("run" + std::to_string(text.size()));
    const ProcessResult result =
        millrace({"train", shards, "--config", dir_ / "c.toml", "--epochs", "1", "--run-dir", run});
    EXPECT_EQ(result.status, 0) << result.err;
    auto all = nlohmann::json::parse(read_file(run + "/config.json")).at("options");
    for (const char* own : {"config", "run-dir"}) all.erase(own);
    return all;
  };
  const auto calls = options(
      "optimizer = \"sgd(0.01, momentum=0.5, groups=[group(norms-biases, weight_decay=0)])\"\n"
      "schedule = \"cosine(warmup=1ep)\"\naugment = \"hflip(0.25), erase\"\n");
  EXPECT_EQ(
      options("augment = [{ name = 'hflip', p = 0.25 }, { name = 'erase' }]\n"
              "[schedule]\nname = 'cosine'\nwarmup = '1ep'\n"
              "[optimizer]\nname = 'sgd'\nlr = 0.01\nmomentum = 0.5\n"
              "groups = [{ name = 'group', parameters = 'norms-biases', weight_decay = 0 }]\n"),
      calls);
  EXPECT_EQ(
      options("optimizer.lr = 0.01\noptimizer.momentum = 0.5\nschedule = \"cosine(warmup=1ep)\"\n"
              "augment = \"hflip(0.25), erase\"\n")
          .at("schedule"),
      calls.at("schedule"));
}

}  // namespace
}  // namespace millrace::testing
