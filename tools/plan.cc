// millrace plan: what a run on many machines would take, before there are any.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/opener.h"
#include "tools/commands.h"
#include "tools/plugins/device_plan.h"
#include "tools/train/step_program.h"
#include "tools/values.h"
#include "trainer/models/resnet.h"
#include "trainer/reduce_cost.h"

namespace millrace::tools {
namespace {

/// Of a training step's time, what backward takes.
constexpr double kBackwardShare = 2.0 / 3.0;
/// Per value that is added to another: memory's bandwidth, as reduce_bench found it.
constexpr double kAddSeconds = 0.5e-9;

/// An epoch's samples over the processes.
struct Share {
  std::int64_t most = 0;   ///< samples of the process that has most
  double imbalance = 1.0;  ///< most over the mean
  std::int64_t steps = 0;  ///< of an epoch
  double masked = 0;       ///< of its slots
};

class PlanCommand final : public Command {
 public:
  std::string name() const override { return "plan"; }
  std::string summary() const override {
    return "Estimates steps, memory and efficiency of a run on many machines";
  }
  std::string example() const override {
    return "  millrace plan --samples 1281167 --shards 1282 --model resnet50 --batch-size 64 \\\n"
           "      --processes 1024 --processes-per-node 8 --step-ms 2800 --bandwidth 25\n\n"
           "The step's time is that of one device alone: `millrace bench --stage train`, or a "
           "short "
           "run's stall\nreport.\n\n"
           "  millrace plan --device v5e:2x4 --model resnet50 --batch-size 128 --input-rate "
           "1900\n\n"
           "compiles the training step for devices that need not be there: does it fit, how long "
           "does "
           "it take,\nand does this machine's input keep up?\n";
  }

  std::vector<const Table*> tables() const override { return StepOptions::tables(); }

  void declare(CLI::App& app) override {
    declare_data(app);
    app.option_defaults()->group("Run");
    app.add_option("--processes", topology_.processes, "Processes of the run")
        ->transform(whole_number(1, kMaxReplicas));
    app.add_option("--processes-per-node", topology_.node_processes, "Of them, on each machine")
        ->transform(whole_number(1, 4096));
    app.add_option("--devices", topology_.devices, "Devices of each process")
        ->transform(whole_number(1, 4096));
    app.add_option("--batch-size", batch_size_, "Samples per device in a step")
        ->transform(whole_number(1, 1 << 20));
    app.add_option("--parameters", parameters_, "The number of parameters instead; 0: --model's")
        ->transform(whole_number(0, std::uint64_t{1} << 40U));
    app.add_option("--step-ms", step_ms_, "Milliseconds of a step on one device alone")
        ->transform(above_zero());
    step_.declare(app);
    app.option_defaults()->group("Network");
    app.add_option("--bandwidth", gigabits_, "Gbit/s of a machine's link, each way")
        ->transform(above_zero());
    app.add_option("--latency-us", latency_us_, "Microseconds that a message takes")
        ->transform(real_number(0, 1e9));
    app.option_defaults()->group("Accelerators");
    app.add_option("--device", device_.device,
                   "Compile the training step for this accelerator, by its PJRT plugin, and say "
                   "whether it fits and what it takes at least: v5e:2x4, h100, h100:8, ...")
        ->option_text("NAME");
    app.add_option("--program", program_,
                   "This StableHLO module instead: the step of one replica of all of the device's")
        ->option_text("FILE")
        ->check(existing_file());
    app.add_option("--input-rate", device_.input_rate,
                   "Samples/s that `millrace bench SPEC` found on the machine that will feed the "
                   "devices: whether they wait for it; 0: unknown")
        ->transform(real_number(0, 1e12));
    device_.plugins.declare(app, "Seconds that compiling may take");
  }

  void check() override {
    device_.plugins.check();
    require(!device_.device.empty() || (program_.empty() && device_.input_rate == 0),
            "--program and --input-rate are of --device");
    step_.settle();
    if (!device_.device.empty()) accelerator_of(device_.device);
    require(static_cast<std::int64_t>(topology_.processes) * topology_.devices <= kMaxReplicas,
            "--processes x --devices: at most 100000 replicas");
    require(topology_.processes <= samples_,
            fmt::format("--processes {}: there are {} samples", topology_.processes, samples_));
    topology_.node_processes = std::min(topology_.node_processes, topology_.processes);
  }

  void run(CommandContext& context) override {
    if (!device_.device.empty()) {
      device_.batch_size = batch_size_;
      device_.program = step_text(context);
      return plan_device(device_, context);
    }
    const Share share = share_of_processes();
    const std::size_t values = num_parameters();
    const double step = step_ms_ / 1e3;
    const trainer::ReduceCost cost = trainer::reduce_cost(
        {.topology = topology_,
         .values = values,
         .network = {.latency = latency_us_ / 1e6, .bandwidth = gigabits_ * 1e9 / 8},
         .add = kAddSeconds,
         .forward = (1.0 - kBackwardShare) * step,
         .backward = kBackwardShare * step});
    const nlohmann::ordered_json plan = {
        {"processes", topology_.processes},
        {"nodes", num_nodes()},
        {"replicas", topology_.world_size()},
        {"global_batch", topology_.world_size() * batch_size_},
        {"steps_per_epoch", share.steps},
        {"imbalance", share.imbalance},
        {"masked_share", share.masked},
        {"bytes_per_node", bytes_per_node()},
        {"parameters", values},
        {"memory_per_process", memory_per_process(values)},
        {"reduce_scatter_s", cost.reduce_scatter},
        {"all_gather_s", cost.all_gather},
        {"reduce_exposed_s", cost.exposed},
        {"reduce_hidden_s", cost.hidden},
        {"step_s", step + cost.exposed},
        {"epoch_s", static_cast<double>(share.steps) * (step + cost.exposed)},
        {"efficiency", step / (step + cost.exposed) * (1.0 - share.masked)}};
    context.json ? context.out.line(plan.dump()) : print(plan, context);
  }

 private:
  static constexpr std::int64_t kMaxReplicas = 100'000;

  void declare_data(CLI::App& app) {
    app.option_defaults()->group("Data");
    app.add_option("--samples", samples_, "Samples in an epoch")->transform(whole_number(1));
    app.add_option("--sample-bytes", sample_bytes_, "Bytes of a sample in its shard")
        ->transform(whole_number(1));
    app.add_option("--shards", shards_,
                   "Whole shards are divided, of which there are N; 0: samples are, by the shards' "
                   "indexes")
        ->transform(whole_number(0, std::uint64_t{1} << 40U));
  }

  /// Processes take equal numbers of steps: those of the one that has most.
  Share share_of_processes() const {
    const std::int64_t processes = topology_.processes;
    const auto per = [](std::int64_t value, std::int64_t by) { return (value + by - 1) / by; };
    const double mean = static_cast<double>(samples_) / static_cast<double>(processes);
    Share share{.most = per(samples_, processes)};
    if (shards_ > 0)
      share.most = std::min(samples_, per(shards_, processes) * per(samples_, shards_));
    share.imbalance = static_cast<double>(share.most) / mean;
    share.steps = per(per(share.most, batch_size_), topology_.devices);
    const auto slots = static_cast<double>(share.steps * batch_size_) *
                       static_cast<double>(topology_.world_size());
    share.masked = 1.0 - static_cast<double>(samples_) / slots;
    return share;
  }

  std::int64_t num_nodes() const {
    return (topology_.processes + topology_.node_processes - 1) / topology_.node_processes;
  }

  double bytes_per_node() const {
    return static_cast<double>(samples_) * static_cast<double>(sample_bytes_) /
           static_cast<double>(num_nodes());
  }

  std::size_t num_parameters() const {
    if (parameters_ > 0) return static_cast<std::size_t>(parameters_);
    return static_cast<std::size_t>(step_.choice().build()->parameters().num_values());
  }

  /// The step's module.
  std::string step_text(CommandContext& context) const {
    constexpr std::size_t kMost = std::size_t{256} << 20U;
    if (!program_.empty())
      return std::string(io::read_object(io::UrlOpener(), program_, kMost).text());
    const int replicas = accelerator_of(device_.device).devices;
    context.log.info(fmt::format("a step of {} with {} on each of {}", step_.choice().name(),
                                 counted(static_cast<std::uint64_t>(batch_size_), "sample"),
                                 counted(static_cast<std::uint64_t>(replicas), "device")));
    return make_program(step_.program(batch_size_, replicas)).text;
  }

  /// Weights, a momentum, and gradients of each device, in float32; without activations.
  double memory_per_process(std::size_t values) const {
    return 4.0 * static_cast<double>(values) * (2.0 + topology_.devices);
  }

  void print(const nlohmann::ordered_json& plan, CommandContext& context) const {
    const auto number = [&](const char* key) { return plan.at(key).get<double>(); };
    context.out.line(fmt::format(
        "{} on {}, {} each: {} replicas, {} per step",
        counted(static_cast<std::uint64_t>(topology_.processes), "process"),
        counted(static_cast<std::uint64_t>(num_nodes()), "machine"),
        counted(static_cast<std::uint64_t>(topology_.devices), "device"), topology_.world_size(),
        counted(plan.at("global_batch").get<std::uint64_t>(), "sample")));
    context.out.line(
        fmt::format("{} per epoch; the fullest process has {:.3f} of the mean, {:.1f} % "
                    "of the slots are masked",
                    counted(plan.at("steps_per_epoch").get<std::uint64_t>(), "step"),
                    number("imbalance"), 100 * number("masked_share")));
    context.out.line(
        fmt::format("{:.1f} GB per epoch to each machine; {:.2f} GB of weights, "
                    "gradients and state in each process",
                    number("bytes_per_node") / 1e9, number("memory_per_process") / 1e9));
    context.out.line(
        fmt::format("sums of {} parameters: {:.1f} ms there, {:.1f} ms back; {:.1f} ms exposed, "
                    "{:.1f} ms hidden",
                    plan.at("parameters").get<std::size_t>(), 1e3 * number("reduce_scatter_s"),
                    1e3 * number("all_gather_s"), 1e3 * number("reduce_exposed_s"),
                    1e3 * number("reduce_hidden_s")));
    context.out.line(fmt::format("a step {:.1f} ms, an epoch {:.1f} s; efficiency {:.1f} %",
                                 1e3 * number("step_s"), number("epoch_s"),
                                 100 * number("efficiency")));
  }

  static constexpr std::int64_t kCompileSeconds = 900;  // ResNet-50 for a TPU takes 250

  DevicePlanRequest device_{.plugins = {.timeout = kCompileSeconds}};
  Topology topology_{.processes = 8};
  std::int64_t samples_ = 1'281'167;
  std::int64_t sample_bytes_ = 110'000;
  std::int64_t shards_ = 0;
  std::int64_t batch_size_ = 64;
  StepOptions step_{trainer::models::ResNet50()};
  std::string program_;
  std::int64_t parameters_ = 0;
  double step_ms_ = 1000;
  double gigabits_ = 25;
  double latency_us_ = 20;
};

}  // namespace

std::unique_ptr<Command> make_plan_command() { return std::make_unique<PlanCommand>(); }

}  // namespace millrace::tools
