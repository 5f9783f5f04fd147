// Runs whose folder is in an object store: the same files and weights as on disk, checkpoints that
// are whole, one run at a time, and faults that name the object.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <future>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/base/error.h"
#include "tests/support/memory_store.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fakes.h"
#include "trainer/checkpoint.h"
#include "trainer/detail/store/checkpoint_place.h"
#include "trainer/fit.h"
#include "trainer/run_lock.h"

namespace millrace::trainer {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LinearRun;
using testing::MemoryStore;
using ::testing::Not;
using ::testing::Property;
using ::testing::ThrowsMessage;

constexpr const char* kRun = "mem://b/run";
constexpr const char* kLast = "mem://b/run/checkpoints/last";

TrainOptions options_at(const std::string& folder, MemoryStore& store) {
  return {.epochs = 2,
          .precision = nn::Precision::kFloat32,
          .seed = 5,
          .optimizer = {.rule = Sgd{.lr = 0.05, .momentum = 0.9F}},
          .log_steps = 3,
          .run_folder = folder,
          .config_json = "{}",
          .opener = store.opener()};
}

/// A checkpoint's files by their names, as its manifest lists them.
std::map<std::string, std::string> stored_files_of(const MemoryStore& store,
                                                   const std::string& path) {
  const auto objects = store.objects();
  const auto manifest = nlohmann::json::parse(objects.at(path + "/manifest.json"));
  std::map<std::string, std::string> files;
  for (const auto& [name, entry] : manifest.at("files").items())
    files[name] = objects.at(path + "/" + entry.at("object").get<std::string>());
  return files;
}

std::vector<std::string> names_below(const MemoryStore& store, const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& [url, content] : store.objects())
    if (url.starts_with(folder + "/")) names.push_back(url.substr(folder.size() + 1));
  return names;
}

std::ptrdiff_t lines_in(const std::string& text) {
  return std::count(text.begin(), text.end(), '\n');
}

TEST(StoreRun, LeavesTheFilesAndWeightsOfARunOnDisk) {
  const testing::TempDir folder;
  MemoryStore store;
  LinearRun on_disk({.world = 2});
  on_disk.run(options_at(folder / "run", store));
  LinearRun stored({.world = 2});
  const FitResult result = stored.run(options_at(std::string(kRun) + "/", store));
  EXPECT_EQ(result.last_checkpoint, kLast);
  EXPECT_EQ(on_disk.recorder.losses, stored.recorder.losses);
  EXPECT_THAT(stored.recorder.checkpoints, Contains(kLast));
  EXPECT_EQ(on_disk.recorder.checkpoints.size(), stored.recorder.checkpoints.size());
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "state.json"})
    EXPECT_EQ(stored_files_of(store, kLast)[name],
              testing::read_file(folder / "run/checkpoints/last" + "/" + name))
        << name;
  const auto objects = store.objects();
  for (const std::string name : {"metrics.jsonl", "metrics.csv", "rank-0.log", "rank-1.log"})
    EXPECT_EQ(lines_in(objects.at(std::string(kRun) + "/" + name)),
              lines_in(testing::read_file(folder / ("run/" + name))))
        << name;
  EXPECT_EQ(objects.at(std::string(kRun) + "/config.json"), "{}");
  EXPECT_THAT(objects.at(std::string(kRun) + "/report.txt"), HasSubstr("ForwardTime"));
  EXPECT_THAT(names_below(store, kRun), Contains(::testing::StartsWith("events.out.tfevents.")));
  EXPECT_THAT(names_below(store, kRun), Not(Contains(".lock")));
}

TEST(StoreRun, IsResumedFromWhereItWasStopped) {
  MemoryStore whole;
  LinearRun all({});
  all.run(options_at(kRun, whole));
  MemoryStore store;
  LinearRun first({});
  std::stop_source stop;
  int batches = 0;
  first.train.before_batch = [&](int, std::int64_t) {
    if (++batches == 16) stop.request_stop();
  };
  TrainOptions options = options_at(kRun, store);
  options.stop = stop.get_token();
  EXPECT_TRUE(first.run(options).end.interrupted);
  options.stop = {};
  options.resume = "auto";
  LinearRun second({});
  second.run(options);
  EXPECT_EQ(stored_files_of(store, kLast)["model.safetensors"],
            stored_files_of(whole, kLast)["model.safetensors"]);
  EXPECT_LT(second.recorder.losses.size(), all.recorder.losses.size());
  const std::string metrics = store.objects().at(std::string(kRun) + "/metrics.jsonl");
  EXPECT_THAT(metrics, AllOf(HasSubstr("\"epoch\":1"), HasSubstr("\"event\":\"end\"")))
      << "it goes on where the first run's ends";
}

TEST(StoreRun, ThatStartsOverRemovesWhatTheEarlierOneWrote) {
  MemoryStore store;
  TrainOptions options = options_at(kRun, store);
  options.checkpoint.top_k = 1;
  LinearRun({}).run(options);
  const std::string metrics = std::string(kRun) + "/metrics.jsonl";
  const auto lines = lines_in(store.objects().at(metrics));
  store.put(std::string(kRun) + "/notes.txt", "mine");
  options.epochs = 1;
  options.checkpoint.top_k = 0;
  LinearRun({}).run(options);
  EXPECT_LT(lines_in(store.objects().at(metrics)), lines);
  EXPECT_EQ(names_below(store, std::string(kRun) + "/checkpoints").size(), 8U) << "last, best";
  EXPECT_EQ(read_checkpoint_state(kLast, *store.opener()).run,
            read_checkpoint_state(std::string(kRun) + "/checkpoints/best", *store.opener()).run);
  EXPECT_THAT(names_below(store, kRun), Contains("notes.txt"));
}

TEST(StoreRun, KeepsTheBestCheckpointsAndNoObjectsOfOthers) {
  MemoryStore store;
  TrainOptions options = options_at(kRun, store);
  options.epochs = 4;
  options.checkpoint.top_k = 2;
  LinearRun({}).run(options);
  std::map<std::string, int> objects;
  for (const std::string& name : names_below(store, std::string(kRun) + "/checkpoints"))
    ++objects[name.substr(0, name.find('/'))];
  EXPECT_EQ(objects.size(), 4U) << "last, best and two epochs";
  for (const auto& [name, number] : objects) EXPECT_EQ(number, 4) << name;
}

// One too many does not end a run, but on a disk that fills up somebody wants to know.
TEST(StoreRun, SaysWhichCheckpointsCouldNotBeRemoved) {
  MemoryStore store;
  store.before = [](const std::string& what, const std::string& url) {
    if (what == "remove" && url.find("/epoch-") != url.npos)
      throw Error(ErrorCode::kPermissionDenied, "remove refused", {.url = url});
  };
  std::string said;
  TrainOptions options = options_at(kRun, store);
  options.epochs = 4;
  options.optimizer = {.rule = Sgd{.lr = 0.001}};  // each epoch is the best so far
  options.checkpoint.top_k = 1;
  options.log = Log::to_function([&](LogLevel level, const std::string& line) {
    said += level == LogLevel::kWarn ? line : "";
  });
  LinearRun({}).run(options);
  EXPECT_THAT(said,
              HasSubstr("could not be removed: " + std::string(kRun) + "/checkpoints/epoch-"));
  EXPECT_THAT(said, HasSubstr("remove refused"));
}

TEST(CheckpointPlace, SaysWhatADiskDidNotRemove) {
  const testing::TempDir folder;
  MemoryStore store;
  std::vector<std::string> kept;
  const auto opener = store.opener();
  const auto place = detail::open_checkpoint_place(
      folder.path().string(), *opener, {},
      {.saved = [](const std::string&) {},
       .kept = [&](const std::string&, const std::string& why) { kept.push_back(why); }});
  place->remove("none");
  EXPECT_TRUE(kept.empty()) << "what is not there is removed";
  place->remove(std::string(300, 'x'));
  ASSERT_EQ(kept.size(), 1U);
  EXPECT_EQ(kept[0], "File name too long");
}

TEST(CheckpointPlace, TellsHowFarAnUploadIsThatACallWaitsFor) {
  MemoryStore store;
  std::promise<CheckpointStep> told;
  std::once_flag once;
  store.before = [arrived = told.get_future().share()](const std::string& what,
                                                       const std::string& url) {
    if (what == "put" && url.find("/model-") != url.npos)
      EXPECT_EQ(arrived.wait_for(std::chrono::minutes(1)), std::future_status::ready);
  };
  const auto opener = store.opener();
  const auto place =
      detail::open_checkpoint_place("mem://b/c", *opener, {},
                                    {.saved = [](const std::string&) {},
                                     .kept = [](const std::string&, const std::string&) {},
                                     .progress =
                                         [&](const CheckpointStep& step) {
                                           if (step.share > 0)
                                             std::call_once(once, [&] { told.set_value(step); });
                                         }});
  const std::string content(1000, 'x');
  place->save(
      "last",
      {.writers = {{"model.bin",
                    [&](io::ByteSink& sink) { sink.write(std::as_bytes(std::span(content))); }}},
       .tensor_bytes = content.size()});
  place->finish();
  store.before = {};
  EXPECT_EQ(names_below(store, "mem://b/c/last").size(), 2U);
}

/// Lets a given number of the steps of writing to `store` pass, and fails the others.
struct FailsAfter {
  explicit FailsAfter(MemoryStore& where) : store(where) {
    store.before = [this](const std::string& what, const std::string& url) {
      if (what == "get" || what == "list") return;
      if (left-- <= 0) throw Error(ErrorCode::kIo, "the store is down", {.url = url});
    };
  }
  ~FailsAfter() { store.before = {}; }
  FailsAfter(const FailsAfter&) = delete;
  FailsAfter& operator=(const FailsAfter&) = delete;

  MemoryStore& store;
  int left = 0;
};

TEST(StoreCheckpoint, ThatIsInterruptedLeavesTheOldOneOrTheNewOneWhole) {
  const testing::LinearModel model{6, 2};
  MemoryStore store;
  const auto opener = store.opener();
  std::vector<float> values(model.parameters().padded_size());
  const auto save = [&](float value) {
    std::fill(values.begin(), values.end(), value);
    save_checkpoint(
        "mem://b/c", "last", {.model = "linear", .global_step = 7},
        {.model = {{.table = &model.parameters(), .values = std::span(values)}}, .optimizer = {}},
        *opener);
  };
  const auto loaded = [&] {
    std::vector<float> into(values.size());
    load_checkpoint(
        "mem://b/c/last", "linear",
        {.model = {{.table = &model.parameters(), .values = std::span(into)}}, .optimizer = {}},
        *opener);
    return into.front();
  };
  float before = 1;
  save(before);
  for (int steps = 0; steps < 9; ++steps) {
    const float value = static_cast<float>(steps) + 2;
    bool done = true;
    {
      FailsAfter fault(store);
      fault.left = steps;
      try {
        save(value);
      } catch (const Error& error) {
        done = false;
        EXPECT_THAT(error.what(), HasSubstr("mem://b/c/last/"));
      }
    }
    EXPECT_TRUE(loaded() == before || loaded() == value) << steps;
    EXPECT_TRUE(!done || loaded() == value) << steps;
    EXPECT_EQ(find_newest_checkpoint("mem://b/c", {}, *opener).path, "mem://b/c/last") << steps;
    before = loaded();
  }
  save(0);
  EXPECT_EQ(names_below(store, "mem://b/c/last").size(), 4U) << "what was left over is removed";
}

/// A local checkpoint whose values are all `value`.
void save_local(const std::string& folder, float value) {
  const testing::LinearModel model{6, 2};
  std::vector<float> values(model.parameters().padded_size(), value);
  save_checkpoint(
      folder, "last", {.run = "one", .model = "linear", .global_step = 7},
      {.model = {{.table = &model.parameters(), .values = std::span(values)}}, .optimizer = {}});
}

/// A store as an http server is: what is in it cannot be listed or removed.
class Unlisted final : public io::Opener {
 public:
  explicit Unlisted(MemoryStore& store) : inner_(store.opener()) {}
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options) const override {
    return inner_->open(url, options);
  }
  std::unique_ptr<io::ByteSink> open_sink(const std::string& url, const io::FileSinkOptions& how,
                                          const std::stop_token& stop) const override {
    return inner_->open_sink(url, how, stop);
  }

 private:
  std::shared_ptr<const io::Opener> inner_;
};

// As often as it may be interrupted, at every request.
TEST(StoreCheckpoint, ThatIsCopiedIsTheOldOneOrTheNewOneWhole) {
  const testing::TempDir dir;
  const testing::LinearModel model{6, 2};
  for (const bool listed : {true, false}) {
    MemoryStore store;
    const auto opener = listed ? store.opener() : std::make_shared<const Unlisted>(store);
    const auto loaded = [&] {
      std::vector<float> into(model.parameters().padded_size());
      const TrainState state = load_checkpoint(
          "mem://b/c/last", "linear",
          {.model = {{.table = &model.parameters(), .values = std::span(into)}}, .optimizer = {}},
          *opener);
      EXPECT_EQ(state.run, "one");
      return into.front();
    };
    float before = 1;
    save_local(dir / "run", before);
    copy_checkpoint(dir / "run/last", "mem://b/c", "last", *opener);
    for (int steps = 0; steps < 9; ++steps) {
      const float value = static_cast<float>(steps) + 2;
      save_local(dir / "run", value);
      {
        FailsAfter fault(store);
        fault.left = steps;
        try {
          copy_checkpoint(dir / "run/last", "mem://b/c", "last", *opener);
        } catch (const Error& error) {
          EXPECT_THAT(error.what(), HasSubstr("mem://b/c/last/"));
        }
      }
      EXPECT_TRUE(loaded() == before || loaded() == value) << steps;
      before = loaded();
    }
    EXPECT_EQ(before, 10.0F) << "the last ones have steps enough";
    EXPECT_EQ(names_below(store, "mem://b/c/last").size(), listed ? 4U : 7U);
  }
}

TEST(StoreCheckpoint, OfAnEarlierUploadIsReadAndReplaced) {
  const testing::TempDir dir;
  MemoryStore store;
  save_local(dir / "run", 1);
  for (const char* name :
       {"model.safetensors", "optimizer.safetensors", "state.json", "manifest.json"})
    store.put(std::string("mem://b/c/last/") + name,
              testing::read_file(dir / "run/last" + "/" + name));
  EXPECT_EQ(read_checkpoint_state("mem://b/c/last", *store.opener()).global_step, 7);
  copy_checkpoint(dir / "run/last", "mem://b/c", "last", *store.opener());
  EXPECT_EQ(read_checkpoint_state("mem://b/c/last", *store.opener()).global_step, 7);
  EXPECT_THAT(names_below(store, "mem://b/c/last"), Not(Contains("model.safetensors")));
}

TEST(StoreCheckpoint, ThatIsDamagedOnItsDiskIsNotCopied) {
  const testing::TempDir dir;
  MemoryStore store;
  save_local(dir / "run", 1);
  copy_checkpoint(dir / "run/last", "mem://b/c", "last", *store.opener());
  const auto before = store.objects();
  save_local(dir / "run", 2);
  std::string model = testing::read_file(dir / "run/last/model.safetensors");
  model.back() ^= 1;
  testing::write_file(dir / "run/last/model.safetensors", model);
  EXPECT_THROW(copy_checkpoint(dir / "run/last", "mem://b/c", "last", *store.opener()), Error);
  EXPECT_EQ(store.objects(), before);
}

TEST(StoreCheckpoint, WithAnObjectMissingOrCutShortIsNotTheNewest) {
  MemoryStore store;
  LinearRun({}).run(options_at(kRun, store));
  const auto newest = [&] {
    return find_newest_checkpoint(std::string(kRun) + "/checkpoints", {}, *store.opener()).path;
  };
  ASSERT_EQ(newest(), kLast);
  const auto manifest =
      nlohmann::json::parse(store.objects().at(std::string(kLast) + "/manifest.json"));
  const std::string model = std::string(kLast) + "/" +
                            manifest["files"]["model.safetensors"]["object"].get<std::string>();
  store.put(model, "short");
  EXPECT_EQ(newest(), std::string(kRun) + "/checkpoints/best");
  store.remove(model);
  EXPECT_EQ(newest(), std::string(kRun) + "/checkpoints/best");
}

TEST(StoreRun, WhoseUploadFailsFailsWithTheUrl) {
  for (const std::string what : {"/checkpoints/last/model", "/metrics.jsonl"}) {
    MemoryStore store;
    store.before = [&](const std::string& step, const std::string& url) {
      if (step == "put" && url.find(what) != std::string::npos)
        throw Error(ErrorCode::kIo, "the store is full", {.url = url});
    };
    EXPECT_THAT([&] { LinearRun({}).run(options_at(kRun, store)); },
                ThrowsMessage<Error>(AllOf(HasSubstr("the store is full"), HasSubstr(what))));
    EXPECT_THAT(names_below(store, kRun), Not(Contains(".lock")));
  }
}

/// Counts steps, for others to wait for.
struct Steps final : Observer {
  void on_step(const StepEvent& event) override {
    const std::lock_guard lock(mutex);
    step = event.global_step;
    changed.notify_all();
  }
  bool await(std::int64_t number) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, std::chrono::seconds(20), [&] { return step >= number; });
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::int64_t step = 0;
};

TEST(StoreRun, SendsCheckpointsBesideTheNextSteps) {
  MemoryStore store;
  Steps steps;
  std::optional<bool> beside;
  store.before = [&](const std::string& what, const std::string& url) {
    if (what == "put" && url.find("/last/model") != std::string::npos && !beside)
      beside = steps.await(8);
  };
  TrainOptions options = options_at(kRun, store);
  options.checkpoint.every_steps = 5;
  LinearRun({}).run(options, {&steps});
  EXPECT_EQ(beside, true) << "three more steps during the first upload";
}

TEST(StoreRun, InAPlaceThatCannotBeListedIsRefused) {
  MemoryStore store;
  for (const std::string url : {"http://host/run", "ftp://host/run", "file:///tmp/run"})
    EXPECT_THAT([&] { LinearRun({}).run(options_at(url, store)); },
                ::testing::Throws<Error>(Property(&Error::code, ErrorCode::kInvalidArgument)))
        << url;
  EXPECT_TRUE(store.objects().empty());
}

RunLockOptions lock_options(const io::Opener& opener) {
  return {.opener = &opener,
          .beat = std::chrono::milliseconds(20),
          .expiry = std::chrono::milliseconds(300)};
}

TEST(StoreLock, ASecondRunIsRefusedWithTheFirstOnesProcess) {
  MemoryStore store;
  const auto opener = store.opener();
  {
    const RunLock lock(kRun, lock_options(*opener));
    EXPECT_THAT([&] { LinearRun({}).run(options_at(kRun, store)); },
                ThrowsMessage<Error>(HasSubstr("another run writes to mem://b/run (process " +
                                               std::to_string(::getpid()))));
    EXPECT_THAT(names_below(store, kRun), ElementsAre(".lock"));
  }
  EXPECT_TRUE(store.objects().empty());
}

/// The lock's content with other values.
std::string lock_with(MemoryStore& store, const nlohmann::json& changes) {
  const auto opener = store.opener();
  const RunLock lock(kRun, lock_options(*opener));
  auto json = nlohmann::json::parse(store.objects().at("mem://b/run/.lock"));
  json.update(changes);
  return json.dump();
}

TEST(StoreLock, OfAKilledProcessOfThisMachineIsTakenOverAtOnce) {
  MemoryStore store;
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  store.put("mem://b/run/.lock", lock_with(store, {{"process", child}, {"run", "killed"}}));
  const auto opener = store.opener();
  RunLockOptions options = lock_options(*opener);
  options.expiry = std::chrono::hours(1);
  const RunLock lock(kRun, options);
  EXPECT_NO_THROW(lock.check_in_place());
}

TEST(StoreLock, OfAnotherMachineIsTakenOverWithoutASignOfLife) {
  MemoryStore store;
  const auto opener = store.opener();
  for (const std::string& text : {lock_with(store, {{"machine", "another"}}), std::string("{")}) {
    store.put("mem://b/run/.lock", text);
    const RunLock lock(kRun, lock_options(*opener));
    EXPECT_NO_THROW(lock.check_in_place());
  }
}

TEST(StoreLock, OfAnotherMachineThatGivesASignOfLifeIsRefused) {
  MemoryStore store;
  const auto opener = store.opener();
  const std::string other = lock_with(store, {{"machine", "another"}, {"host", "far"}});
  store.put("mem://b/run/.lock", other);
  std::atomic<int> reads{0};
  store.before = [&](const std::string& what, const std::string&) {
    if (what == "get" && ++reads == 3) store.put("mem://b/run/.lock", other + " ");
  };
  EXPECT_THAT([&] { RunLock(kRun, lock_options(*opener)); },
              ThrowsMessage<Error>(AllOf(HasSubstr("another run writes to"), HasSubstr("on far"))));
}

TEST(StoreLock, ThatIsTakenOverFailsTheRunThatHadIt) {
  MemoryStore store;
  const auto opener = store.opener();
  const std::string other = lock_with(store, {{"run", "other"}, {"host", "far"}});
  {
    const RunLock lock(kRun, lock_options(*opener));
    store.put("mem://b/run/.lock", other);
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    EXPECT_THAT(
        [&] {
          while (std::chrono::steady_clock::now() < end) lock.check_in_place();
        },
        ThrowsMessage<Error>(AllOf(HasSubstr("took over the folder"), HasSubstr("on far"))));
  }
  EXPECT_THAT(names_below(store, kRun), ElementsAre(".lock")) << "it is the other's";
}

}  // namespace
}  // namespace millrace::trainer
