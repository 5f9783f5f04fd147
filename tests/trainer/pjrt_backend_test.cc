// The backend of compiled programs, on XLA's plugin for the CPU: in the suite of all backends.
// Skipped where the plugin is not installed (tools/bootstrap.sh --accelerators).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/effort.h"
#include "tests/trainer/backend_conformance.h"
#include "tests/trainer/fake_transport.h"
#include "trainer/cluster.h"
#include "trainer/hlo/operations.h"
#include "trainer/hlo/rule_program.h"
#include "trainer/newest_checkpoint.h"
#include "trainer/pjrt/backend.h"

namespace millrace::trainer {
namespace {

#ifdef MILLRACE_CPU_PLUGIN
using device::pjrt::Client;
using ::testing::HasSubstr;

// What takes the time here is XLA's compiling.
const std::vector<std::pair<std::string, std::int64_t>> kQuick = {
    {"xla_backend_optimization_level", 0}};

/// A plugin's devices are started once: by their number.
std::shared_ptr<const Client> client_of(int devices) {
  static std::map<int, std::shared_ptr<const Client>> clients;
  auto& client = clients[devices];
  if (client == nullptr) {
    const device::pjrt::Plugin plugin(MILLRACE_CPU_PLUGIN);
    client =
        std::make_shared<const Client>(plugin, device::pjrt::ClientOptions{.cpu_devices = devices});
  }
  return client;
}

BackendCase with_devices(int devices) {
  return {"Devices" + std::to_string(devices), [devices] {
            // What takes the time here is XLA's compiling.
            return make_pjrt_backend(client_of(devices),
                                     {.flags = {{"xla_backend_optimization_level", 0}}});
          }};
}

/// Each step's program is compiled, which takes a minute of processor time in all: long.
std::vector<BackendCase> cases() {
  if (!testing::is_long()) return {};
  return {with_devices(2), with_devices(8)};
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(BackendConformance);
INSTANTIATE_TEST_SUITE_P(Pjrt, BackendConformance, ::testing::ValuesIn(cases()), backend_case_name);

class PjrtBackend : public ::testing::Test {
 protected:
  static std::unique_ptr<Backend> make(int devices = 2) { return with_devices(devices).make(); }

  const pipeline::Batch batch_ = conformance_batch(1);
};

/// A run begun on a plugin's devices goes on with the CPU's cores, and the other way round.
TEST_F(PjrtBackend, RunsGoOnOnOtherDevices) {
  const testing::TempDir folder;
  LeNetRun cpu(nullptr);
  cpu.fit(folder / "cpu", 2);
  const auto backend = make();
  for (const bool begins_here : {true, false}) {
    const std::string run = folder / (begins_here ? "from" : "to");
    LeNetRun(begins_here ? backend.get() : nullptr).fit(run, 1);
    LeNetRun(begins_here ? nullptr : backend.get()).fit(run, 2, "auto");
    expect_near(weights_of_checkpoint(folder / "cpu/checkpoints/last", cpu.model),
                weights_of_checkpoint(run + "/checkpoints/last", cpu.model), 1e-4, run);
  }
}

/// The same samples in a step, on any number of devices.
TEST_F(PjrtBackend, OneGlobalBatchHasOneCurve) {
  std::vector<std::vector<double>> curves;
  for (const int devices : {1, 2, 4}) {
    const auto backend = make(devices);
    LeNetRun run(backend.get());
    run.train = testing::MemoryFeed(testing::make_samples(48, 784, 4, 1), 8 / devices, devices);
    run.devices = testing::LocalThreads(devices);
    TrainOptions options = LeNetRun::options("", 1);
    options.accumulate = 1;
    testing::Recorder recorder;
    fit({.model = run.model,
         .objective = run.objective,
         .train = run.train,
         .devices = run.devices,
         .backend = backend.get()},
        options, {&recorder});
    ASSERT_EQ(6U, recorder.losses.size());
    curves.push_back(recorder.losses);
  }
  for (const auto& curve : curves)
    for (std::size_t i = 0; i < curve.size(); ++i)
      EXPECT_NEAR(curves[0][i], curve[i], 1e-4 * curves[0][i]) << "step " << i;
}

/// The next run of the same program does not compile it; a damaged file is as good as none.
TEST_F(PjrtBackend, KeepsProgramsForTheNextRun) {
  const testing::TempDir folder;
  const std::string store = folder / "programs";
  const auto outputs = [&](const std::shared_ptr<const Client>& client) {
    const auto backend = make_pjrt_backend(client, {.flags = kQuick, .store = store});
    StepBench bench(*backend, {});
    bench.step({{&batch_}}, StepNumbers{.lr = 0.1F, .step = 1});
    return bench.values();
  };
  const auto first = outputs(client_of(2));
  std::vector<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(store)) files.push_back(file.path());
  ASSERT_EQ(1U, files.size());
  const std::string whole = testing::read_file(files[0]);
  // Another client, as another process has.
  const auto other = std::make_shared<const Client>(device::pjrt::Plugin(MILLRACE_CPU_PLUGIN),
                                                    device::pjrt::ClientOptions{.cpu_devices = 2});
  EXPECT_EQ(first, outputs(other));
  EXPECT_EQ(whole, testing::read_file(files[0]));
  for (const std::string& damaged :
       {whole.substr(0, whole.size() / 2), std::string("x"), whole.substr(0, 70) + "y"}) {
    testing::write_file(files[0], damaged);
    EXPECT_EQ(first, outputs(other));
    EXPECT_LT(1000U, testing::read_file(files[0]).size()) << "kept again";
  }
}

/// What one of two processes has: every second batch.
class ProcessFeed final : public Feed {
 public:
  ProcessFeed(std::vector<testing::FakeSample> samples, int process)
      : all_(std::move(samples), 4, 2), process_(process) {}
  std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) override {
    return std::make_unique<Part>(all_.open(epoch, from), process_);
  }
  std::int64_t batch_size() const override { return all_.batch_size(); }
  std::int64_t steps_per_epoch() const override { return all_.steps_per_epoch(); }

 private:
  class Part final : public EpochFeed {
   public:
    Part(std::unique_ptr<EpochFeed> all, int process) : all_(std::move(all)), process_(process) {}
    bool next(int /*replica*/, pipeline::Batch& batch) override {
      return all_->next(process_, batch);
    }
    void stop() override { all_->stop(); }

   private:
    std::unique_ptr<EpochFeed> all_;
    int process_;
  };

  testing::MemoryFeed all_;
  int process_;
};

/// Calls `train` with each of two processes' cluster and a run on a device of its own.
template <typename Train>
void in_two_processes(const Train& train) {
  const auto samples = testing::make_samples(48, 784, 4, 1);
  testing::FakeNetwork network(2);
  std::vector<std::jthread> processes;
  for (int process = 0; process < 2; ++process)
    processes.emplace_back([&, process] {
      const auto cluster =
          make_cluster({.process = process, .processes = 2}, network.transport(process));
      const auto backend = with_devices(1).make();
      LeNetRun run(backend.get());
      ProcessFeed feed(samples, process);
      testing::LocalThreads devices(1);
      train(process, FitInput{.model = run.model,
                              .objective = run.objective,
                              .train = feed,
                              .devices = devices,
                              .backend = backend.get(),
                              .cluster = cluster.get()});
    });
}

/// Processes sum on the host, between two programs: the same steps as two devices of one.
TEST_F(PjrtBackend, ProcessesTrainAsOneWithTheirDevices) {
  const testing::TempDir folder;
  const auto options_of = [&](const std::string& run) {
    TrainOptions options = LeNetRun::options(folder / run, 2);
    options.accumulate = 1;
    return options;
  };
  const auto together = make();
  LeNetRun one(together.get());
  fit({.model = one.model,
       .objective = one.objective,
       .train = one.train,
       .devices = one.devices,
       .backend = together.get()},
      options_of("one"));
  in_two_processes([&](int process, const FitInput& setup) {
    TrainOptions options = options_of("two");
    if (process == 1) options.run_folder.clear();
    EXPECT_EQ(2U, fit(setup, options).epochs.size());
  });
  expect_near(weights_of_checkpoint(folder / "one/checkpoints/last", one.model),
              weights_of_checkpoint(folder / "two/checkpoints/last", one.model), 1e-4, "weights");
}

/// Steps that are longer on one device than on another, which no option says.
class DriftingRule final : public UpdateRule {
 public:
  explicit DriftingRule(double length) : UpdateRule({.lr = 0.1}), length_(length) {}
  std::vector<std::string> state_names() const override { return {}; }
  void apply(const RuleStep& /*step*/, const RuleBuffers& /*buffers*/) const override {}
  std::optional<hlo::RuleResults> stablehlo(const hlo::RuleArguments& of) const override {
    return hlo::RuleResults{.weight = of.weight - of.lr * of.gradient * length_};
  }

 private:
  double length_;
};

struct Drifting {
  double length = 1;

  static constexpr ComponentName kName = {"drifting", "Drifting", "Steps that drift"};
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<UpdateRule> make() const { return std::make_unique<DriftingRule>(length); }
};

/// Devices that round differently would train models of their own.
TEST_F(PjrtBackend, ProcessesWithOtherWeightsEndTheRun) {
  in_two_processes([](int process, const FitInput& input) {
    TrainOptions options = LeNetRun::options("", 1);
    options.optimizer.rule = Drifting{.length = process == 0 ? 1.0 : 1.0001};
    try {
      fit(input, options);
      ADD_FAILURE() << "process " << process << " has gone on";
    } catch (const Error& error) {
      EXPECT_THAT(error.message(), HasSubstr("weights are not the others'"));
    }
  });
}

/// A device takes part in one program: its batch has the size of the others'.
TEST_F(PjrtBackend, RefusesBatchesOfOtherSizesInAStep) {
  const auto backend = make();
  StepBench bench(*backend, {.world = 2});
  const pipeline::Batch four = conformance_batch(1);
  pipeline::Batch two = conformance_batch(2, 2);
  two.size = 2;
  two.valid.resize(2);
  for (pipeline::BatchField& field : two.fields) {
    field.spec.shape[0] = 2;
    field.data = field.data.first(field.data.size() / 2);
  }
  try {
    bench.step({{&four, &two}}, StepNumbers{.lr = 0.1F, .step = 1});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kUnsupported, error.code());
    EXPECT_THAT(error.message(), HasSubstr("batches of 4 and 2 samples"));
  }
  EXPECT_TRUE(bench.step_of(0).is_intact()) << "nothing has run";
}

TEST_F(PjrtBackend, NamesAFieldOfTheWrongSize) {
  const auto backend = make();
  StepBench bench(*backend, {});
  pipeline::Batch batch = conformance_batch(1);
  batch.fields[0].data = batch.fields[0].data.first(64);
  try {
    bench.step({{&batch}}, StepNumbers{.lr = 0.1F, .step = 1});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
    EXPECT_THAT(error.message(), HasSubstr("field " + batch.fields[0].name + " is float32"));
  }
}

/// The CPU's labels are checked by the loss; a program cannot throw.
TEST_F(PjrtBackend, NamesTheSampleOfALabelOutsideTheClasses) {
  const auto backend = make();
  StepBench bench(*backend, {});
  pipeline::Batch batch = conformance_batch(1);
  batch.keys.assign(4, "good");
  batch.keys[2] = "bad";
  batch.fields[1].as<std::int64_t>()[2] = 5;
  try {
    bench.step({{&batch}}, StepNumbers{.lr = 0.1F, .step = 1});
    FAIL() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ("bad", error.where().key);
    EXPECT_THAT(error.message(), HasSubstr("label 5 is outside the model's 5 classes"));
  }
  EXPECT_TRUE(bench.step_of(0).is_intact());
}

TEST_F(PjrtBackend, RefusesWhatHasNoProgramBeforeAnythingStarts) {
  const auto backend = make();
  testing::LinearRun run({});
  EXPECT_THROW(fit({.model = run.model,
                    .objective = run.objective,
                    .train = run.train,
                    .devices = run.devices,
                    .backend = backend.get()},
                   {.epochs = 1}),
               Error);
}

/// A plugin that fails or stops answering in mid-run: one clear error, and no checkpoint of what is
/// lost.
TEST_F(PjrtBackend, ARunEndsWithItsLastCheckpointIfADeviceFails) {
  for (const std::string mode : {"broken", "mute"}) {
    const testing::TempDir folder;
    ::setenv("FAKE_PLUGIN", mode.c_str(), 1);
    ::setenv("FAKE_PLUGIN_REAL", MILLRACE_CPU_PLUGIN, 1);
    ::setenv("FAKE_PLUGIN_RUNS", "14", 1);
    const device::pjrt::Plugin plugin(MILLRACE_FAKE_PLUGIN);
    const auto client = std::make_shared<const Client>(
        plugin, device::pjrt::ClientOptions{.cpu_devices = 2, .limit = std::chrono::seconds(3)});
    const auto backend = make_pjrt_backend(client, {.flags = kQuick});
    LeNetRun run(backend.get());
    TrainOptions options = LeNetRun::options(folder / "run", 3);
    options.accumulate = 1;  // 6 steps an epoch
    try {
      run.fit(options);
      ADD_FAILURE() << "the device did not fail";
    } catch (const Error& error) {
      EXPECT_EQ(ErrorCode::kExhausted, error.code());
      EXPECT_THAT(error.message(), HasSubstr(mode == "broken" ? "17 GiB are needed"
                                                              : "has not answered within 3 s"));
    }
    for (const char* name : {"FAKE_PLUGIN", "FAKE_PLUGIN_REAL", "FAKE_PLUGIN_RUNS"})
      ::unsetenv(name);
    EXPECT_EQ(1, read_checkpoint_state(folder / "run/checkpoints/last", io::UrlOpener()).epoch)
        << mode;
  }
}

#else
TEST(PjrtBackend, NeedsAPlugin) { GTEST_SKIP() << "no plugin for the CPU is installed"; }
#endif

}  // namespace
}  // namespace millrace::trainer
