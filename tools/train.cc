// millrace train: shards to a trained model.
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <ctime>
#include <filesystem>

#include "device/device.h"
#include "io/base/error.h"
#include "tools/commands.h"
#include "tools/output_place.h"
#include "tools/train/class_count.h"
#include "tools/train/json_observer.h"
#include "tools/train/limited_feed.h"
#include "tools/train/run_options.h"
#include "trainer/feed.h"
#include "trainer/fit.h"
#include "trainer/progress_bar.h"

namespace millrace::tools {
namespace {

constexpr const char* kAutoRunDir = "auto";

struct LimitOptions {
  std::int64_t train_batches = 0;
  std::int64_t val_batches = 0;
  bool fast_dev_run = false;
};

class TrainCommand final : public Command {
 public:
  std::string name() const override { return "train"; }
  std::string summary() const override { return "Trains a model on shards"; }
  std::string example() const override {
    return "  millrace train --train 'cifar10/train-{000000..000019}.tar' \\\n"
           "      --val 'cifar10/test-{000000..000003}.tar' --model resnet18 --stem 3x3 \\\n"
           "      --devices 2 --batch-size 64 --epochs 3 --lr 0.1 --augment crop-flip\n"
           "  millrace train --config recipe.toml --run-dir runs/one --resume auto\n";
  }

  void declare(CLI::App& app) override {
    app.add_option("--train", train_, "Shards to train on")->required()->type_name("SPEC");
    app.add_option("--val", val_, "Shards to evaluate on after each epoch")->type_name("SPEC");
    choice_.declare(app);
    run_.declare(app);
    declare_optimisation(app);
    declare_run(app);
    read_.declare_policy(app);
  }

  void check() override {
    choice_.check();
    run_.check();
    read_.check(train_);
    if (!val_.empty()) read_.check(val_);
    check_workers(read_.shards(train_), run_);
    if (!val_.empty()) check_workers(read_.shards(val_), run_);
    static_cast<void>(trainer::Schedule(schedule()));
    check_run_dir();
  }

  void run(Context& context) override {
    prepare(context);
    const auto devices = device::DeviceSet::parse(run_.devices);
    trainer::DeviceThreads threads(devices);
    const auto train_shards = read_.shards(train_);
    if (choice_.classes == 0)
      choice_.classes = count_classes({.shards = train_shards,
                                       .opener = *read_.opener(),
                                       .policy = read_.policy(),
                                       .stop = context.stop,
                                       .log = context.log});
    const auto model = choice_.build();
    const trainer::LossObjective objective;
    trainer::LoaderFeed train_feed(
        input({.shards = train_shards, .shuffle = shuffle_, .seed = seed_, .training = true},
              context),
        devices);
    std::optional<trainer::LoaderFeed> val_feed;
    if (!val_.empty()) val_feed.emplace(input({.shards = read_.shards(val_)}, context), devices);
    LimitedFeed limited_train(train_feed, limits_.train_batches, threads.size());
    std::optional<LimitedFeed> limited_val;
    if (val_feed) limited_val.emplace(*val_feed, limits_.val_batches, threads.size());
    print_header(*model, threads.size(), train_shards.size(), context);
    fit({.model = *model,
         .objective = objective,
         .train = limited_train,
         .validation = limited_val ? &*limited_val : nullptr,
         .devices = threads},
        context);
  }

 private:
  void declare_optimisation(CLI::App& app) {
    app.add_option("--epochs", epochs_)->check(CLI::Range(1, 1 << 20));
    app.add_option("--optimizer", optimizer_)
        ->check(CLI::IsMember({"sgd", "adam", "adamw", "lars"}));
    app.add_option("--lr", lr_, "Learning rate")->check(CLI::PositiveNumber);
    app.add_option("--momentum", momentum_, "Of sgd and lars")->check(CLI::Range(0.0, 1.0));
    app.add_option("--weight-decay", weight_decay_)->check(CLI::NonNegativeNumber);
    app.add_option("--schedule", schedule_, "How the learning rate falls, epoch by epoch")
        ->check(CLI::IsMember({"constant", "step", "exponential", "cosine"}));
    app.add_option("--step-epochs", step_epochs_, "step: epochs between two cuts")
        ->check(CLI::Range(1, 1 << 20));
    app.add_option("--gamma", gamma_, "step, exponential: what the rate is multiplied by")
        ->check(CLI::PositiveNumber);
  }

  void declare_run(CLI::App& app) {
    app.add_option("--seed", seed_, "Keys weights, shuffles and augmentation");
    app.add_option("--shuffle", shuffle_,
                   "Samples in each stream's shuffle buffer; 0: neither samples nor shards")
        ->check(CLI::Range(std::int64_t{0}, std::int64_t{1} << 32));
    app.add_option("--run-dir", run_dir_,
                   "Folder for metrics, configuration and checkpoints; auto: "
                   "runs/MODEL-DATE-TIME; none: nothing is written");
    app.add_flag("--force", force_, "Start anew in a --run-dir that holds a run");
    app.add_option("--resume", resume_,
                   "Checkpoint to go on from; auto: the newest one in --run-dir, if there is one");
    app.add_option("--log-steps", log_steps_, "Steps between two log lines; 0: none")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--limit-train-batches", limits_.train_batches,
                   "Batches a device and epoch, at most; 0: all")
        ->check(CLI::NonNegativeNumber);
    app.add_option("--limit-val-batches", limits_.val_batches,
                   "Batches a device and evaluation, at most; 0: all")
        ->check(CLI::NonNegativeNumber);
    app.add_flag("--fast-dev-run", limits_.fast_dev_run,
                 "One epoch of one batch, and nothing written: does it all work?");
  }

  /// Settles what depends on other options.
  void prepare(Context& /*context*/) {
    choice_.settle();
    if (limits_.fast_dev_run) {
      epochs_ = 1;
      limits_.train_batches = limits_.val_batches = 1;
      run_dir_ = "none";
    }
    if (run_dir_ == kAutoRunDir)
      run_dir_ = fmt::format("runs/{}-{:%Y%m%d-%H%M%S}", choice_.model,
                             fmt::localtime(std::time(nullptr)));
    if (run_dir_ == "none") run_dir_.clear();
  }

  void check_run_dir() const {
    namespace fs = std::filesystem;
    if (resume_ == "auto" && run_dir_ == kAutoRunDir)
      throw Error(ErrorCode::kInvalidArgument, "--resume auto needs a --run-dir to look into");
    if (!resume_.empty() && resume_ != "auto" && !fs::exists(resume_))
      throw Error(ErrorCode::kInvalidArgument, "no checkpoint at " + resume_);
    if (run_dir_ == "none" || limits_.fast_dev_run) return;
    const bool chosen = run_dir_ != kAutoRunDir;
    check_writable_folder(chosen ? run_dir_ : "runs");
    if (chosen && resume_.empty() && !force_ && fs::exists(run_dir_ + "/metrics.jsonl"))
      throw Error(ErrorCode::kInvalidArgument,
                  run_dir_ + " holds a run: go on with --resume auto, or start anew with --force");
  }

  pipeline::PipelineOptions input(const InputOptions& input, const Context& context) const {
    return make_pipeline_options(input, choice_, run_, read_, context);
  }

  trainer::ScheduleOptions schedule() const {
    return {.kind = trainer::parse_schedule_kind(schedule_),
            .base_lr = lr_,
            .epochs = static_cast<double>(epochs_),
            .step_epochs = step_epochs_,
            .gamma = gamma_};
  }

  trainer::TrainOptions train_options(const Context& context) const {
    return {.epochs = epochs_,
            .precision = run_.compute_precision(),
            .seed = seed_,
            .optimizer = {.kind = trainer::parse_optimizer_kind(optimizer_),
                          .momentum = optimizer_ == "sgd" || optimizer_ == "lars" ? momentum_ : 0,
                          .weight_decay = weight_decay_,
                          .round_to_bf16 = run_.rounds_weights()},
            .schedule = schedule(),
            .log_steps = log_steps_,
            .run_folder = run_dir_,
            .config_json = choice_.to_json(),
            .resume = resume_,
            .stop = context.stop,
            .log = context.log};
  }

  void print_header(const trainer::Model& model, int devices, std::size_t shards,
                    const Context& context) const {
    context.log.info(fmt::format("{}: {} parameters, {} classes, {}x{}x{} images, {}", model.name(),
                                 model.parameters().num_values(), choice_.classes,
                                 choice_.images.size, choice_.images.size, choice_.images.channels,
                                 run_.precision));
    context.log.info(fmt::format(
        "{} shards, {} devices x batch size {} = {} samples a step; {} lr {} {}, {} epochs{}",
        shards, devices, run_.batch_size, devices * run_.batch_size, optimizer_, lr_, schedule_,
        epochs_, run_dir_.empty() ? "" : "; run folder " + run_dir_));
  }

  void fit(const trainer::FitInput& input, Context& context) const {
    trainer::ProgressBar bar;
    JsonObserver json(context.out);
    std::vector<trainer::Observer*> observers = {&bar};
    if (context.json) observers.push_back(&json);
    const auto result = trainer::fit(input, train_options(context), observers);
    if (result.end.interrupted)
      throw Error(
          ErrorCode::kCancelled,
          "training was stopped, checkpoint " +
              (result.last_checkpoint.empty() ? std::string("none") : result.last_checkpoint));
  }

  std::vector<std::string> train_;
  std::vector<std::string> val_;
  ModelChoice choice_;
  RunOptions run_;
  ReadOptions read_;
  LimitOptions limits_;
  std::int64_t epochs_ = 1;
  std::string optimizer_ = "sgd";
  double lr_ = 0.1;
  float momentum_ = 0.9F;
  float weight_decay_ = 0.0F;
  std::string schedule_ = "cosine";
  int step_epochs_ = 30;
  double gamma_ = 0.1;
  std::uint64_t seed_ = 0;
  std::int64_t shuffle_ = 5000;
  std::string run_dir_ = kAutoRunDir;
  bool force_ = false;
  std::string resume_;
  std::int64_t log_steps_ = 20;
};

}  // namespace

std::unique_ptr<Command> make_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace millrace::tools
