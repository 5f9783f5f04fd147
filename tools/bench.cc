// millrace bench: the throughput of the pipeline, and its bottleneck.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "decode/transforms.h"
#include "device/device.h"
#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "tools/commands.h"
#include "tools/help.h"
#include "tools/metrics_watch.h"
#include "tools/mix_words.h"
#include "tools/multi_crop_option.h"
#include "tools/option_settings.h"
#include "tools/progress.h"
#include "tools/trace_options.h"
#include "tools/train/class_count.h"
#include "tools/train/metered_feed.h"
#include "tools/train/model_option.h"
#include "tools/train/run_options.h"
#include "tools/train/stored_image.h"
#include "tools/train/timed_run.h"
#include "tools/values.h"
#include "tools/version.h"
#include "trainer/feed.h"
#include "trainer/fit.h"

namespace millrace::tools {
namespace {

using Seconds = std::chrono::duration<double>;

class BenchCommand final : public Command {
 public:
  std::string name() const override { return "bench"; }
  std::string summary() const override {
    return "Measures the input's throughput, and what limits it";
  }
  std::string example() const override {
    return "  millrace bench 'train-{000000..000019}.tar' --stage decode --size 224 --augment "
           "'rrc, hflip'\n"
           "  millrace bench 'cifar10/train-{000000..000019}.tar' --stage train --model "
           "'resnet18(stem=3x3)'\n";
  }

  std::vector<const Table*> tables() const override {
    std::vector<const Table*> tables = ModelOption::models();
    for (const Table* table :
         {static_cast<const Table*>(&decode::standard_transforms()), &MultiCropOption::table(),
          &OrderOptions::table(), &FaultOptions::table()})
      tables.push_back(table);
    return tables;
  }
  void declare(CLI::App& app) override {
    read_.declare(app);
    read_.index.declare(app);
    read_.declare_join(app);
    mix_.declare(app);
    app.add_option("--stage", stage_,
                   "read: shards to samples; decode: to batches; train: through the model")
        ->transform(one_of({"read", "decode", "train"}))
        ->check(in_short_help());
    app.add_option("--seconds", seconds_, "How long to measure; the shards are repeated as needed")
        ->transform(real_number(0.1, 1e6))
        ->check(in_short_help());
    order_.declare(app);
    decoding_ = added_options(app, [&] {
      model_.declare(app, choice_);
      multi_crop_.declare(app);
    });
    run_.declare(app);
    decoding_.push_back(app.get_option("--precision"));
    for (CLI::Option* option : added_options(app, [&] { run_.declare_cache(app); }))
      decoding_.push_back(option);
    trace_.declare(app, true);
    metrics_.declare(app);
  }

  void check() override {
    if (stage_ == "train") require_trainer();
    if (stage_ == "read") refuse_given(decoding_, "--stage decode and train");
    model_.settle(choice_);
    if (stage_ == "train") choice_.check();
    choice_.images.check();
    check_multi_crop();
    run_.check();
    order_.settle();
    trace_.check();
    metrics_.check();
    sets_ = read_.specs;
    mix_.check(sets_, order_.chosen(), "");
    read_.specs = MixWords::specs_of(sets_);
    read_.check();
    check_workers(read_.specs, run_, read_, order_.chosen());
  }

  void run(CommandContext& context) override {
    read_.network.attach(context);
    devices_ = start_devices(run_.device_choice(), run_.plugins, {}, context);
    run_.settle({.devices = static_cast<int>(devices_->set.size())});
    run_.topology = {};  // one reader, however many devices take its batches
    if (!metrics_.listen.empty()) watch_.emplace(metrics_, Topology{}, context.log);
    if (stage_ != "read") settle_size(context);
    choice_.settle();
    run_.open_cache(context.log);
    Measured measured;
    trace_work(trace_, *read_.network.opener(), {}, context, [&] {
      measured = stage_ == "train" ? run_training(context) : run_pipeline(context);
    });
    print(measured, context);
  }

 private:
  void check_multi_crop() const {
    if (!multi_crop_.is_given()) return;
    require(stage_ == "decode", "--multi-crop is for --stage decode: no model here takes views");
    static_cast<void>(multi_crop_.views(choice_.images));
  }

  /// Without --size, small pictures are measured at their stored size: the cost of enlarging them
  /// is not what the user wants to know.
  void settle_size(const CommandContext& context) {
    stored_ = find_stored_image({.shards = read_.shards(),
                                 .opener = *read_.network.opener(),
                                 .policy = read_.policy(),
                                 .stop = context.stop});
    ModelChoice usual = choice_;
    usual.settle();
    if (!stored_ || choice_.images.has_size()) return;
    const int side = std::min(stored_->height, stored_->width);
    ModelChoice small = choice_;
    small.images.size = side;
    if (side < usual.images.size.height && (stage_ != "train" || can_train(small))) choice_ = small;
  }

  static bool can_train(const ModelChoice& choice) {
    try {
      choice.check();
      return true;
    } catch (const Error&) {
      return false;
    }
  }

  /// "decode to 32x32x3, stored 32x32x3".
  std::string stage_text() const {
    if (stage_ == "read") return stage_;
    const decode::Extent size = choice_.images.canvas();
    const std::string seen =
        multi_crop_.is_given()
            ? fmt::format("decode to {} views", multi_crop_.views(choice_.images).size())
            : fmt::format("{} {} {}x{}x{}", stage_, stage_ == "decode" ? "to" : "at", size.height,
                          size.width, choice_.images.channels);
    return stored_ ? seen + ", stored " + text(*stored_) : seen;
  }

  struct Measured {
    double seconds = 0;
    std::uint64_t samples = 0;
    pipeline::Statistics statistics = {};
  };

  pipeline::PipelineOptions options(const CommandContext& context) const {
    auto options = make_pipeline_options(
        {.shards = read_.shards(),
         .mix = std::make_shared<const pipeline::MixOptions>(mix_.sets(sets_, read_.lists)),
         .joins = read_.joined(),
         .order = order_.chosen(),
         .training = true},
        choice_, run_, read_, context);
    log_balance(options.found.num_indexed(), context.log);
    options.epochs.count = 0;
    options.resources.autotune.advises = false;  // what is printed at the end has it
    if (stage_ != "train") options.fields.resize(1);
    if (multi_crop_.is_given()) options.fields = view_fields();
    if (stage_ == "read")
      options.fields = {pipeline::FunctionField{
          .name = "nothing",
          .output = {.dtype = decode::DType::kUInt8, .shape = {1}},
          .decode = [](const auto&, const auto&, std::span<std::byte> slot) {
            slot[0] = std::byte{0};
          }}};
    return options;
  }

  std::vector<pipeline::FieldSpec> view_fields() const {
    std::vector<pipeline::FieldSpec> fields;
    for (pipeline::ImageField& view : multi_crop_.fields(choice_.images, run_.input_dtype())) {
      view.tolerate_truncated = read_.faults.tolerate_truncated;
      fields.emplace_back(std::move(view));
    }
    return fields;
  }

  /// Shows the input on the pages of --metrics-listen as long as what is returned exists.
  using Watched = trainer::PrometheusMetrics::Watched;
  std::unique_ptr<Watched> watch(trainer::WatchedRun::Input input) {
    if (!watch_) return nullptr;
    return std::make_unique<Watched>(
        watch_->metrics(), trainer::WatchedRun{.train = std::move(input), .network = [this] {
                                                 return read_.network.state();
                                               }});
  }

  Measured run_pipeline(const CommandContext& context) {
    auto with_stop = options(context);
    with_stop.stop = context.stop;
    pipeline::Pipeline pipeline(std::move(with_stop));
    const auto watched = watch([&] { return trainer::InputState{pipeline.statistics()}; });
    if (watch_) watch_->metrics().on_epoch_start(1);
    const auto start = std::chrono::steady_clock::now();
    Measured measured;
    pipeline::Batch batch;
    Progress progress(context.terminal, "samples", 0, "measuring, waiting for the first batch");
    while (measured.seconds < seconds_) {
      if (pipeline.next(batch)) measured.samples += static_cast<std::uint64_t>(batch.num_valid);
      measured.seconds = Seconds(std::chrono::steady_clock::now() - start).count();
      progress.at(measured.samples, measured.seconds / seconds_);
    }
    measured.statistics = pipeline.statistics();
    return measured;
  }

  Measured run_training(const CommandContext& context) {
    LabelMaps label_maps(*read_.network.opener());
    if (choice_.needs_classes())
      choice_.classes = count_outputs({.shards = read_.shards(),
                                       .joins = read_.joined(),
                                       .opener = *read_.network.opener(),
                                       .label_maps = label_maps,
                                       .policy = read_.policy(),
                                       .stop = context.stop,
                                       .log = context.log},
                                      choice_.task);
    trainer::DeviceThreads threads(devices_->set);
    trainer::LoaderFeed feed(options(context), devices_->set);
    const auto model = choice_.build();
    const auto objective = choice_.task.objective(choice_.classes);
    const auto backend = devices_->make_backend(choice_.images.of_bytes(), context.log);
    MeteredFeed metered(feed);
    const auto watched = watch([&] { return metered.state(); });
    TimedRun timed(seconds_, context.stop);
    trainer::ProgressBar bar(context.terminal);
    std::vector<trainer::Observer*> observers = {&timed, &bar};
    if (watch_) observers.push_back(&watch_->metrics());
    trainer::fit({.model = *model,
                  .objective = *objective,
                  .train = metered,
                  .devices = threads,
                  .backend = backend.get()},
                 {.epochs = 1 << 20,
                  .precision = run_.precision.compute(),
                  .optimizer = {.rule = trainer::Sgd{.lr = 1e-3, .momentum = 0.0F}},
                  .log_steps = 0,
                  .stop = timed.token(),
                  .log = {},
                  .trace = context.trace},
                 observers);
    if (context.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "measuring was stopped");
    return {.seconds = timed.seconds(),
            .samples = timed.samples(),
            .statistics = feed.pipeline()->statistics()};
  }

  /// With the stages' names as a run's verdict has them.
  pipeline::Statistics shown(pipeline::Statistics statistics) const {
    const bool over_network = read_.network.reads_network(read_.shards());
    for (pipeline::StageStatistics& stage : statistics.stages)
      stage.name = shown_stage(stage.name, over_network);
    return statistics;
  }

  void print(const Measured& measured, CommandContext& context) const {
    const pipeline::StageStatistics& read = measured.statistics.stage("read");
    const double samples_per_s = static_cast<double>(measured.samples) / measured.seconds;
    const double bytes_per_s = read.items == 0 ? 0
                                               : samples_per_s * static_cast<double>(read.bytes) /
                                                     static_cast<double>(read.items);
    if (context.json) {
      print_json(measured, samples_per_s, bytes_per_s, context.out);
      return;
    }
    context.out.line(fmt::format("{:.0f} samples/s, {:.1f} MB/s of fields, in {:.1f} s ({})",
                                 samples_per_s, bytes_per_s / 1e6, measured.seconds, stage_text()));
    const std::string text = shown(measured.statistics).to_text();
    context.out.line(text.substr(0, text.find_last_not_of('\n') + 1));
  }

  void print_json(const Measured& measured, double samples_per_s, double bytes_per_s,
                  Output& out) const {
    auto stages = nlohmann::ordered_json::object();
    for (const pipeline::StageStatistics& stage : measured.statistics.stages)
      stages[stage.name] = {{"items", stage.items},
                            {"bytes", stage.bytes},
                            {"busy_s", Seconds(stage.busy).count()},
                            {"waiting_s", Seconds(stage.waiting).count()},
                            {"threads", stage.threads},
                            {"utilisation", stage.utilisation()}};
    nlohmann::ordered_json line = {{"samples_per_s", samples_per_s},
                                   {"bytes_per_s", bytes_per_s},
                                   {"stage", stage_},
                                   {"stages", stages},
                                   {"verdict", shown(measured.statistics).verdict().text}};
    if (multi_crop_.is_given()) {
      for (const ImageOptions& view : multi_crop_.views(choice_.images))
        line["views"].push_back({view.size.height, view.size.width, view.channels});
    } else if (stage_ != "read") {
      line["image"] = {choice_.images.canvas().height, choice_.images.canvas().width,
                       choice_.images.channels};
    }
    if (const pipeline::Tuning& tuning = measured.statistics.tuning; tuning.on)
      line["autotune"] = {{"read_ahead", tuning.read_ahead},
                          {"readers", tuning.readers},
                          {"decode_threads", tuning.decode_threads},
                          {"text", tuning.text}};
    if (const pipeline::DecodedPictures& pictures = measured.statistics.pictures;
        pictures.decoded + pictures.found > 0)
      line["pictures"] = {
          {"decoded", pictures.decoded},     {"found", pictures.found},
          {"kept", pictures.kept},           {"kept_bytes", pictures.kept_bytes},
          {"set_bytes", pictures.set_bytes}, {"text", measured.statistics.about_pictures()}};
    if (stored_) line["stored"] = {stored_->height, stored_->width, stored_->channels};
    out.line(line.dump());
  }

  ReadOptions read_;
  MixWords mix_;
  std::vector<std::string> sets_;  // the specs, with their weights
  ModelOption model_;
  ModelChoice choice_;
  MultiCropOption multi_crop_;
  RunOptions run_;
  std::optional<RunDevices> devices_;
  std::string stage_ = "decode";
  std::vector<CLI::Option*> decoding_;  ///< what no reading of shards takes
  double seconds_ = 5;
  std::optional<StoredImage> stored_;
  OrderOptions order_;
  TraceFileOptions trace_;
  MetricsOptions metrics_;
  std::optional<RunWatch> watch_;
};

}  // namespace

std::unique_ptr<Command> make_bench_command() { return std::make_unique<BenchCommand>(); }

}  // namespace millrace::tools
