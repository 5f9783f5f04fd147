// Images per second of whole training steps (forward, loss, backward, SGD with momentum), next to
// the same convolutions as bare oneDNN primitives, and to PyTorch on the same cores.
//
//   train_step [--seconds S] [--no-peer] [CASE...]
//   train_step --profile bf16|fp32 [--seconds S] CASE...    the steps alone, for a profiler
//
// A case is one of the names printed; without one all are run. With one thread (OMP_NUM_THREADS=1)
// the clock is the process's CPU time, so that a busy machine does not distort the ratios.
#include <omp.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "bench/convolution_rate.h"
#include "bench/cpu_clock.h"
#include "io/base/rng.h"
#include "trainer/collectives.h"
#include "trainer/composed_backend.h"
#include "trainer/loss/cross_entropy.h"
#include "trainer/loss/value_losses.h"
#include "trainer/models/models.h"
#include "trainer/nn/plan.h"

namespace millrace {
namespace {

using trainer::nn::Precision;

struct Case {
  std::string name;
  std::string model;
  trainer::ModelOptions options;
  std::int64_t batch;
};

const std::vector<Case>& cases() {
  static const std::vector<Case> all = {
      {"lenet/28", "lenet", {.num_classes = 10, .in_channels = 1, .image = 28}, 128},
      {"resnet18-3x3/32", "resnet18(stem=3x3)", {.num_classes = 10, .image = 32}, 128},
      {"resnet18/32", "resnet18", {.num_classes = 10, .image = 32}, 128},
      {"resnet50/224", "resnet50", {.image = 224}, 32},
      {"alexnet/224", "alexnet", {.image = 224}, 128},
      {"unet/96", "unet", {.image = 96}, 32},
  };
  return all;
}

// Everything that a replica holds.
struct Replica {
  trainer::GraphModel model;
  std::unique_ptr<trainer::ComposedBackend> backend = trainer::make_cpu_backend();
  trainer::DeviceBuffer parameters, gradients, momentum, buffers, kept_buffers;
  std::vector<std::uint16_t> images;
  std::vector<std::int64_t> labels;
  std::vector<float> zeros;  // the target of an image head
  std::vector<std::uint8_t> valid;
  std::unique_ptr<trainer::nn::Plan> plan;
  std::unique_ptr<trainer::Loss> loss;
  std::vector<std::unique_ptr<trainer::Collectives>> group = trainer::make_thread_collectives(1);
  std::unique_ptr<trainer::Updater> updater;
  std::int64_t steps = 0;

  Replica(const Case& run, Precision precision)
      : model(run.model, trainer::build_model(run.model, run.options)),
        parameters(backend->allocate(model.parameters().padded_size())),
        gradients(backend->allocate(parameters.span.size())),
        momentum(backend->allocate(parameters.span.size())),
        buffers(backend->allocate(model.buffers().padded_size())),
        kept_buffers(backend->allocate(buffers.span.size())),
        labels(static_cast<std::size_t>(run.batch), 1),
        valid(labels.size(), 1),
        loss((graph().outputs().size() == 1 ? trainer::LossChoice(trainer::losses::CrossEntropy())
                                            : trainer::LossChoice(trainer::losses::Mse()))
                 .make()) {
    start_values();
    plan = backend->compile(
        model,
        {.batch_size = run.batch, .precision = precision, .input_dtype = decode::DType::kBFloat16},
        {parameters.span, gradients.span, buffers.span});
    updater = backend->make_updater({.optimizer = {.rule = trainer::Sgd{.momentum = 0.9F}},
                                     .parameters = model.parameters(),
                                     .weights = parameters.span,
                                     .states = {momentum.span},
                                     .gradients = gradients.span,
                                     .buffers = buffers.span,
                                     .kept_buffers = kept_buffers.span,
                                     .owned = {{0, parameters.span.size()}},
                                     .group = *group.front()});
    KeyedRng rng({.seed = 2});
    images.resize(static_cast<std::size_t>(run.batch * run.options.in_channels *
                                           run.options.image.height * run.options.image.width));
    for (auto& value : images) value = decode::to_bfloat16(rng.normal());
  }

  const trainer::nn::Graph& graph() const { return *model.graph(); }

  void start_values() {
    std::vector<float> weights(parameters.span.size());
    std::vector<float> statistics(buffers.span.size());
    model.initialise(1, weights, statistics);
    backend->write(weights, parameters.span);
    backend->write(statistics, buffers.span);
  }

  void step() {
    backend->copy(buffers.span, kept_buffers.span);
    const std::span<const std::byte> input = std::as_bytes(std::span(images));
    plan->forward({&input, 1}, trainer::nn::Mode::kTrain);
    for (std::size_t i = 0; i < plan->num_outputs(); ++i) {
      const trainer::nn::OutputView output = plan->output(i);
      zeros.resize(output.data.size());
      loss->evaluate({.prediction = output,
                      .target = {.labels = labels, .values = zeros},
                      .valid = valid,
                      .divisor = static_cast<double>(labels.size()),
                      .gradient = plan->output_gradient(i).data});
    }
    plan->backward(nullptr);
    updater->measure(1.0, {});
    updater->update({.lr = 1e-3F, .step = ++steps});
    plan->parameters_changed();
  }
};

// The fastest step: the speed of the cores without other load.
double best_step(Replica& replica, double seconds) {
  replica.step();
  double best = 1e9;
  const double begin = bench::now();
  do {
    const double start = bench::now();
    replica.step();
    best = std::min(best, bench::now() - start);
  } while (bench::now() - begin < seconds);
  return best;
}

// PyTorch's images per second, or 0 if python3 has no torch.
double peer_rate(const Case& run, Precision precision, double seconds) {
  const std::string command =
      "/usr/bin/python3 bench/peers/torch_train_step.py " + run.name + ' ' +
      std::to_string(run.batch) + (precision == Precision::kBFloat16 ? " bf16 " : " fp32 ") +
      std::to_string(omp_get_max_threads()) + ' ' + std::to_string(seconds) + " 2>/dev/null";
  std::FILE* pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return 0;
  double rate = 0;
  if (std::fscanf(pipe, "%lf", &rate) != 1) rate = 0;
  ::pclose(pipe);
  return rate;
}

struct Options {
  double seconds = 4;
  bool peer = true;
  std::string profile;  // a precision, or empty
  std::vector<std::string> names;
};

double run_case(const Case& run, Precision precision, const Options& options) {
  const bool half = precision == Precision::kBFloat16;
  Replica replica(run, precision);
  const auto batch = static_cast<double>(run.batch);
  const double ours = batch / best_step(replica, options.seconds);
  const double limit = batch / bench::convolution_seconds(replica.graph(), run.batch, half);
  const double peer = options.peer ? peer_rate(run, precision, options.seconds) : 0;
  std::printf("%-16s %-5s batch %-4ld %9.1f images/s   convolutions alone %9.1f, share %4.0f %%",
              run.name.c_str(), half ? "bf16" : "fp32", static_cast<long>(run.batch), ours, limit,
              100 * ours / limit);
  if (peer > 0) std::printf("   PyTorch %8.1f, ratio %.2f", peer, ours / peer);
  std::printf("   activations %.0f MB\n",
              static_cast<double>(replica.plan->activation_bytes()) / 1e6);
  std::fflush(stdout);
  return ours;
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--no-peer") {
      options.peer = false;
    } else if (argument == "--profile" && i + 1 < argc) {
      options.profile = argv[++i];
    } else if (argument == "--seconds" && i + 1 < argc) {
      options.seconds = std::atof(argv[++i]);
    } else {
      options.names.push_back(argument);
    }
  }
  return options;
}

void profile_case(const Case& run, const Options& options) {
  const auto precision = options.profile == "bf16" ? Precision::kBFloat16 : Precision::kFloat32;
  Replica replica(run, precision);
  std::printf("%s %s %.1f images/s\n", run.name.c_str(), options.profile.c_str(),
              static_cast<double>(run.batch) / best_step(replica, options.seconds));
}

void run_all(const Options& options) {
  for (const Case& run : cases()) {
    const bool wanted =
        options.names.empty() || std::ranges::find(options.names, run.name) != options.names.end();
    if (!wanted) continue;
    if (!options.profile.empty()) {
      profile_case(run, options);
      continue;
    }
    const double half = run_case(run, Precision::kBFloat16, options);
    const double whole = run_case(run, Precision::kFloat32, options);
    std::printf("%-16s bf16 over fp32 %.2f\n", run.name.c_str(), half / whole);
  }
}

}  // namespace
}  // namespace millrace

int main(int argc, char** argv) {
  std::printf("%d threads, bf16 %s\n", omp_get_max_threads(),
              millrace::trainer::nn::has_native_bfloat16() ? "native" : "emulated");
  millrace::run_all(millrace::parse(argc, argv));
}
