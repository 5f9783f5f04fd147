// millrace eval: a checkpoint's exact metrics on shards.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "device/device.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/commands.h"
#include "tools/help.h"
#include "tools/label_map.h"
#include "tools/option_settings.h"
#include "tools/output_place.h"
#include "tools/parse.h"
#include "tools/progress.h"
#include "tools/report/evaluation.h"
#include "tools/report/gallery.h"
#include "tools/run_processes.h"
#include "tools/train/evaluation_files.h"
#include "tools/train/limited_feed.h"
#include "tools/train/pictures.h"
#include "tools/train/run_objective.h"
#include "tools/train/run_options.h"
#include "tools/train/saved_run.h"
#include "tools/train/stored_image.h"
#include "tools/train/view_objective.h"
#include "tools/values.h"
#include "tools/version.h"
#include "tools/view/picture.h"
#include "trainer/checkpoint.h"
#include "trainer/cluster.h"
#include "trainer/evaluate.h"
#include "trainer/evaluation_details.h"
#include "trainer/feed.h"
#include "trainer/log_lines.h"
#include "trainer/monitor.h"
#include "trainer/progress_bar.h"

namespace millrace::tools {
namespace {

/// Shuffle buffer of each stream for --pictures.
constexpr std::int64_t kShuffleSamples = 100;
constexpr int kMaxResize = 16384;

class EvalCommand final : public Command {
 public:
  std::string name() const override { return "eval"; }
  std::string summary() const override { return "Evaluates a checkpoint, every sample once"; }
  std::string example() const override {
    return "  millrace eval --checkpoint runs/one/checkpoints/best 'test-{000000..000003}.tar'\n";
  }

  void declare(CLI::App& app) override {
    app_ = &app;
    read_.declare(app);
    read_.index.declare(app);
    read_.declare_join(app);
    declare_model(app);
    app.add_option("--limit-batches", limit_, "Maximum batches per device; 0: all")
        ->transform(whole_number(0));
    declare_pictures(app);
    declare_report(app);
    order_.declare_range(app);
    order_.declare_where(app);
    order_.declare_uneven(app);
    run_.declare(app);
    declare_views(app, views_);
    declare_heartbeat_timeout(app, heartbeat_timeout_);
  }

  void check() override {
    require_trainer();
    run_.check();
    read_.check();
    order_.settle();
    check_checkpoint(checkpoint_);
    require(!pictures_.shuffle || !pictures_.path.empty(), "--shuffle-seed is for --pictures");
    for (const std::string& file : {report_, details_})
      if (!file.empty()) check_output_file(file, replace());
    if (!pictures_.path.empty()) check_picture_name(pictures_.path);
    if (!pictures_.path.empty()) check_output(pictures_.path);
    if (!pictures_.path.empty()) check_folder_of(pictures_.path);
    check_workers(read_.specs, run_, read_);
  }

  void run(CommandContext& context) override {
    read_.network.attach(context);
    processes_.emplace(context, ProcessOptions{.devices = run_.device_choice(),
                                               .plugins = run_.plugins,
                                               .heartbeat_timeout = heartbeat_timeout_});
    processes_->guard(context, [&] { evaluate(context); });
  }

 private:
  void declare_model(CLI::App& app) {
    app.add_option("--checkpoint", checkpoint_,
                   "Folder that `millrace train` wrote, or its URL: a checkpoint, or a run, whose "
                   "best checkpoint is used")
        ->required()
        ->type_name("PATH")
        ->transform(output_path())
        ->check(names_contents());
    app.add_option_function<std::string>(
           "--size", [this](const std::string& text) { size_ = parse_extent("--size", text); },
           "Size of the pictures, where it is not the checkpoint's: N, or height x width; they are "
           "resized before they are cropped as much larger as the checkpoint's")
        ->type_name("N|HxW");
    app.add_option("--eval-resize", eval_resize_,
                   "Resize the shorter side to this and crop the middle; 0: as the checkpoint says")
        ->transform(whole_number(0, kMaxResize));
  }

  void declare_pictures(CLI::App& app) {
    auto* pictures =
        app.add_option("--pictures", pictures_.path,
                       "Masks, depths: draw samples to this file or URL, .png, .jpg or .ppm, side "
                       "by side: image, mask, predicted mask, depth, predicted depth")
            ->type_name("FILE.png")
            ->transform(output_path());
    app.add_option("--num-pictures", pictures_.samples, "Samples to draw in --pictures")
        ->transform(whole_number(1, 256))
        ->needs(pictures);
    app.add_option("--shuffle-seed", pictures_.shuffle,
                   "--pictures: choose samples at random, by this seed, instead of the first ones")
        ->transform(seed_number())
        ->type_name("SEED");
  }

  void declare_report(CLI::App& app) {
    app.add_option("--report", report_,
                   "Page of what was found: confusion, each class, reliability, the worst samples "
                   "with their pictures; a single file that fetches nothing")
        ->type_name("FILE.html")
        ->transform(output_path())
        ->check(in_short_help());
    app.add_option("--details", details_, "The same as JSON")
        ->type_name("FILE.json")
        ->transform(output_path());
    app.add_flag("--force", force_, "--report, --details: replace the files if they exist");
  }

  void evaluate(CommandContext& context) {
    processes_->print_places(context);
    trainer::Cluster& cluster = processes_->cluster();
    trainer::all_do(cluster, [&] { run_.settle(cluster.topology()); });
    show_status(processes_->terminal_of(context), "reading the checkpoint");
    const ModelChoice choice = take_run(cluster, processes_->is_first() ? context.log : Log());
    trainer::all_do(cluster, [&] { check_classes(choice); });
    if (processes_->is_first()) say_changes(choice, context);
    const auto model = choice.build();
    const RunObjective objective(choice.task.objective(choice.classes), views_, has_details());
    check_views(views_, choice.task.is_dense());
    auto input = open_input(choice, context);
    show_status(processes_->terminal_of(context), "evaluating, waiting for the first batch");
    const auto result = measure(choice, *model, objective.scored(), std::move(input), context);
    if (!processes_->is_first()) return;
    print(result, context);
    if (has_details()) write_details(result, objective.detailed().details(), choice, context);
    if (!pictures_.path.empty()) draw(choice, context);
  }

  bool has_details() const { return !report_.empty() || !details_.empty(); }

  pipeline::PipelineOptions open_input(const ModelChoice& choice, const CommandContext& context) {
    pipeline::PipelineOptions options;
    trainer::all_do(processes_->cluster(), [&] {
      options = make_pipeline_options(
          {.shards = read_.shards(), .joins = read_.joined(), .order = order_.chosen()}, choice,
          run_, read_, context);
    });
    log_balance(options.found.num_indexed(), context.log);
    if (has_details()) options.fields.emplace_back(place_field(options.shards));
    return options;
  }

  trainer::EvalResult measure(const ModelChoice& choice, const trainer::Model& model,
                              const trainer::Objective& objective, pipeline::PipelineOptions input,
                              const CommandContext& context) {
    const device::DeviceSet& devices = processes_->devices();
    trainer::DeviceThreads threads(devices);
    trainer::LoaderFeed feed(std::move(input), devices);
    LimitedFeed limited(feed, limit_, run_.topology);
    trainer::ProgressBar bar(processes_->terminal_of(context));
    bar.expect_evaluation(limited.steps_per_epoch());
    const auto backend = processes_->make_backend(choice.images.of_bytes(), context);
    auto result = trainer::evaluate({.model = model,
                                     .objective = objective,
                                     .feed = limited,
                                     .devices = threads,
                                     .backend = backend.get(),
                                     .cluster = &processes_->cluster()},
                                    {.precision = run_.precision.compute(),
                                     .weights = checkpoint_,
                                     .opener = read_.network.opener(),
                                     .stop = context.stop,
                                     .log = context.log},
                                    {&bar});
    bar.clear();
    return result;
  }

  /// Process 0 reads what the checkpoint says and broadcasts it. The model is evaluated as its run
  /// did.
  ModelChoice take_run(trainer::Cluster& cluster, const Log& log) {
    const SavedRun run(trainer::decide(cluster, [&] {
      checkpoint_ = trainer::find_checkpoint(checkpoint_, "best", *read_.network.opener(), log);
      const auto saved = SavedRun::of_checkpoint(checkpoint_, *read_.network.opener());
      require(pictures_.path.empty() || saved.choice().task.is_dense(),
              "--pictures are of masks and depths");
      return saved.text();
    }));
    ModelChoice choice;
    trainer::all_do(cluster, [&] {
      for (const std::string& option : run.give({"precision", "views"}, *app_))
        log.info(option + ", as the run has it");
      choice = at_size(run.choice(), log);
    });
    return choice;
  }

  /// A class has the number that it has in the model.
  void check_classes(const ModelChoice& choice) const {
    if (choice.task.names.empty() || !choice.task.colours.empty()) return;
    static_cast<void>(read_label_map(*read_.network.opener(), read_.shards(), choice.task.names,
                                     io::printable_url(checkpoint_)));
  }

  /// As it was trained, or for pictures of the size that is given.
  ModelChoice at_size(ModelChoice choice, const Log& log) const {
    if (size_) choice.images.evaluate_at(*size_);
    if (eval_resize_ > 0) choice.images.eval_resize = eval_resize_;
    choice.images.check("--size");
    for (const std::string& parameter : choice.resized_for_evaluation())
      log.info(parameter + " is resized to " + extent_text(choice.images.eval_size));
    return choice.for_evaluation();
  }

  /// Images that are not what the model was trained on may be another set's.
  void say_changes(const ModelChoice& choice, const CommandContext& context) const {
    const auto shards = read_.shards();
    const std::string changes = find_changes({.shards = shards,
                                              .opener = *read_.network.opener(),
                                              .policy = read_.policy(),
                                              .stop = context.stop},
                                             choice.images);
    if (!changes.empty()) context.log.info("images are " + changes);
  }

  void draw(const ModelChoice& choice, const CommandContext& context) {
    RunOptions exact = run_;
    exact.devices = "1";
    exact.accelerator = "auto";
    exact.precision.word = "fp32";
    exact.topology = {};
    SampleOrder order = order_.chosen();
    if (!order.shuffle.chooses())
      order.shuffle.buffer_samples = pictures_.shuffle ? kShuffleSamples : 0;
    pictures_.checkpoint = checkpoint_;
    auto input = make_pipeline_options({.shards = read_.shards(),
                                        .joins = read_.joined(),
                                        .order = order,
                                        .seed = pictures_.shuffle.value_or(0)},
                                       choice, exact, read_, context);
    input.stop = context.stop;
    write_pictures(choice, std::move(input), pictures_);
    context.log.info("pictures in " + io::printable_url(pictures_.path));
  }

  io::Replace replace() const { return force_ ? io::Replace::kAtomically : io::Replace::kNever; }

  void write_details(const trainer::EvalResult& result, const trainer::EvaluationDetails& details,
                     const ModelChoice& choice, const CommandContext& context) const {
    const auto opener = read_.network.opener();
    const auto shards = read_.shards();
    std::vector<std::string> classes;
    if (choice.task.names.empty()) classes = read_label_map(*opener, shards);
    RunRecord run{.name = io::printable_url(checkpoint_)};
    run.evaluation =
        details_json(details, detail_names(choice.task, choice.classes, std::move(classes), shards),
                     {{"checkpoint", run.name}});
    if (!details_.empty())
      write_file(details_,
                 run.evaluation.dump(-1, ' ', false, RecordJson::error_handler_t::replace) + "\n");
    if (report_.empty()) return;
    show_status(context.terminal, "drawing the pictures");
    draw_pictures(run, {.opener = *opener, .stop = context.stop, .fetch = true});
    write_file(report_, evaluation_page(run, measures_line(result)));
  }

  void write_file(const std::string& path, const std::string& text) const {
    const auto sink = open_output_file(*read_.network.opener(), path, replace());
    sink->write(std::as_bytes(std::span(text)));
    sink->finish();
  }

  static std::string measures_line(const trainer::EvalResult& result) {
    const std::string skipped =
        result.skipped > 0 ? fmt::format(" ({} skipped as damaged)", result.skipped) : "";
    std::string line = fmt::format(
        "{}{} in {:.1f} s:", counted(static_cast<std::uint64_t>(result.samples), "sample"), skipped,
        result.seconds);
    for (const auto& [name, value] : result.values) {
      if (trainer::is_class_iou(name)) continue;
      line += trainer::is_share(name) ? fmt::format(" {} {:.2f} %", name, 100 * value)
                                      : fmt::format(" {} {:.4f}", name, value);
    }
    return line;
  }

  static void print(const trainer::EvalResult& result, CommandContext& context) {
    if (context.json) {
      nlohmann::ordered_json line = {{"event", "eval"}};
      for (const auto& [name, value] : result.values) line["val_" + name] = value;
      line["val_samples"] = result.samples;
      line["val_skipped"] = result.skipped;
      line["seconds"] = result.seconds;
      context.out.line(line.dump());
      return;
    }
    context.out.line(measures_line(result));
    const std::string classes = trainer::class_iou_text(result.values);
    if (!classes.empty()) context.out.line(classes);
  }

  CLI::App* app_ = nullptr;
  EvaluationViews views_ = EvaluationViews::kOne;
  std::int64_t heartbeat_timeout_ = kHeartbeatTimeout;
  std::optional<RunProcesses> processes_;  ///< until an error has been printed
  ReadOptions read_;
  RunOptions run_;
  OrderOptions order_;
  std::string checkpoint_;
  std::optional<decode::Extent> size_;  ///< of pictures; none: the checkpoint's
  int eval_resize_ = 0;
  std::int64_t limit_ = 0;
  PictureOptions pictures_;
  std::string report_;
  std::string details_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_eval_command() { return std::make_unique<EvalCommand>(); }

}  // namespace millrace::tools
