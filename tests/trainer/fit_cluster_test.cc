// fit(), evaluate() and predict() in several processes, which here are threads of one: each has its
// own Cluster over a fake network, its own feeds, options and devices.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "decode/transforms/normalize.h"
#include "decode/transforms/resize.h"
#include "device/device.h"
#include "io/base/error.h"
#include "tests/support/fake_clock.h"
#include "tests/support/layout.h"
#include "tests/support/temp_dir.h"
#include "tests/trainer/fake_transport.h"
#include "tests/trainer/fakes.h"
#include "tests/trainer/fused_backend.h"
#include "trainer/checkpoint.h"
#include "trainer/cluster.h"
#include "trainer/detail/loop/epoch_report.h"
#include "trainer/evaluate.h"
#include "trainer/fit.h"
#include "trainer/loss/info_nce.h"
#include "trainer/models/models.h"
#include "trainer/newest_checkpoint.h"
#include "trainer/nn/logit_scale.h"
#include "trainer/predict.h"
#include "trainer/rules/adam.h"
#include "trainer/rules/lars.h"
#include "trainer/run_lock.h"
#include "trainer/schedules/exponential.h"
#include "trainer/weights.h"
#include "wds/shard_writer.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using testing::FakeNetwork;
using ::testing::HasSubstr;
using testing::Layout;
using testing::LocalThreads;
using testing::make_samples;
using testing::MemoryFeed;

/// A process's cluster, whose launcher may request a stop.
class StoppableCluster final : public Cluster {
 public:
  explicit StoppableCluster(std::unique_ptr<Cluster> cluster) : cluster_(std::move(cluster)) {}
  Topology topology() const override { return cluster_->topology(); }
  std::vector<std::unique_ptr<Collectives>> make_group() override { return cluster_->make_group(); }
  void broadcast(std::span<std::byte> data, int root) override { cluster_->broadcast(data, root); }
  std::vector<std::vector<std::byte>> all_gather(std::span<const std::byte> data) override {
    return cluster_->all_gather(data);
  }
  bool stop_requested() const override { return stop.stop_requested(); }
  void abort(const std::string& reason) noexcept override { cluster_->abort(reason); }

  std::stop_source stop;

 private:
  std::unique_ptr<Cluster> cluster_;
};

/// Runs `work` once per process, each on its own thread. Keeps its exceptions, by process.
std::vector<std::exception_ptr> on_processes(const Layout& layout,
                                             const std::function<void(StoppableCluster&)>& work) {
  FakeNetwork network(layout.processes);
  std::vector<std::exception_ptr> failures(static_cast<std::size_t>(layout.processes));
  std::vector<std::jthread> threads;
  for (int process = 0; process < layout.processes; ++process) {
    threads.emplace_back([&, process] {
      StoppableCluster cluster(make_cluster(
          {.process = process, .processes = layout.processes, .devices = layout.devices},
          network.transport(process)));
      try {
        work(cluster);
      } catch (...) {
        failures[static_cast<std::size_t>(process)] = std::current_exception();
      }
    });
  }
  threads.clear();
  return failures;
}

void expect_no_failure(const std::vector<std::exception_ptr>& failures) {
  for (const auto& failure : failures) {
    try {
      if (failure) std::rethrow_exception(failure);
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what();
    }
  }
}

Error error_of(const std::exception_ptr& failure) {
  try {
    if (failure) std::rethrow_exception(failure);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "nothing was thrown";
  return {ErrorCode::kIo, ""};
}

// ---- Pictures, from shards ----

constexpr int kWorld = 4;
constexpr std::int64_t kClusterBatch = 4;
constexpr std::int64_t kClusterClasses = 4;
constexpr int kSide = 28;

/// Shards of `per_shard` grey pictures each, brighter in the quarter given by the label.
std::vector<std::string> write_pictures(const std::string& folder, const std::string& name,
                                        int count, std::uint64_t per_shard) {
  wds::ShardWriter writer({.pattern = folder + "/" + name + "-%06d.tar", .maxcount = per_shard});
  for (int i = 0; i < count; ++i) {
    const int label = i % static_cast<int>(kClusterClasses);
    std::string picture = "P5\n28 28\n255\n";
    for (int at = 0; at < kSide * kSide; ++at) {
      const int quarter = at / kSide / (kSide / 2) * 2 + at % kSide / (kSide / 2);
      picture += static_cast<char>((quarter == label ? 150 : 50) + (i * 31 + at * 17) % 90);
    }
    writer.write({.key = std::to_string(10'000 + i),
                  .fields = {{"pgm", io::Bytes::copy_of(picture)},
                             {"cls", io::Bytes::copy_of(std::to_string(label))}}});
  }
  std::vector<std::string> urls;
  for (const wds::ShardSummary& shard : writer.finish()) urls.push_back(shard.url);
  return urls;
}

pipeline::PipelineOptions pictures(std::vector<std::string> shards, const Topology& topology) {
  pipeline::PipelineOptions options;
  options.shards = std::move(shards);
  options.split.topology = topology;
  options.fields = {pipeline::ImageField{.transforms = {decode::Resize{{kSide, kSide}},
                                                        decode::Normalize{{0.5F}, {0.5F}}},
                                         .channels = 1},
                    pipeline::LabelField{.classes = kClusterClasses}};
  options.batch.size = kClusterBatch;
  options.resources.threads = 1;
  return options;
}

GraphModel lenet() {
  return {"lenet",
          build_model("lenet", {.num_classes = kClusterClasses, .in_channels = 1, .image = kSide})};
}

/// What must be equal, bit for bit: weights, their EMA, the optimizer's state.
std::vector<std::string> files_of(const std::string& checkpoint) {
  std::vector<std::string> files;
  for (const char* name : {"model", "ema", "optimizer"})
    if (const auto file = checkpoint + "/" + name + ".safetensors"; fs::exists(file))
      files.push_back(testing::read_file(file));
  return files;
}

/// Batch normalisation and dropout, which see a replica's own samples and their slots.
GraphModel dropping() {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {1, kSide, kSide});
  x = builder.batch_norm("bn1", builder.conv2d("conv1", x, {.channels = 4, .kernel = 5}));
  x = builder.flatten("flatten", builder.max_pool2d("pool1", builder.relu("relu1", x)));
  x = builder.dropout("drop", x, {.probability = 0.4F});
  builder.output("logits", builder.linear("fc", x, {.features = kClusterClasses}));
  return {"dropping", builder.build()};
}

GraphModel resnet() {
  return {
      "resnet18",
      build_model("resnet18", {.num_classes = kClusterClasses, .in_channels = 1, .image = kSide})};
}

/// A model whose initial values are drawn once, because of a ResNet's it would take most of a test.
class DrawnOnce final : public Model {
 public:
  explicit DrawnOnce(const GraphModel& model, std::uint64_t seed)
      : model_(model),
        parameters_(model.parameters().padded_size()),
        buffers_(model.buffers().padded_size()) {
    model_.initialise(seed, parameters_, buffers_);
  }
  const nn::Graph* graph() const override { return model_.graph(); }
  const std::string& name() const override { return model_.name(); }
  const ParameterTable& parameters() const override { return model_.parameters(); }
  const ParameterTable& buffers() const override { return model_.buffers(); }
  void initialise(std::uint64_t /*seed*/, std::span<float> parameters,
                  std::span<float> buffers) const override {
    std::ranges::copy(parameters_, parameters.begin());
    std::ranges::copy(buffers_, buffers.begin());
  }

 private:
  const GraphModel& model_;
  std::vector<float> parameters_;
  std::vector<float> buffers_;
};

/// What is trained, whatever the layout.
struct Training {
  const Model& model;
  std::vector<std::string> train;
  std::vector<std::string> val;
  std::int64_t epochs = 2;
  bool indexed = false;  ///< else the shards are scanned
  Rule rule = Adam{.lr = 0.002};
  double ema_decay = 0.9;
  std::size_t bucket_floats = 20'000;
  nn::Precision precision = nn::Precision::kFloat32;
  bool is_fused = false;  ///< by a backend whose steps are programs of its own; else the CPU's
  LossChoice loss = losses::CrossEntropy{};
  std::string init = {};
};

/// Stops the run: the step after `step` is the last one; -1: before the first one.
class StopAt final : public Observer {
 public:
  StopAt(StoppableCluster& cluster, std::int64_t step) : cluster_(cluster), step_(step) {}
  void on_fit_start() override {
    if (step_ < 0) cluster_.stop.request_stop();
  }
  void on_step(const StepEvent& event) override {
    if (event.global_step == step_) cluster_.stop.request_stop();
  }

 private:
  StoppableCluster& cluster_;
  std::int64_t step_;
};

struct PictureRun {
  std::vector<std::string> files;
  std::vector<FitResult> results;  ///< one per process
};

/// `stop_at`: the last step; 0: none; -1: before the first. Goes on where `folder` has a
/// checkpoint.
PictureRun train_on(const Layout& layout, const Training& training, const std::string& folder,
                    std::int64_t stop_at = 0) {
  PictureRun run;
  run.results.resize(static_cast<std::size_t>(layout.processes));
  expect_no_failure(on_processes(layout, [&](StoppableCluster& cluster) {
    const Topology topology = cluster.topology();
    const device::DeviceSet set = device::DeviceSet::cpu(layout.devices);
    auto train_options = pictures(training.train, topology);
    train_options.split.streams = 2 * kWorld;
    train_options.shuffle = {.shards = true, .buffer_samples = 10, .seed = 7};
    train_options.indexed = training.indexed;
    LoaderFeed train(train_options, set);
    auto val_options = pictures(training.val, topology);
    val_options.split.streams = kWorld;
    val_options.indexed = training.indexed;
    LoaderFeed val(val_options, set);
    LocalThreads devices(layout.devices);
    const LossObjective objective({.heads = {{.loss = training.loss}}});
    StopAt stop(cluster, stop_at);
    testing::FusedBackend fused;
    run.results[static_cast<std::size_t>(topology.process)] =
        fit({.model = training.model,
             .objective = objective,
             .train = train,
             .validation = &val,
             .devices = devices,
             .backend = training.is_fused ? &fused : nullptr,
             .cluster = &cluster},
            {.epochs = training.epochs,
             .precision = training.precision,
             .seed = 3,
             .optimizer = {.rule = training.rule},
             .reducer = {.bucket_floats = training.bucket_floats},
             .clip = {.norm = 1.0},
             .ema_decay = training.ema_decay,
             .init = training.init,
             .run_folder = folder,
             .resume = "auto"},
            {&stop});
  }));
  run.files = files_of(folder + "/checkpoints/last");
  return run;
}

void expect_same(const PictureRun& one, const PictureRun& other, const std::string& what) {
  EXPECT_EQ(one.files.size(), other.files.size());
  for (std::size_t i = 0; i < one.files.size(); ++i)
    EXPECT_TRUE(one.files[i] == other.files[i]) << what << ": file " << i << " differs";
  const EpochEvent& expected = one.results[0].epochs.back();
  for (const FitResult& result : other.results) {
    const EpochEvent& epoch = result.epochs.back();
    EXPECT_EQ(expected.train, epoch.train) << what;
    EXPECT_EQ(expected.train_samples, epoch.train_samples) << what;
    EXPECT_EQ(expected.val, epoch.val) << what;
    EXPECT_EQ(expected.val_samples, epoch.val_samples) << what;
    EXPECT_EQ(expected.is_best, epoch.is_best) << what;
    EXPECT_EQ(other.results[0].last_checkpoint, result.last_checkpoint);
    EXPECT_EQ(other.results[0].end.best, result.end.best);
  }
}

constexpr Layout kSameReplicas[] = {{4, 1}, {2, 2}, {1, 4}};

// In the last round one rank has no sample, the others one each.
TEST(FitCluster, ProcessesAndDevicesTrainToTheSameBitsFromShards) {
  const testing::TempDir folder;
  const auto train = write_pictures(folder.path(), "train", 5 * 16 + 3, 12);
  const auto val = write_pictures(folder.path(), "val", 18, 100);
  for (const GraphModel& model : {lenet(), dropping()}) {
    const std::string& name = model.name();
    const Training training{.model = model, .train = train, .val = val};
    const PictureRun one = train_on(kSameReplicas[0], training, folder / (name + "0"));
    const EpochEvent& expected = one.results[0].epochs.at(1);
    EXPECT_LT(*find_value(expected.train, "loss"),
              0.95 * *find_value(one.results[0].epochs[0].train, "loss"))
        << "it learns, so there is something to compare";
    EXPECT_EQ(83, expected.train_samples);
    EXPECT_EQ(18, expected.val_samples);
    for (const Layout layout : {kSameReplicas[1], kSameReplicas[2]}) {
      const auto run = folder / (name + std::to_string(layout.processes) + "p");
      expect_same(one, train_on(layout, training, run), name + name_of(layout));
    }
  }
}

/// Filters whitened to the first step's pictures, or to the first `samples` of the epoch.
GraphModel whitening(int samples) {
  nn::GraphBuilder builder;
  nn::Value x = builder.input("image", {1, kSide, kSide});
  x = builder.conv2d("whiten", x,
                     {.channels = 8,
                      .kernel = 2,
                      .init = nn::Init::kWhitening,
                      .init_samples = samples,
                      .shared = {}});
  x = builder.flatten("flatten", builder.max_pool2d("pool", builder.relu("relu", x)));
  builder.output("logits", builder.linear("fc", x, {.features = kClusterClasses}));
  return {"whitening", builder.build()};
}

TEST(FitCluster, WhiteningFiltersAreTheSameOnAnyLayoutAndNotMadeBesideWeights) {
  const testing::TempDir folder;
  const auto train = write_pictures(folder.path(), "train", 2 * 16 + 3, 12);
  const auto val = write_pictures(folder.path(), "val", 6, 100);
  for (const int samples : {0, 21}) {
    const GraphModel model = whitening(samples);
    Training training{.model = model, .train = train, .val = val, .epochs = 1};
    const std::string name = std::to_string(samples) + " samples";
    const PictureRun one = train_on({1, 4}, training, folder / name);
    expect_same(one, train_on({2, 2}, training, folder / (name + ", 2")), name);
    training.init = folder / name + "/checkpoints/last";
    const PictureRun other = train_on({1, 4}, training, folder / (name + ", init"));
    EXPECT_NE(one.files, other.files);
    expect_same(other, train_on({2, 2}, training, folder / (name + ", init, 2")), name);
    // A checkpoint from before the first step says that its weights are of a file.
    train_on({1, 4}, training, folder / (name + ", stopped"), -1);
    training.init = "";
    expect_same(other, train_on({2, 2}, training, folder / (name + ", stopped")), name);
  }
}

// In the last step two of the ranks have one sample each, of any classes.
TEST(FitCluster, AContrastOfAllRanksTrainsToTheSameBitsOnAnyLayout) {
  const testing::TempDir folder;
  const auto train = write_pictures(folder.path(), "train", 3 * 16 + 2, 12);
  const auto val = write_pictures(folder.path(), "val", 18, 100);
  for (const bool learned : {false, true}) {
    const std::string name = learned ? "learned" : "fixed";
    const GraphModel plain = lenet();
    const GraphModel model(name, learned
                                     ? nn::with_logit_scale(*plain.graph(), {.temperature = 0.2F})
                                     : *plain.graph());
    const Training training{.model = model,
                            .train = train,
                            .val = val,
                            .epochs = 3,
                            .loss = losses::InfoNce{.temperature = 0.2F, .learned = learned}};
    const PictureRun one = train_on({2, 1}, training, folder / (name + "2p"));
    const auto loss = [&](std::size_t epoch) {
      return *find_value(one.results[0].epochs.at(epoch).train, "loss");
    };
    EXPECT_LT(loss(2), 0.9 * loss(0)) << "it learns, so there is something to compare";
    expect_same(one, train_on({1, 2}, training, folder / (name + "1p")), "two devices");
  }
}

// Such a step sums over all ranks itself; nothing is gathered between processes.
TEST(FitCluster, StepsThatAreOneProgramTrainToTheSameBitsInSeveralProcesses) {
  const testing::TempDir folder;
  const GraphModel model = dropping();
  Training training{.model = model,
                    .train = write_pictures(folder.path(), "train", 5 * 16 + 3, 12),
                    .val = write_pictures(folder.path(), "val", 18, 100)};
  const PictureRun cpu = train_on({1, 4}, training, folder / "cpu");
  training.is_fused = true;
  const PictureRun one = train_on({1, 4}, training, folder / "one");
  EXPECT_NEAR(*find_value(cpu.results[0].epochs[1].train, "loss"),
              *find_value(one.results[0].epochs[1].train, "loss"), 1e-3);
  for (const Layout layout : {Layout{2, 2}, Layout{4, 1}})
    expect_same(one, train_on(layout, training, folder / name_of(layout)), name_of(layout));
}

// Between processes weights then travel rounded.
TEST(FitCluster, ProcessesAndDevicesTrainToTheSameBitsInBf16) {
  const testing::TempDir folder;
  const GraphModel model = lenet();
  Training training{.model = model,
                    .train = write_pictures(folder.path(), "train", 64, 12),
                    .val = write_pictures(folder.path(), "val", 18, 100)};
  const PictureRun exact = train_on({1, 4}, training, folder / "float");
  training.precision = nn::Precision::kBFloat16;
  const PictureRun one = train_on({1, 4}, training, folder / "one");
  EXPECT_NE(exact.files, one.files);
  for (const Layout layout : {Layout{2, 2}, Layout{4, 1}})
    expect_same(one, train_on(layout, training, folder / name_of(layout)), name_of(layout));
}

TEST(FitCluster, ProcessesAndDevicesTrainAResNetToTheSameBitsFromIndexedShards) {
  const testing::TempDir folder;
  const GraphModel graph = resnet();
  const DrawnOnce model(graph, 3);
  const Training training{.model = model,
                          .train = write_pictures(folder.path(), "train", 16 + 5, 8),
                          .val = write_pictures(folder.path(), "val", 7, 100),
                          .epochs = 1,
                          .indexed = true,
                          .rule = Sgd{.lr = 0.002, .momentum = 0},
                          .ema_decay = 0,
                          .bucket_floats = 2'000'000};
  const PictureRun one = train_on(kSameReplicas[0], training, folder / "0");
  EXPECT_EQ(21, one.results[0].epochs.at(0).train_samples);
  for (const Layout layout : {kSameReplicas[1], kSameReplicas[2]}) {
    const auto run = folder / (std::to_string(layout.processes) + "p");
    expect_same(one, train_on(layout, training, run), "resnet18 " + name_of(layout));
  }
}

TEST(FitCluster, AStepOfTwoByTwoIsContinuedToTheSameBitsByAnyLayout) {
  const testing::TempDir folder;
  const GraphModel model = dropping();
  const Training training{.model = model,
                          .train = write_pictures(folder.path(), "train", 5 * 16 + 3, 12),
                          .val = write_pictures(folder.path(), "val", 6, 100)};
  const PictureRun whole = train_on({2, 2}, training, folder / "whole");
  for (const std::int64_t step : {3, 5, 9}) {  // the 6th of an epoch is its last
    train_on({2, 2}, training, folder / "stopped", step);
    EXPECT_EQ(step, read_checkpoint_state(folder / "stopped/checkpoints/last").global_step);
    for (const Layout layout : kSameReplicas) {
      const auto run = folder / ("at" + std::to_string(step) + "of" + name_of(layout));
      fs::copy(folder / "stopped", run, fs::copy_options::recursive);
      expect_same(whole, train_on(layout, training, run),
                  name_of(layout) + " after step " + std::to_string(step));
    }
    fs::remove_all(folder / "stopped");
  }
}

// ---- A linear model, from memory ----

constexpr std::int64_t kClusterFeatures = 20;

/// A process's share of a MemoryFeed of all ranks; its positions count its own batches.
class ShareFeed final : public Feed {
 public:
  ShareFeed(std::vector<testing::FakeSample> samples, const Topology& topology)
      : all(std::move(samples), 8, topology.world_size()), topology_(topology) {}

  std::unique_ptr<EpochFeed> open(std::uint32_t epoch, const pipeline::Position* from) override {
    pipeline::Position start{.epoch = epoch};
    if (from != nullptr) start.slots = from->slots;
    return std::make_unique<Share>(all.open(epoch, &start), *this);
  }
  std::int64_t batch_size() const override { return all.batch_size(); }
  std::int64_t steps_per_epoch() const override { return all.steps_per_epoch(); }

  MemoryFeed all;
  wds::FaultPolicy faults = {};
  ReadSamples read = {};  ///< of each epoch, from its first step on

 private:
  class Share final : public EpochFeed {
   public:
    Share(std::unique_ptr<EpochFeed> feed, const ShareFeed& of)
        : feed_(std::move(feed)), of_(of), topology_(of.topology_) {}
    bool next(int replica, pipeline::Batch& batch) override {
      if (!feed_->next(topology_.first_rank() + replica, batch)) return false;
      auto position = std::make_shared<pipeline::Position>(*batch.position);
      position->slots = (batch.index / topology_.world_size() + 1) * topology_.devices * batch.size;
      batch.position = position;
      return true;
    }
    void stop() override { feed_->stop(); }
    ReadSamples read_samples() const override { return of_.read; }
    wds::FaultPolicy fault_policy() const override { return of_.faults; }

   private:
    std::unique_ptr<EpochFeed> feed_;
    const ShareFeed& of_;
    const Topology& topology_;
  };

  Topology topology_;
};

/// One process's part of a run.
struct LinearProcess {
  explicit LinearProcess(const Topology& topology)
      : train(make_samples(200, kClusterFeatures, kClusterClasses, 1), topology),
        val(make_samples(101, kClusterFeatures, kClusterClasses, 2), topology),
        devices(topology.devices) {
    val.all.is_unequal = true;
  }

  testing::LinearModel model{kClusterFeatures, kClusterClasses};
  LossObjective objective{{.inputs = {"x"}, .heads = {Head{}}}};
  ShareFeed train;
  ShareFeed val;
  LocalThreads devices;
  TrainOptions options;
  std::vector<Observer*> observers;
  StoppableCluster* cluster = nullptr;

  bool is(int process) const { return cluster->topology().process == process; }
};

struct ClusterRun {
  std::vector<std::exception_ptr> failures;
  std::vector<FitResult> results;
};

using Change = std::function<void(LinearProcess&)>;

/// Two epochs of 7 steps, for 4 ranks; `change` makes one process differ from the others.
ClusterRun run_linear(const Layout& layout, const std::string& folder, const Change& change = {}) {
  ClusterRun run;
  run.results.resize(static_cast<std::size_t>(layout.processes));
  run.failures = on_processes(layout, [&](StoppableCluster& cluster) {
    LinearProcess own(cluster.topology());
    own.cluster = &cluster;
    own.options = {.epochs = 2,
                   .precision = nn::Precision::kFloat32,
                   .seed = 5,
                   .optimizer = {.rule = Lars{.lr = 1.0, .momentum = 0.9F}},
                   .reducer = {.bucket_floats = 32},
                   .accumulate = 2,
                   .ema_decay = 0.8,
                   .sanity_val_steps = 1,
                   .run_folder = folder,
                   .log = Log::to_file(folder + ".log")};
    if (change) change(own);
    run.results[static_cast<std::size_t>(cluster.topology().process)] =
        fit({.model = own.model,
             .objective = own.objective,
             .train = own.train,
             .validation = &own.val,
             .devices = own.devices,
             .cluster = &cluster},
            own.options, own.observers);
  });
  return run;
}

constexpr Layout kLayouts[] = {{1, 4}, {2, 2}, {4, 1}};

/// The checkpoint of an undisturbed run of one process.
std::vector<std::string> undisturbed(const testing::TempDir& folder) {
  expect_no_failure(run_linear({1, 4}, folder / "undisturbed").failures);
  return files_of(folder / "undisturbed/checkpoints/last");
}

TEST(FitCluster, RulesThatGoByNormsTrainToTheSameBits) {
  const testing::TempDir folder;
  const auto expected = undisturbed(folder);
  for (const Layout layout : {Layout{2, 2}, Layout{4, 1}}) {
    const std::string run = folder / ("of" + std::to_string(layout.processes));
    expect_no_failure(run_linear(layout, run).failures);
    EXPECT_EQ(expected, files_of(run + "/checkpoints/last")) << name_of(layout);
  }
}

/// Resumes the run in `folder`, and expects the result of a run without a break.
void expect_resumes(const Layout& layout, const std::string& folder,
                    const std::vector<std::string>& expected) {
  const ClusterRun resumed =
      run_linear(layout, folder, [](LinearProcess& own) { own.options.resume = "auto"; });
  expect_no_failure(resumed.failures);
  EXPECT_EQ(expected, files_of(folder + "/checkpoints/last")) << name_of(layout);
}

TEST(FitCluster, AStopOfOneProcessEndsAllAtTheSameStep) {
  const testing::TempDir folder;
  const auto expected = undisturbed(folder);
  for (const bool by_launcher : {true, false}) {
    const std::string run = folder / (by_launcher ? "launcher" : "token");
    std::stop_source stop;
    const ClusterRun stopped = run_linear({2, 2}, run, [&](LinearProcess& own) {
      if (!own.is(1)) return;
      own.options.stop = stop.get_token();
      own.train.all.before_batch = [&, by_launcher, launcher = own.cluster->stop](
                                       int, std::int64_t step) mutable {
        if (step == 3) (by_launcher ? launcher : stop).request_stop();
      };
    });
    expect_no_failure(stopped.failures);
    for (const FitResult& result : stopped.results) {
      EXPECT_EQ("signal", result.end.stopped_by);
      EXPECT_TRUE(result.end.interrupted);
      EXPECT_EQ(run + "/checkpoints/last", result.last_checkpoint);
      EXPECT_TRUE(result.epochs.empty());
    }
    const TrainState state = read_checkpoint_state(run + "/checkpoints/last");
    EXPECT_GT(state.global_step, 0);
    EXPECT_FALSE(state.position.empty());
    EXPECT_EQ(4, state.world);
    expect_resumes(by_launcher ? Layout{1, 4} : Layout{4, 1}, run, expected);
  }
}

// Of two batches that a step takes, the second is not waited for.
TEST(FitCluster, AStopWithinAStepGoesBackToItsBeginning) {
  const testing::TempDir folder;
  const auto expected = undisturbed(folder);
  std::stop_source stop;
  std::atomic<std::int64_t> most = 0;
  const ClusterRun stopped = run_linear({2, 2}, folder / "run", [&](LinearProcess& own) {
    own.train.all.before_batch = [&](int, std::int64_t step) {
      most = std::max(most.load(), step);
      if (step == 2) stop.request_stop();
    };
    own.options.stop = stop.get_token();
  });
  expect_no_failure(stopped.failures);
  EXPECT_TRUE(stopped.results[0].end.interrupted);
  EXPECT_EQ(1, read_checkpoint_state(folder / "run/checkpoints/last").global_step);
  EXPECT_LT(most, 4) << "the feed is not read on";
  expect_resumes({2, 2}, folder / "run", expected);
}

TEST(FitCluster, EveryProcessWritesTheLogsOfItsRanks) {
  const testing::TempDir folder;
  const ClusterRun run =
      run_linear({2, 2}, folder / "run", [](LinearProcess& own) { own.options.log_steps = 2; });
  expect_no_failure(run.failures);
  for (int rank = 0; rank < 4; ++rank) {
    const std::string log = testing::read_file(folder / fmt::format("run/rank-{}.log", rank));
    EXPECT_THAT(log, HasSubstr(fmt::format("rank {} | Training Device=", rank)));
    EXPECT_THAT(log, HasSubstr("Epoch=2 Step=4 "));
  }
}

TEST(FitCluster, LogsThatCannotBeWrittenAreAWarning) {
  const testing::TempDir folder;
  testing::write_file(folder / "run/rank-2.log/occupied", "");
  const ClusterRun run = run_linear({2, 2}, folder / "run");
  expect_no_failure(run.failures);
  EXPECT_THAT(testing::read_file(folder / "run.log"),
              HasSubstr("the logs of some ranks are not written: process 1 on "));
}

// Hosts that share no folder: each process has its own.
TEST(FitCluster, TheNewestCheckpointOfAllHostsIsFetched) {
  const testing::TempDir folder;
  const std::vector<std::string> folders{folder / "h0", folder / "h1", folder / "h2"};
  const auto train_to = [&](const std::string& run, std::int64_t epochs) {
    expect_no_failure(run_linear({1, 4}, run, [&](LinearProcess& own) {
                        own.options.epochs = epochs;
                        own.options.resume = "auto";
                      }).failures);
  };
  const auto fetch = [&] {
    const Log log = Log::to_file(folder / "log");
    expect_no_failure(on_processes({3, 1}, [&](StoppableCluster& cluster) {
      const auto process = static_cast<std::size_t>(cluster.topology().process);
      fetch_newest_checkpoint(cluster, folders[process] + "/checkpoints", log);
    }));
    std::string said = testing::read_file(folder / "log");
    fs::remove(folder / "log");
    return said;
  };
  train_to(folders[1], 1);
  EXPECT_THAT(fetch(), AllOf(HasSubstr("(process 1)"), HasSubstr("has none: it is copied there")));
  EXPECT_EQ(files_of(folders[1] + "/checkpoints/last"), files_of(folders[0] + "/checkpoints/last"));
  EXPECT_EQ("", fetch()) << "process 0 has it";
  train_to(folders[2], 2);
  EXPECT_THAT(fetch(), AllOf(HasSubstr("(process 2)"), HasSubstr("has one at step 4")));
  EXPECT_EQ(files_of(folders[2] + "/checkpoints/last"), files_of(folders[0] + "/checkpoints/last"));
  train_to(folders[0], 3);
  EXPECT_EQ("", fetch());
}

TEST(FitCluster, AStopOfOneProcessInAnEvaluationKeepsTheSteps) {
  const testing::TempDir folder;
  const auto expected = undisturbed(folder);
  std::stop_source stop;
  const ClusterRun stopped = run_linear({2, 2}, folder / "run", [&](LinearProcess& own) {
    if (!own.is(1)) return;
    own.options.stop = stop.get_token();
    own.val.all.before_batch = [&](int, std::int64_t step) {
      if (step == 2) stop.request_stop();
    };
  });
  expect_no_failure(stopped.failures);
  for (const FitResult& result : stopped.results) EXPECT_TRUE(result.end.interrupted);
  EXPECT_EQ(4, read_checkpoint_state(folder / "run/checkpoints/last").step_in_epoch);
  expect_resumes({2, 2}, folder / "run", expected);
}

TEST(FitCluster, AnInputThatFailsEndsAllProcessesWithItsReason) {
  const testing::TempDir folder;
  const auto expected = undisturbed(folder);
  for (const bool training : {true, false}) {
    const std::string run = folder / (training ? "train" : "val");
    const ClusterRun failed = run_linear({2, 2}, run, [&](LinearProcess& own) {
      if (!own.is(1)) return;
      (training ? own.train : own.val).all.before_batch = [](int, std::int64_t step) {
        if (step == 2) throw Error(ErrorCode::kTruncated, "cut off", {.url = "b.tar"});
      };
    });
    const Error own = error_of(failed.failures[1]);
    EXPECT_EQ(ErrorCode::kTruncated, own.code());
    EXPECT_EQ("cut off", own.message());
    const Error told = error_of(failed.failures[0]);
    EXPECT_EQ(ErrorCode::kTruncated, told.code());
    EXPECT_EQ("process 1 failed: cut off", told.message());
    EXPECT_EQ("b.tar", told.where().url);
    EXPECT_EQ(training ? 1 : 4, read_checkpoint_state(run + "/checkpoints/last").step_in_epoch);
    expect_resumes({2, 2}, run, expected);
  }
}

TEST(FitCluster, SamplesThatAllProcessesSkippedCountAgainstTheLimit) {
  const testing::TempDir folder;
  const auto failures_of = [&](bool training, const wds::FaultPolicy& faults) {
    return run_linear({2, 2}, folder / "run",
                      [&](LinearProcess& own) {
                        ShareFeed& feed = training ? own.train : own.val;
                        feed.faults = faults;
                        feed.read = {.read = 600, .skipped = own.is(0) ? 1 : 3};
                        own.options.run_folder.clear();
                      })
        .failures;
  };
  for (const bool training : {true, false}) {
    expect_no_failure(failures_of(training, {.on_fault = wds::OnFault::kSkip, .max_faults = 4}));
    expect_no_failure(
        failures_of(training, {.on_fault = wds::OnFault::kSkip, .max_fault_rate = 0.0034}));
    for (const wds::FaultPolicy& faults :
         {wds::FaultPolicy{.on_fault = wds::OnFault::kSkip, .max_faults = 3},
          wds::FaultPolicy{.on_fault = wds::OnFault::kSkip, .max_fault_rate = 0.0033}})
      for (const std::exception_ptr& failure : failures_of(training, faults)) {
        const Error error = error_of(failure);
        EXPECT_EQ(error.code(), ErrorCode::kExhausted);
        EXPECT_EQ(error.message(),
                  std::string("too many samples are skipped (4") +
                      (faults.max_faults == 3 ? ", max_faults 3" : " of 1200 samples") +
                      "), in 2 processes");
      }
  }
}

TEST(FitCluster, AReplicaThatFailsEndsAllProcessesWithItsReason) {
  const testing::TempDir folder;
  for (const Layout& layout : kLayouts) {
    if (layout.processes == 1) continue;
    const ClusterRun failed = run_linear(layout, folder / name_of(layout), [](LinearProcess& own) {
      auto samples = make_samples(200, kClusterFeatures, kClusterClasses, 1);
      samples[110].label = 9;
      own.train.all = MemoryFeed(std::move(samples), 8, 4);
    });
    int others = 0;
    for (const auto& failure : failed.failures) {
      const Error error = error_of(failure);
      if (error.code() == ErrorCode::kCancelled) {
        EXPECT_THAT(error.message(),
                    AllOf(HasSubstr("process "), HasSubstr("failed: InvalidArgument")));
        ++others;
      } else {
        EXPECT_EQ(ErrorCode::kInvalidArgument, error.code());
      }
    }
    EXPECT_EQ(layout.processes - 1, others) << name_of(layout);
  }
}

/// Fails the process whose observer it is, outside of a step.
class Thrower final : public Observer {
 public:
  void on_epoch_end(const EpochEvent& /*event*/) override {
    throw Error(ErrorCode::kIo, "the disk is full");
  }
};

TEST(FitCluster, WhatProcess0FailsWithEndsTheOthers) {
  const testing::TempDir folder;
  Thrower thrower;
  const ClusterRun failed = run_linear({2, 2}, folder / "run", [&](LinearProcess& own) {
    if (own.is(0)) own.observers = {&thrower};
  });
  EXPECT_EQ(ErrorCode::kIo, error_of(failed.failures[0]).code());
  EXPECT_THAT(error_of(failed.failures[1]).message(),
              HasSubstr("process 0 failed: Io: the disk is full"));
}

TEST(FitCluster, WhatProcess0RefusesIsRefusedEverywhere) {
  const testing::TempDir folder;
  const RunLock lock(folder / "run");
  const ClusterRun refused = run_linear({2, 2}, folder / "run");
  for (const auto& failure : refused.failures) {
    EXPECT_EQ(ErrorCode::kInvalidArgument, error_of(failure).code());
    EXPECT_THAT(error_of(failure).message(), HasSubstr("another run writes to"));
  }
}

TEST(FitCluster, OptionsThatDifferAreRefusedEverywhere) {
  const testing::TempDir folder;
  const ClusterRun refused = run_linear({2, 2}, folder / "run", [](LinearProcess& own) {
    if (own.is(1)) own.options.accumulate = 3;
  });
  for (const auto& failure : refused.failures) {
    EXPECT_EQ(ErrorCode::kInvalidArgument, error_of(failure).code());
    EXPECT_THAT(error_of(failure).message(),
                HasSubstr("accumulate: 2 in process 0, 3 in process 1"));
  }
  EXPECT_FALSE(fs::exists(folder / "run"));
}

TEST(FitCluster, WhatIsComputedFromIsTheSameEverywhere) {
  const testing::TempDir folder;
  const std::vector<std::pair<std::string, Change>> changes{
      {"seed: 5 in process 0, 9", [](LinearProcess& own) { own.options.seed = 9; }},
      {"schedule: constant in",
       [](LinearProcess& own) { own.options.schedule = schedules::Exponential(); }},
      {"clip.value: 0 in", [](LinearProcess& own) { own.options.clip.value = 0.5F; }},
      {"optimizer.weight_decay",
       [](LinearProcess& own) {
         own.options.optimizer.rule = Lars{.lr = 1.0, .momentum = 0.9F, .weight_decay = 1};
       }},
      {"checkpoint.every_steps",
       [](LinearProcess& own) { own.options.checkpoint.every_steps = 7; }},
      {"--mean: 0.1 in process 0, 0.9 in process 1",
       [](LinearProcess& own) { own.options.settings = {{.name = "--mean", .value = "0.9"}}; }}};
  for (const auto& [says, change] : changes) {
    const ClusterRun refused = run_linear({2, 2}, folder / "run", [&](LinearProcess& own) {
      own.options.settings = {{.name = "--mean", .value = "0.1"}};
      if (own.is(1)) change(own);
    });
    for (const auto& failure : refused.failures) {
      EXPECT_EQ(ErrorCode::kInvalidArgument, error_of(failure).code());
      EXPECT_THAT(error_of(failure).message(), HasSubstr(says));
    }
  }
}

/// What two processes say of a training set that each finds in its own folder, as hosts do.
std::string said_of_sets(const std::vector<std::string>& first,
                         const std::vector<std::string>& second) {
  const GraphModel model = lenet();
  const auto failures = on_processes({2, 1}, [&](StoppableCluster& cluster) {
    const Topology topology = cluster.topology();
    const device::DeviceSet set = device::DeviceSet::cpu(1);
    auto options = pictures(topology.process == 0 ? first : second, topology);
    options.split.streams = 2;
    LoaderFeed train(options, set);
    LocalThreads devices(1);
    const LossObjective objective;
    fit({.model = model,
         .objective = objective,
         .train = train,
         .devices = devices,
         .cluster = &cluster},
        {.precision = nn::Precision::kFloat32});
  });
  if (!failures[0] && !failures[1]) return {};
  EXPECT_EQ(ErrorCode::kCorrupt, error_of(failures[0]).code());
  EXPECT_EQ(error_of(failures[0]).message(), error_of(failures[1]).message());
  return error_of(failures[0]).message();
}

TEST(FitCluster, OtherDataInAProcessIsNamed) {
  const testing::TempDir folder;
  std::vector<std::vector<std::string>> sets;
  for (const char* host : {"a", "b", "c", "d"}) {
    fs::create_directory(folder / host);
    const bool other = *host == 'c';
    sets.push_back(write_pictures(folder / host, "train", other ? 30 : 36, 12));
  }
  EXPECT_EQ("", said_of_sets(sets[0], sets[1])) << "copies";
  EXPECT_THAT(said_of_sets(sets[0], sets[2]),
              AllOf(HasSubstr("as the training set: shard train-000002.tar: 12 samples"),
                    HasSubstr(" in process 0 on "), HasSubstr(", 6 samples"),
                    HasSubstr(" in process 1 on ")));
  EXPECT_THAT(said_of_sets(sets[0], {sets[1][0], sets[1][1]}),
              HasSubstr("3 shards in process 0 on"));
  EXPECT_THAT(said_of_sets({sets[0][0], sets[0][2]}, sets[1]),
              HasSubstr("shard 2 of the list: train-000002.tar in process 0 on"));
  std::string bytes = testing::read_file(sets[3][1]);
  bytes[3000] ^= 1;  // within the first picture
  testing::write_file(sets[3][1], bytes);
  EXPECT_THAT(said_of_sets(sets[0], sets[3]), HasSubstr("shard train-000001.tar"));
}

// Decisions that once depended on one rank: none may hang a run, or change a bit of it.
TEST(FitCluster, NoDecisionDependsOnOneProcessAlone) {
  const testing::TempDir folder;
  const auto expected = undisturbed(folder);
  testing::FakeClock late;
  late.advance(std::chrono::hours(1000));
  Thrower thrower;
  testing::write_file(folder / "file", "");
  const std::vector<Change> changes{
      [&](LinearProcess& own) {
        own.options.clock = &late;
        own.options.max_time = std::chrono::hours(500);
        own.options.checkpoint.every = std::chrono::seconds(1);
        own.train.all.before_batch = [&](int, std::int64_t) {
          late.advance(std::chrono::hours(1000));
        };
      },
      [&](LinearProcess& own) { own.options.run_folder = folder / "file/run"; },
      [&](LinearProcess& own) { own.options.run_folder.clear(); },
      [&](LinearProcess& own) { own.options.checkpoint.folder = folder / "other"; },
      [&](LinearProcess& own) { own.options.resume = folder / "nowhere"; },
      [&](LinearProcess& own) { own.options.init = folder / "nowhere.safetensors"; },
      [&](LinearProcess& own) { own.options.checkpoint.save_best = false; },
      [&](LinearProcess& own) { own.options.log_steps = 1; },
      [&](LinearProcess& own) { own.observers = {&thrower}; }};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    const std::string run = folder / ("run" + std::to_string(i));
    const ClusterRun perturbed = run_linear({2, 2}, run, [&](LinearProcess& own) {
      if (own.is(1)) changes[i](own);
    });
    expect_no_failure(perturbed.failures);
    EXPECT_EQ(expected, files_of(run + "/checkpoints/last")) << i;
    EXPECT_FALSE(fs::exists(folder / "other"));
    for (const FitResult& result : perturbed.results) {
      EXPECT_EQ("", result.end.stopped_by) << i;
      EXPECT_EQ(2U, result.epochs.size()) << i;
    }
  }
}

// Each process is late at other steps than the others, with its input and with what it logs.
TEST(FitCluster, DelaysOfProcessesChangeNothing) {
  const testing::TempDir folder;
  const auto expected = undisturbed(folder);
  for (const Layout layout : {Layout{2, 2}, Layout{4, 1}}) {
    const std::string run = folder / ("of" + std::to_string(layout.processes));
    const ClusterRun delayed = run_linear(layout, run, [&](LinearProcess& own) {
      const int process = own.cluster->topology().process;
      const auto wait = [process](int, std::int64_t step) {
        if (step % 4 == process) std::this_thread::sleep_for(std::chrono::milliseconds(10));
      };
      own.train.all.before_batch = wait;
      own.val.all.before_batch = wait;
      own.options.log_steps = 1 + process;
    });
    expect_no_failure(delayed.failures);
    EXPECT_EQ(expected, files_of(run + "/checkpoints/last")) << name_of(layout);
  }
}

TEST(FitCluster, TheTimeLimitIsProcess0s) {
  const testing::TempDir folder;
  testing::FakeClock clock;
  const ClusterRun stopped = run_linear({2, 2}, folder / "run", [&](LinearProcess& own) {
    own.options.max_time = std::chrono::minutes(10);
    if (!own.is(0)) return;
    own.options.clock = &clock;
    own.train.all.before_batch = [&](int, std::int64_t step) {
      if (step == 3) clock.advance(std::chrono::hours(1));
    };
  });
  expect_no_failure(stopped.failures);
  for (const FitResult& result : stopped.results) {
    EXPECT_EQ("max-time", result.end.stopped_by);
    EXPECT_FALSE(result.end.interrupted);
  }
}

// ---- evaluate() and predict() ----

TEST(EvaluateCluster, EverySampleCountsOnceWithFewerShardsThanProcesses) {
  const testing::TempDir folder;
  const auto shards = write_pictures(folder.path(), "val", 22, 11);
  const auto few = write_pictures(folder.path(), "few", 3, 3);
  const GraphModel model = lenet();
  std::vector<float> weights(model.parameters().padded_size());
  std::vector<float> buffers(model.buffers().padded_size());
  model.initialise(5, weights, buffers);
  save_weights(folder / "w.safetensors", {{.table = &model.parameters(), .values = weights},
                                          {.table = &model.buffers(), .values = buffers}});
  for (const auto& set : {shards, few}) {
    std::vector<EvalResult> all;
    for (const Layout& layout : kLayouts) {
      std::mutex mutex;
      expect_no_failure(on_processes(layout, [&](StoppableCluster& cluster) {
        auto options = pictures(set, cluster.topology());
        options.indexed = true;
        const auto devices = device::DeviceSet::cpu(layout.devices);
        LoaderFeed feed(options, devices);
        DeviceThreads threads(devices);
        const LossObjective objective;
        // Process 0 alone has the weights.
        const bool first = cluster.topology().process == 0;
        auto result = evaluate({.model = model,
                                .objective = objective,
                                .feed = feed,
                                .devices = threads,
                                .cluster = &cluster},
                               {.precision = nn::Precision::kFloat32,
                                .weights = folder / (first ? "w.safetensors" : "nowhere")});
        const std::lock_guard lock(mutex);
        all.push_back(std::move(result));
      }));
    }
    ASSERT_EQ(1U + 2U + 4U, all.size());
    for (const EvalResult& result : all) {
      EXPECT_EQ(set == few ? 3 : 22, result.samples);
      EXPECT_EQ(find_value(all[0].values, "top1"), find_value(result.values, "top1"));
      EXPECT_NEAR(*find_value(all[0].values, "loss"), *find_value(result.values, "loss"), 1e-6);
    }
  }
}

// Without an index nobody knows beforehand which process runs out first.
TEST(FitCluster, AnIncompleteGlobalBatchIsDroppedAtTheSameStepEverywhere) {
  const testing::TempDir folder;
  const auto shards =
      write_pictures(folder.path(), "train", 10 * kClusterBatch + 1, 3 * kClusterBatch);
  const GraphModel model = lenet();
  for (const bool indexed : {true, false}) {
    for (const Layout& layout : kLayouts) {
      expect_no_failure(on_processes(layout, [&](StoppableCluster& cluster) {
        auto options = pictures(shards, cluster.topology());
        options.indexed = options.scan = indexed;
        options.batch.uneven = pipeline::Uneven::kDrop;
        const auto devices = device::DeviceSet::cpu(layout.devices);
        LoaderFeed feed(options, devices);
        DeviceThreads threads(devices);
        const LossObjective objective;
        const auto result = fit({.model = model,
                                 .objective = objective,
                                 .train = feed,
                                 .devices = threads,
                                 .cluster = &cluster},
                                {.epochs = 2, .precision = nn::Precision::kFloat32});
        // Four shards: of four processes without an index, the last has one shard of kClusterBatch
        // + 1.
        const std::int64_t steps = !indexed && layout.processes == 4 ? 1 : 2;
        for (const EpochEvent& epoch : result.epochs)
          EXPECT_EQ(epoch.train_samples, steps * kWorld * kClusterBatch)
              << name_of(layout) << indexed;
      }));
    }
  }
}

TEST(EvaluateCluster, WeightsThatAreMissingAreMissedByAll) {
  const auto failures = on_processes({2, 1}, [](StoppableCluster& cluster) {
    LinearProcess own(cluster.topology());
    evaluate({.model = own.model,
              .objective = own.objective,
              .feed = own.val,
              .devices = own.devices,
              .cluster = &cluster},
             {.weights = "/nowhere.safetensors"});
  });
  for (const auto& failure : failures) EXPECT_EQ(ErrorCode::kNotFound, error_of(failure).code());
}

TEST(PredictCluster, EverySampleComesOnceToProcess0) {
  const testing::TempDir folder;
  const testing::LinearModel model(kClusterFeatures, kClusterClasses);
  std::vector<float> weights(model.parameters().padded_size());
  std::vector<float> buffers(model.buffers().padded_size());
  model.initialise(5, weights, buffers);
  save_weights(folder / "w.safetensors", {{.table = &model.parameters(), .values = weights},
                                          {.table = &model.buffers(), .values = buffers}});
  for (const Layout& layout : kLayouts) {
    std::set<std::string> keys;
    std::mutex mutex;
    expect_no_failure(on_processes(layout, [&](StoppableCluster& cluster) {
      LinearProcess own(cluster.topology());
      const std::int64_t samples =
          predict({.model = own.model,
                   .objective = own.objective,
                   .feed = own.val,
                   .devices = own.devices,
                   .cluster = &cluster},
                  {.precision = nn::Precision::kFloat32, .weights = folder / "w.safetensors"},
                  [&](const Prediction& one) {
                    const std::lock_guard lock(mutex);
                    EXPECT_EQ(0, cluster.topology().process);
                    EXPECT_EQ(static_cast<std::size_t>(kClusterClasses), one.outputs.at(0).size());
                    EXPECT_TRUE(keys.emplace(one.key).second) << one.key;
                  });
      EXPECT_EQ(101, samples);
    }));
    EXPECT_EQ(101U, keys.size()) << name_of(layout);
  }
}

// Two processes' inputs differ, and what limits is where the devices wait.
TEST(EpochReport, SumsTheInputsOfAllProcesses) {
  detail::ProcessReport all;
  on_processes({2, 1}, [&](StoppableCluster& cluster) {
    const bool is_first = cluster.topology().process == 0;
    detail::Processes processes(&cluster, 1);
    const auto gathered = detail::gather_reports(
        processes,
        {.times = {{.all = {.wait = is_first ? 2.0 : 1.0}, .first = {}}},
         .busiest_stage = is_first ? "decode" : "read",
         .input = {.stages = {{.name = "read", .samples = 10, .busy = 0.5, .threads = 2}},
                   .requests = 5,
                   .ready = is_first ? 1 : 3,
                   .filtered = 7,
                   .faults = {{"Corrupt", 1}},
                   .skips = {{.key = is_first ? "a\xff" : "b", .offset = 512}}}});
    if (is_first) all = gathered;
  });
  EXPECT_EQ(all.busiest_stage, "decode");
  ASSERT_EQ(all.input.stages.size(), 1U);
  EXPECT_EQ(all.input.stages[0].samples, 20);
  EXPECT_EQ(all.input.stages[0].threads, 4);
  EXPECT_DOUBLE_EQ(all.input.stages[0].busy, 1.0);
  EXPECT_EQ(all.input.requests, 10);
  EXPECT_EQ(all.input.ready, 4);
  EXPECT_EQ(all.input.filtered, 14);
  EXPECT_EQ(all.input.faults.at("Corrupt"), 2);
  ASSERT_EQ(all.input.skips.size(), 2U);
  EXPECT_EQ(all.input.skips[0].key, "a\xEF\xBF\xBD");
  EXPECT_EQ(all.input.skips[1].offset, 512);
}

}  // namespace
}  // namespace millrace::trainer
