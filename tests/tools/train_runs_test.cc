// A run's folder and its checkpoints: who may write there, what is left after a fault, a kill or a
// deletion, and what can be continued.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include "io/base/hash.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class TrainRuns : public ::testing::Test {
 protected:
  TrainRuns() : shards_(make_set(dir_, 150, 50)) {}

  /// A short run's options, except those in `more`.
  std::vector<std::string> words(const std::vector<std::string>& more) const {
    const std::vector<std::pair<std::string, std::string>> defaults = {
        {"--train", shards_},    {"--model", "lenet"}, {"--channels", "3"}, {"--size", "16"},
        {"--optimizer", "adam"}, {"--lr", "0.002"},    {"--classes", "10"}, {"--precision", "fp32"},
        {"--batch-size", "8"},   {"--log-steps", "1"}, {"--shuffle", "20"}};
    std::vector<std::string> words = {"train", "--json"};
    for (const auto& [name, value] : defaults)
      if (std::ranges::find(more, name) == more.end()) words.insert(words.end(), {name, value});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  ProcessResult train(const std::vector<std::string>& more,
                      const ProcessOptions& options = {}) const {
    return millrace(words(more), options);
  }
  void train_whole(const std::string& run_dir, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = more;
    words.insert(words.end(), {"--run-dir", run_dir});
    const ProcessResult result = train(words);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  static std::vector<double> losses(const std::string& out) {
    std::vector<double> losses;
    for (const auto& event : json_lines(out))
      if (event["event"] == "step") losses.push_back(event["loss"]);
    return losses;
  }

  TempDir dir_;
  std::string shards_;
};

TEST_F(TrainRuns, ALaunchersEnvironmentIsRefusedByName) {
  const std::vector<std::vector<std::string>> commands = {
      words({"--run-dir", dir_ / "run"}), {"index", shards_, "--out", dir_ / "run"}};
  for (const auto& [name, value] :
       std::vector<std::pair<std::string, std::string>>{{"WORLD_SIZE", "2"},
                                                        {"RANK", "1"},
                                                        {"OMPI_COMM_WORLD_SIZE", "4"},
                                                        {"PMI_SIZE", "2"},
                                                        {"SLURM_STEP_NUM_TASKS", "8"}}) {
    for (const auto& command : commands) {
      const ProcessResult result = millrace(command, {.environment = {{name, value}}});
      EXPECT_EQ(result.status, 2) << name << " " << command[0];
      EXPECT_THAT(result.err, HasSubstr(name + "=" + value)) << command[0];
    }
  }
  EXPECT_FALSE(fs::exists(dir_ / "run"));
  const ProcessResult alone = train({"--run-dir", "none", "--limit-train-batches", "1"},
                                    {.environment = {{"WORLD_SIZE", "1"},
                                                     {"RANK", "0"},
                                                     {"SLURM_NTASKS", "8"},
                                                     {"SLURM_STEP_NUM_TASKS", "1"}}});
  EXPECT_EQ(alone.status, 0) << alone.err;
}

/// Holds a file's lock, as another process would.
class HeldLock {
 public:
  explicit HeldLock(const std::string& path)
      : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    EXPECT_EQ(0, ::flock(fd_, LOCK_EX | LOCK_NB));
  }
  ~HeldLock() { ::close(fd_); }
  HeldLock(const HeldLock&) = delete;
  HeldLock& operator=(const HeldLock&) = delete;

 private:
  int fd_;
};

TEST_F(TrainRuns, ASecondRunInAFolderIsRefused) {
  train_whole(dir_ / "run");
  {
    const HeldLock first(dir_ / "run/.lock");
    for (const char* how : {"--resume=auto", "--force"}) {
      const ProcessResult second = train({"--run-dir", dir_ / "run", how, "--epochs", "2"});
      EXPECT_EQ(second.status, 2);
      EXPECT_THAT(second.err, HasSubstr("another run writes to " + (dir_ / "run")));
    }
  }
  EXPECT_EQ(train({"--run-dir", dir_ / "run", "--resume", "auto", "--epochs", "2"}).status, 0);
}

TEST_F(TrainRuns, TwoReshardsOfOnePatternAreOneTooMany) {
  fs::create_directory(dir_ / "new");
  const std::vector<std::string> reshard = {"reshard", shards_, dir_ / "new/a-%06d.tar"};
  {
    const HeldLock first(dir_ / "new/.a-%06d.create.json");
    const ProcessResult second = millrace(reshard);
    EXPECT_EQ(second.status, 1);
    EXPECT_THAT(second.err, HasSubstr("another process is writing this set"));
  }
  EXPECT_EQ(millrace(reshard).status, 0);
  EXPECT_THAT(list_dir(dir_ / "new"),
              ::testing::ElementsAre("a-000000.tar", "a-000000.tar.index.json", "a-classes.txt",
                                     "a-manifest.json"));
}

TEST_F(TrainRuns, AFolderThatIsMovedAwayFailsTheRun) {
  std::jthread mover([this](const std::stop_token& stop) {
    while (!stop.stop_requested() && !fs::exists(dir_ / "run/checkpoints/last"))
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::error_code ignored;
    fs::rename(dir_ / "run", dir_ / "moved", ignored);
  });
  const ProcessResult result = train({"--run-dir", dir_ / "run", "--epochs", "100000"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, AllOf(HasSubstr("deleted or moved"), HasSubstr(dir_ / "run")));
}

TEST_F(TrainRuns, ForceAndResumeContradictEachOther) {
  const ProcessResult result = train({"--run-dir", dir_ / "run", "--force", "--resume", "auto"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr("--force"), HasSubstr("--resume")));
}

TEST_F(TrainRuns, TimesBetweenCheckpointsFitAClock) {
  const ProcessResult none = train({"--run-dir", "none", "--save-every-minutes", "0.0001"});
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("--save-every-minutes 0.0001 is less than a second"));
  train_whole(dir_ / "run", {"--save-every-minutes", "1e30", "--limit-train-batches", "3",
                             "--epochs", "1", "--trace", dir_ / "t.json"});
  const std::string trace = read_file(dir_ / "t.json");
  std::size_t saved = 0;
  const std::string last = "/checkpoints/last\"";
  for (std::size_t at = 0; (at = trace.find(last, at)) != trace.npos; ++at) ++saved;
  EXPECT_EQ(1U, saved) << "none after a step";
}

TEST_F(TrainRuns, ACheckpointElsewhereDoesNotReplaceAnotherRun) {
  const std::vector<std::string> few = {"--limit-train-batches", "2", "--epochs", "1"};
  train_whole(dir_ / "a", few);
  train_whole(dir_ / "b", few);
  const std::string last = dir_ / "b/checkpoints/last/model.safetensors";
  const std::string before = read_file(last);
  const auto into = [&](const std::string& folder) {
    return train({"--run-dir", dir_ / folder, "--resume", dir_ / "a", "--limit-train-batches", "2",
                  "--epochs", "2"});
  };
  const ProcessResult refused = into("b");
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr(dir_ / "b"), HasSubstr("holds another run than")));
  EXPECT_EQ(before, read_file(last));
  EXPECT_EQ(into("c").status, 0);
  EXPECT_EQ(into("c").status, 0) << "it is the same run";
}

TEST_F(TrainRuns, ARunFolderIsTakenWhereACheckpointIs) {
  train_whole(dir_ / "run", {"--val", shards_, "--epochs", "2"});
  const auto eval = [&](const std::string& checkpoint) {
    const ProcessResult result =
        millrace({"eval", shards_, "--checkpoint", checkpoint, "--json", "--precision", "fp32"});
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out).at(0)["val_loss"].get<double>();
  };
  EXPECT_EQ(eval(dir_ / "run"), eval(dir_ / "run/checkpoints/best"));
  const ProcessResult predicted = millrace({"predict", shards_, "--checkpoint", dir_ / "run"});
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  const ProcessResult resumed =
      train({"--resume", dir_ / "run", "--run-dir", dir_ / "second", "--epochs", "3"});
  EXPECT_EQ(resumed.status, 0);
  EXPECT_THAT(resumed.err, HasSubstr("Resumed from " + (dir_ / "run/checkpoints/last")));
  const ProcessResult begun = train({"--init", dir_ / "run", "--run-dir", "none"});
  EXPECT_EQ(begun.status, 0) << begun.err;
  EXPECT_LT(losses(begun.out).front(), 2.1) << "2.3 from scratch";
}

TEST_F(TrainRuns, AFaultOfTheInputKeepsTheStepsBeforeIt) {
  // In order, so that whole blocks of samples come before the fault.
  const std::vector<std::string> order = {"--shuffle", "0", "--workers", "1",
                                          "--devices", "2", "--no-scan"};
  auto undamaged = order;
  undamaged.insert(undamaged.end(), {"--run-dir", "none"});
  const auto whole = losses(train(undamaged).out);
  for (const char* shard : {"set-000001.tar", "set-000002.tar"}) {
    const std::string bytes = read_file(dir_ / shard);
    write_file(dir_ / shard, bytes.substr(0, 3 * bytes.size() / 4));
    auto words = order;
    words.insert(words.end(), {"--run-dir", dir_ / ("run-" + std::string(shard))});
    const ProcessResult failed = train(words);
    EXPECT_EQ(failed.status, 1);
    EXPECT_THAT(failed.err,
                AllOf(HasSubstr(shard), HasSubstr("checkpoints/last holds the state up to there")));
    write_file(dir_ / shard, bytes);
    words.insert(words.end(), {"--resume", "auto"});
    const ProcessResult resumed = train(words);
    ASSERT_EQ(resumed.status, 0) << resumed.err;
    auto pieced = losses(failed.out);
    EXPECT_GT(pieced.size(), 0U);
    const auto rest = losses(resumed.out);
    pieced.insert(pieced.end(), rest.begin(), rest.end());
    EXPECT_EQ(pieced, whole);
  }
}

TEST_F(TrainRuns, SkippedSamplesAreCountedAndAnEpochOfNoneFails) {
  const std::string shard = read_file(dir_ / "set-000001.tar");
  write_file(dir_ / "set-000001.tar", shard.substr(0, shard.size() / 2));
  const ProcessResult skipped = train({"--run-dir", dir_ / "run", "--on-fault", "skip"});
  ASSERT_EQ(skipped.status, 0) << skipped.err;
  const auto events = json_lines(skipped.out);
  EXPECT_GE(events[events.size() - 2]["skipped"].get<int>(), 1);
  EXPECT_THAT(skipped.err, HasSubstr(", Skipped="));
  EXPECT_THAT(skipped.err, HasSubstr("warning: skipped the rest of a shard"));
  fs::remove(dir_ / "set-classes.txt");
  const ProcessResult counted =
      train({"--run-dir", "none", "--on-fault", "skip", "--classes", "0"});
  EXPECT_THAT(counted.err, AllOf(HasSubstr("classes, counted"),
                                 HasSubstr("warning: skipped the rest of a shard")))
      << "counting the labels says nothing, and keeps nothing from being said";
  EXPECT_THAT(read_file(dir_ / "run/metrics.csv"), HasSubstr(",skipped,"));
  for (const char* name : {"set-000000.tar", "set-000001.tar", "set-000002.tar"})
    write_file(dir_ / name, shard.substr(0, 600));
  const ProcessResult none = train({"--run-dir", "none", "--on-fault", "skip"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("has no sample"));
}

TEST_F(TrainRuns, APassThatEndsEarlyCountsWhatItsOwnBatchesSkipped) {
  for (const char* name : {"set-000000.tar", "set-000001.tar", "set-000002.tar"}) {
    std::string shard = read_file(dir_ / name);
    int number = 0;
    for (auto at = shard.find("IHDR"); at != shard.npos; at = shard.find("IHDR", at + 1))
      if (number++ % 3 == 0) shard[at + 6] = '\x7f';  // a width that its checksum contradicts
    write_file(dir_ / name, shard);
  }
  for (const char* prefetch : {"1", "40"}) {
    const ProcessResult cut =
        train({"--run-dir", "none", "--on-fault", "skip", "--shuffle", "0", "--workers", "1",
               "--no-scan", "--no-autotune", "--prefetch", prefetch, "--limit-train-batches", "2"});
    ASSERT_EQ(cut.status, 0) << cut.err;
    const auto events = json_lines(cut.out);
    EXPECT_EQ(events[events.size() - 2]["skipped"], 6) << "of 16 samples";
  }
}

TEST_F(TrainRuns, ShardsThatAreTrainedAndEvaluatedOnAreWarnedOf) {
  const auto with_val = [&](const std::string& val) {
    return train({"--run-dir", "none", "--val", val, "--limit-train-batches", "1"}).err;
  };
  EXPECT_THAT(with_val(dir_ / "set-{000001..000002}.tar"),
              HasSubstr("warning: training and --val have 2 shards in common"));
  fs::copy(dir_ / "set-000001.tar", dir_ / "val-000000.tar");
  EXPECT_THAT(with_val(dir_ / "val-000000.tar"), Not(HasSubstr("in common")));
}

TEST_F(TrainRuns, MaxTimeSaysThatItEndedTheRun) {
  const ProcessResult result =
      train({"--run-dir", "none", "--max-time", "1s", "--epochs", "100000"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, HasSubstr("Stopped by --max-time after "));
  EXPECT_EQ(json_lines(result.out).back()["stopped_by"], "max-time");
}

TEST_F(TrainRuns, ADryRunChecksTheFolderAndCountsNoLabels) {
  train_whole(dir_ / "run");
  const ProcessResult refused = train({"--fast-dev-run", "--run-dir", dir_ / "run"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("holds a run"));
  for (const auto& entry : fs::directory_iterator(dir_.path()))
    if (entry.path().filename().string().ends_with("classes.txt")) fs::remove(entry.path());
  const ProcessResult dry =
      millrace({"train", "--train", shards_, "--model", "lenet", "--channels", "3", "--size", "16",
                "--fast-dev-run", "--schedule", "one-cycle"});
  EXPECT_EQ(dry.status, 0) << dry.err;
  EXPECT_THAT(dry.err, AllOf(HasSubstr("1000 outputs"), Not(HasSubstr("counted in the labels")),
                             Not(HasSubstr("steps per epoch"))));
}

TEST_F(TrainRuns, ResumeSeesThatShardsHoldSomethingElse) {
  train_whole(dir_ / "run");
  fs::rename(dir_ / "set-000000.tar", dir_ / "set-keep");
  fs::rename(dir_ / "set-000001.tar", dir_ / "set-000000.tar");
  fs::rename(dir_ / "set-keep", dir_ / "set-000001.tar");
  const std::vector<std::string> resume = {"--run-dir", dir_ / "run", "--resume",
                                           "auto",      "--epochs",   "2"};
  const ProcessResult refused = train(resume);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("shard set-000000.tar: "), HasSubstr(" saved, "),
                                 HasSubstr("--allow-changed-data")));
  auto accepted = resume;
  accepted.push_back("--allow-changed-data");
  EXPECT_EQ(train(accepted).status, 0);
}

TEST_F(TrainRuns, ABestEpochOfOtherValidationSamplesIsNotReplaced) {
  train_whole(dir_ / "run", {"--epochs", "1", "--val", shards_, "--val-take-samples", "5"});
  const std::vector<std::string> resume = {"--run-dir", dir_ / "run", "--resume", "auto",
                                           "--epochs",  "2",          "--val",    shards_};
  const ProcessResult refused = train(resume);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("samples: 5 from 0 saved, none given"));
}

TEST_F(TrainRuns, ResumeWithOtherDevicesOrBatchesSaysBothValues) {
  train_whole(dir_ / "run");
  const ProcessResult result =
      train({"--run-dir", dir_ / "run", "--resume", "auto", "--epochs", "2", "--devices", "2"});
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("devices: 1 saved, 2 given"),
                                HasSubstr("global batch: 8 saved, 16 given")));
}

/// Writes `text` to a checkpoint's state.json, and the matching hash to its manifest.
void replace_state(const std::string& checkpoint, const std::string& text) {
  write_file(checkpoint + "/state.json", text);
  auto manifest = nlohmann::json::parse(read_file(checkpoint + "/manifest.json"));
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  manifest["files"]["state.json"] = {{"bytes", text.size()}, {"sha256", hash.hex()}};
  write_file(checkpoint + "/manifest.json", manifest.dump());
}

TEST_F(TrainRuns, ACheckpointsClaimsAreCheckedBeforeMemoryIsTaken) {
  train_whole(dir_ / "run");
  const std::string last = dir_ / "run/checkpoints/last";
  const auto sound = nlohmann::json::parse(read_file(last + "/state.json"));
  const auto claims = [&](const std::string& path, const nlohmann::json& value) {
    auto state = sound;
    state[nlohmann::json::json_pointer(path)] = value;
    replace_state(last, state.dump());
  };
  const auto eval = [&] {  // 3 GB of address space
    const ProcessResult result = run_process(
        {"/bin/sh", "-c", "ulimit -v 3000000; exec \"$0\" \"$@\"", MILLRACE_PROGRAM, "eval",
         shards_, "--checkpoint", last, "--threads", "1", "--limit-batches", "1"});
    EXPECT_TRUE(result.status == 1 || result.status == 2) << result.status << result.err;
    return result.err;
  };
  claims("/options/classes", 16'777'216);
  EXPECT_THAT(eval(), HasSubstr("(10, 84) in the file and (16777216, 84) in the model"));
  claims("/options/classes", std::uint64_t{1} << 63);
  EXPECT_THAT(eval(), HasSubstr("classes"));
  claims("/options/size", 1'000'000);
  EXPECT_THAT(eval(), HasSubstr("size"));
  claims("/options/channels", -3);
  EXPECT_THAT(eval(), HasSubstr("channels"));
  claims("/options/std", {0.5, 0.5});
  EXPECT_THAT(eval(), HasSubstr("std"));
  claims("/epoch", std::uint64_t{1} << 63);
  EXPECT_THAT(eval(), AllOf(HasSubstr("state.json: epoch"), HasSubstr(last)));
  const ProcessResult resumed = train({"--resume", last, "--run-dir", "none", "--epochs", "2"});
  EXPECT_EQ(resumed.status, 1);
  EXPECT_THAT(resumed.err, HasSubstr("state.json: epoch"));
}

TEST_F(TrainRuns, ARefusedResumeHasTheStatusOfItsReason) {
  train_whole(dir_ / "run");
  const std::string last = dir_ / "run/checkpoints/last";
  struct Refusal {
    std::vector<std::string> words;
    int status;
    std::string said;
  };
  const auto expect = [&](const Refusal& refusal) {
    std::vector<std::string> words = {"--epochs", "2"};
    words.insert(words.end(), refusal.words.begin(), refusal.words.end());
    const ProcessResult result = train(words);
    EXPECT_EQ(result.status, refusal.status) << result.err;
    EXPECT_THAT(result.err, HasSubstr(refusal.said));
  };
  const std::vector<std::string> here = {"--run-dir", dir_ / "run", "--resume", "auto"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.end(), here.begin(), here.end());
    return more;
  };
  expect({with({"--train", dir_ / "set-000000.tar"}), 2, "is in one list only"});
  expect({{"--run-dir", "none", "--resume", dir_ / "nowhere"}, 2, "no checkpoint at"});
  const std::string weights = read_file(last + "/model.safetensors");
  write_file(last + "/model.safetensors", weights.substr(0, weights.size() / 2));
  expect({{"--run-dir", "none", "--resume", last}, 1, "model.safetensors"});
  for (const auto& one : fs::directory_iterator(dir_ / "run/checkpoints"))
    if (one.is_directory()) write_file(one.path().string() + "/manifest.json", "{}");
  expect({{"--run-dir", "none", "--resume", last}, 1, "manifest"});
  expect({here, 2, "no run can be continued from what is in"});
}

TEST_F(TrainRuns, KilledAtAnyRenameTheResumedRunEndsWithLast) {
  const auto run = [&](const std::string& folder, const std::vector<std::string>& more,
                       const ProcessOptions& options = {}) {
    auto all = words({"--run-dir", folder, "--limit-train-batches", "1", "--val", shards_,
                      "--limit-val-batches", "1"});
    all.insert(all.end(), more.begin(), more.end());
    return millrace(all, options);
  };
  ASSERT_EQ(run(dir_ / "whole", {}).status, 0);
  const std::string weights = read_file(dir_ / "whole/checkpoints/last/model.safetensors");
  int status = 137;
  int kill = 1;
  for (; status == 137 && kill < 60; ++kill) {
    const std::string folder = dir_ / ("run-" + std::to_string(kill));
    status = run(folder, {},
                 {.environment = {{"LD_PRELOAD", MILLRACE_FAULTY_DISK},
                                  {"MILLRACE_TEST_DISK", "rename:" + std::to_string(kill)}}})
                 .status;
    const ProcessResult resumed = run(folder, {"--resume", "auto"});
    ASSERT_EQ(resumed.status, 0) << kill << resumed.err;
    EXPECT_EQ(weights, read_file(folder + "/checkpoints/last/model.safetensors")) << kill;
    EXPECT_THAT(list_dir(folder + "/checkpoints"), ::testing::ElementsAre("best", "last")) << kill;
  }
  EXPECT_EQ(status, 0);
  EXPECT_GT(kill, 8);
}

}  // namespace
}  // namespace millrace::testing
