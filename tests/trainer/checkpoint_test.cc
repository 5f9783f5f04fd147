#include "trainer/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <limits>
#include <thread>

#include "io/base/error.h"
#include "pipeline/position.h"
#include "tests/support/temp_dir.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

struct SavedModel {
  SavedModel() {
    table.add("fc.bias", {3}, false);
    table.add("fc.weight", {3, 2}, true);
    weights.assign(table.padded_size(), 0.0F);
    momentum = weights;
  }
  void set(float start) {
    for (const Parameter& entry : table.entries()) {
      for (std::size_t i = 0; i < entry.size; ++i) {
        weights[entry.offset + i] = start + static_cast<float>(i);
        momentum[entry.offset + i] = -start;
      }
    }
  }
  CheckpointTensors tensors() {
    return {.model = {{.table = &table, .values = weights}},
            .optimizer = {{.prefix = "momentum_buffer.", .table = &table, .values = momentum}}};
  }

  ParameterTable table;
  std::vector<float> weights;
  std::vector<float> momentum;
};

TrainState state_at(std::int64_t step) {
  return {.model = "linear", .epoch = step / 10, .global_step = step, .best = 0.5, .best_epoch = 1};
}

TEST(Checkpoint, IsLoadedAsItWasSaved) {
  const testing::TempDir folder;
  SavedModel model;
  model.set(2.0F);
  TrainState state = state_at(30);
  const auto position =
      pipeline::Position{.epoch = 3, .slots = 17, .fingerprint = 0xFFFF'FFFF'FFFF'FFF1}.to_json();
  // Of three processes the second one has taken no batch.
  state.position = position;
  state.meters = "[0.1,0.30000000000000004]";
  save_checkpoint(folder / "ckpt", "last", state, model.tensors());
  SavedModel loaded;
  const TrainState found = load_checkpoint(folder / "ckpt/last", "linear", loaded.tensors());
  EXPECT_EQ(model.weights, loaded.weights);
  EXPECT_EQ(model.momentum, loaded.momentum);
  EXPECT_EQ(30, found.global_step);
  EXPECT_EQ(0.5, found.best);
  EXPECT_EQ(state.position, found.position);
  EXPECT_EQ(state.meters, found.meters);
}

TEST(Checkpoint, LeavesOnlyItselfBehind) {
  const testing::TempDir folder;
  SavedModel model;
  for (int i = 0; i < 3; ++i) save_checkpoint(folder.path(), "last", state_at(i), model.tensors());
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder.path())) {
    names.push_back(entry.path().filename());
  }
  EXPECT_THAT(names, ::testing::ElementsAre("last"));
}

TEST(Checkpoint, OfAnotherModelIsRefusedByName) {
  const testing::TempDir folder;
  SavedModel model;
  save_checkpoint(folder.path(), "last", state_at(1), model.tensors());
  try {
    load_checkpoint(folder / "last", "resnet18", model.tensors());
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
    EXPECT_THAT(error.message(), HasSubstr("linear"));
    EXPECT_THAT(error.message(), HasSubstr("resnet18"));
  }
}

TEST(Checkpoint, EveryDamagedByteIsNoticed) {
  const testing::TempDir folder;
  SavedModel model;
  save_checkpoint(folder.path(), "last", state_at(1), model.tensors());
  for (const auto& entry : fs::directory_iterator(folder / "last")) {
    if (entry.path().filename() == "manifest.json") continue;
    const std::string content = testing::read_file(entry.path());
    for (std::size_t at = 0; at < content.size(); at += 13) {
      std::string damaged = content;
      damaged[at] ^= 0x10;
      testing::write_file(entry.path(), damaged);
      EXPECT_THROW(load_checkpoint(folder / "last", "linear", model.tensors()), Error)
          << entry.path() << " at " << at;
    }
    testing::write_file(entry.path(), content);
  }
  EXPECT_NO_THROW(load_checkpoint(folder / "last", "linear", model.tensors()));
}

TEST(Checkpoint, AnIncompleteOneIsPassedOverWithALine) {
  const testing::TempDir folder;
  SavedModel model;
  save_checkpoint(folder.path(), "best", state_at(10), model.tensors());
  save_checkpoint(folder.path(), "last", state_at(20), model.tensors());
  fs::resize_file(folder / "last/optimizer.safetensors", 20);
  fs::create_directories(folder / "epoch-0001");  // never finished
  const Log log = Log::to_file(folder / "log");
  const NewestCheckpoint newest = find_newest_checkpoint(folder.path(), log);
  EXPECT_EQ(folder / "best", newest.path);
  ASSERT_EQ(newest.skipped.size(), 1U);
  EXPECT_THAT(newest.skipped[0].what(), HasSubstr("optimizer.safetensors"));
  EXPECT_THAT(testing::read_file(folder / "log"), HasSubstr("skipped"));
  EXPECT_EQ("", find_newest_checkpoint(folder / "nowhere", log).path);
}

TEST(Checkpoint, TheNewestIsOfTheRunOfLast) {
  const testing::TempDir folder;
  SavedModel model;
  const auto save = [&](const std::string& name, std::int64_t steps, const std::string& run) {
    TrainState state = state_at(steps);
    state.run = run;
    save_checkpoint(folder.path(), name, state, model.tensors());
  };
  save("best", 40, "a");
  save("epoch-0002", 30, "b");
  save("last", 20, "b");
  const Log log = Log::to_file(folder / "log");
  EXPECT_EQ("b", checkpoint_run(folder / "last"));
  EXPECT_EQ("", checkpoint_run(folder / "nowhere"));
  EXPECT_EQ(folder / "epoch-0002", find_newest_checkpoint(folder.path(), log).path);
  EXPECT_THAT(testing::read_file(folder / "log"), HasSubstr("another run"));
  save("best", 40, "");
  EXPECT_EQ(folder / "best", find_newest_checkpoint(folder.path(), log).path) << "no run is named";
}

TEST(Checkpoint, OneSwappedOutIsFoundUnderItsPreviousName) {
  const testing::TempDir folder;
  SavedModel model;
  save_checkpoint(folder.path(), "last", state_at(20), model.tensors());
  fs::rename(folder / "last", folder / "last.previous");
  fs::create_directories(folder / ".last.tmp");
  EXPECT_EQ(20, load_checkpoint(folder / "last", "linear", model.tensors()).global_step);
  EXPECT_EQ(folder / "last.previous", find_newest_checkpoint(folder.path(), Log()).path);
  save_checkpoint(folder.path(), "last", state_at(30), model.tensors());
  EXPECT_EQ(30, load_checkpoint(folder / "last", "linear", model.tensors()).global_step);
  EXPECT_FALSE(fs::exists(folder / "last.previous"));
}

TEST(Checkpoint, NeverHoldsAModelThatIsNotFinite) {
  const testing::TempDir folder;
  SavedModel model;
  save_checkpoint(folder.path(), "last", state_at(20), model.tensors());
  model.weights[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_THROW(save_checkpoint(folder.path(), "last", state_at(30), model.tensors()), Error);
  EXPECT_EQ(20, read_checkpoint_state(folder / "last").global_step);
}

/// While one exists, no file may grow past `bytes`: imitates a full disk.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    const rlimit limit{bytes, before_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    std::signal(SIGXFSZ, handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST(Checkpoint, AWriteThatFailsAnywhereKeepsThePreviousOne) {
  const testing::TempDir folder;
  SavedModel model;
  save_checkpoint(folder.path(), "last", state_at(20), model.tensors());
  for (rlim_t bytes = 0; bytes < 400; bytes += 20) {
    const FileSizeLimit limit(bytes);
    try {
      save_checkpoint(folder.path(), "last", state_at(30), model.tensors());
      ADD_FAILURE() << "saved with files of " << bytes << " bytes";
    } catch (const Error& error) {
      EXPECT_EQ(ErrorCode::kIo, error.code());
      EXPECT_THAT(error.message(), HasSubstr("File too large"));
    }
  }
  EXPECT_EQ(20, load_checkpoint(folder / "last", "linear", model.tensors()).global_step);
}

// Saves step after step, without end.
[[noreturn]] void save_for_ever(const std::string& folder) {
  SavedModel model;
  for (std::int64_t step = 1;; ++step) {
    model.set(static_cast<float>(step));
    save_checkpoint(folder, "last", state_at(step), model.tensors());
  }
}

TEST(Checkpoint, KilledAtAnyInstantOneIsWhole) {
  const testing::TempDir folder;
  SavedModel model;
  save_checkpoint(folder.path(), "last", state_at(0), model.tensors());
  for (int kill = 0; kill < 60; ++kill) {
    const pid_t child = ::fork();
    if (child == 0) save_for_ever(folder.path());
    std::this_thread::sleep_for(std::chrono::microseconds(2000 + 537 * kill));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const TrainState state = load_checkpoint(folder / "last", "linear", model.tensors());
    if (state.global_step > 0) {
      ASSERT_EQ(static_cast<float>(state.global_step), model.weights[0]);
    }
  }
}

TEST(Weights, MismatchNamesTheTensors) {
  const testing::TempDir folder;
  SavedModel model;
  save_weights(folder / "w.safetensors", {{.table = &model.table, .values = model.weights}});
  ParameterTable other;
  other.add("fc.bias", {4}, false);
  other.add("fc.weight", {4, 2}, true);
  std::vector<float> values(other.padded_size());
  try {
    load_weights(folder / "w.safetensors", {{.table = &other, .values = values}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.message(), HasSubstr("fc.bias is (3) in the file and (4) in the model"));
  }
}

// A checkpoint at a url is read through the given opener: its store, its retries, its stop.
TEST(Weights, AreReadThroughTheGivenOpener) {
  const testing::TempDir folder;
  SavedModel model;
  save_weights(folder / "w.safetensors", {{.table = &model.table, .values = model.weights}});
  save_checkpoint(folder.path().string(), "last", {.model = "linear"}, model.tensors());
  const io::UrlOpener opener(
      {.stores = {
           {.scheme = "az", .open = [&](const std::string& url, const io::OpenOptions& options) {
              return io::UrlOpener().open(folder / url.substr(5), options);
            }}}});
  std::vector<float> values(model.weights.size());
  load_weights("az://w.safetensors", {{.table = &model.table, .values = values}}, {}, opener);
  EXPECT_EQ(values, std::vector<float>(model.weights.begin(), model.weights.end()));
  EXPECT_EQ(find_checkpoint("az://last", "best", opener), "az://last");
  EXPECT_EQ(read_checkpoint_state("az://last", opener).model, "linear");
  EXPECT_EQ(load_checkpoint("az://last", "linear", model.tensors(), opener).model, "linear");
  EXPECT_THROW(read_checkpoint_state("az://last"), Error) << "nobody else knows the store";
}

TEST(Weights, AReplacedHeadKeepsItsStart) {
  const testing::TempDir folder;
  ParameterTable from;
  from.add("fc.weight", {3, 2}, true);
  from.add("conv.weight", {2}, true);
  ParameterTable into;
  into.add("fc.weight", {5, 2}, true);
  into.add("conv.weight", {2}, true);
  std::vector<float> source(from.padded_size(), 7.0F);
  std::vector<float> values(into.padded_size(), 1.0F);
  save_weights(folder / "w.safetensors", {{.table = &from, .values = source}});
  const auto kept = load_weights(folder / "w.safetensors", {{.table = &into, .values = values}},
                                 {.replace_head = true});
  EXPECT_THAT(kept.kept, ::testing::ElementsAre("fc.weight"));
  EXPECT_EQ(1.0F, values[0]);
  EXPECT_EQ(7.0F, values[into.find("conv.weight")->offset]);
}

}  // namespace
}  // namespace millrace::trainer
