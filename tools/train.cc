// millrace train: shards to a trained model.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cmath>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "decode/transforms.h"
#include "device/device.h"
#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/base/process_facts.h"
#include "io/base/text.h"
#include "tools/commands.h"
#include "tools/config_file.h"
#include "tools/help.h"
#include "tools/label_map.h"
#include "tools/launcher.h"
#include "tools/metrics_watch.h"
#include "tools/mpirun_settings.h"
#include "tools/option_settings.h"
#include "tools/output_place.h"
#include "tools/parse.h"
#include "tools/progress.h"
#include "tools/run_processes.h"
#include "tools/trace_options.h"
#include "tools/train/checkpoint_upload.h"
#include "tools/train/class_count.h"
#include "tools/train/evaluation_files.h"
#include "tools/train/first_batch_line.h"
#include "tools/train/head_classes.h"
#include "tools/train/json_observer.h"
#include "tools/train/limit_options.h"
#include "tools/train/model_option.h"
#include "tools/train/model_summary.h"
#include "tools/train/optimisation_options.h"
#include "tools/train/plan_table.h"
#include "tools/train/run_folder_options.h"
#include "tools/train/run_input.h"
#include "tools/train/run_page.h"
#include "tools/train/saved_settings.h"
#include "tools/train/step_count.h"
#include "tools/train/step_program.h"
#include "tools/train/stop_advice.h"
#include "tools/train/stored_image.h"
#include "tools/train/view_objective.h"
#include "tools/values.h"
#include "tools/version.h"
#include "trainer/checkpoint.h"
#include "trainer/cluster.h"
#include "trainer/fit.h"
#include "trainer/hlo/program.h"
#include "trainer/newest_checkpoint.h"
#include "trainer/plan_profile.h"
#include "trainer/progress_bar.h"
#include "trainer/xla_lines.h"

namespace millrace::tools {
namespace {

class TrainCommand final : public Command {
 public:
  std::string name() const override { return "train"; }
  std::string summary() const override { return "Trains a model on shards"; }
  std::string example() const override {
    return fmt::format(
        "  millrace train 'cifar10/train-{{000000..000019}}.tar' \\\n      --val "
        "'cifar10/test-{{000000..000003}}.tar' --model 'resnet18(stem=3x3)' \\\n      --devices 2 "
        "--batch-size 64 --epochs 3 --augment hflip\n  millrace train 'pe/fold{{fold}}' "
        "--config pe-resnet34 --fold 0\n  millrace train --model resnet50 --classes 10 "
        "--summary\n\nRecipes for --config: {}\n\nNames from PyTorch and Lightning work too: "
        "--max-epochs, --learning-rate,\n--num-workers, --precision 16-mixed, --optimizer AdamW "
        "and the like (--help aliases).\n\nA CALL is a name, or a name with "
        "parameters: 'sgd(0.1, momentum=0.9)'.\nParameters of one: millrace train --help sgd. One "
        "alone: --optimizer.momentum 0.8.\n",
        fmt::join(recipe_names(), ", "));
  }

  std::vector<const Table*> tables() const override {
    std::vector<const Table*> tables = OptimisationOptions::tables();
    for (const Table* table : {static_cast<const Table*>(&decode::standard_transforms()),
                               &OrderOptions::table(), &FaultOptions::table()})
      tables.push_back(table);
    std::ranges::copy(ModelOption::tables(), std::back_inserter(tables));
    return tables;
  }

  void declare(CLI::App& app) override {
    app_ = &app;
    data_.declare(app);
    read_.faults.declare(app);
    read_.network.declare(app);
    read_.index.declare(app);
    model_.declare(app, choice_);
    model_.declare_task(app);
    app.option_defaults()->group("Model and images");
    choice_.images.declare_val_size(app);
    optimisation_.declare(app);
    run_.declare(app);
    run_.declare_cache(app);
    app.add_option("--allreduce", allreduce_,
                   "How processes sum gradients: tree, the same bits for every number of processes "
                   "with as many devices in all; tree-bf16 sends half the bytes, rounded; mpi, "
                   "MPI's own, whose order is its own")
        ->transform(one_of({"tree", "tree-bf16", "mpi"}))
        ->check(may_change());
    declare_views(app, views_)->check(may_change())->check(measures());
    declare_heartbeat_timeout(app, heartbeat_timeout_);
    run_folder_.declare(app);
    limits_.declare(app);
    trace_.declare(app, true);
    metrics_.declare(app);
    app.option_defaults()->group("Options");
    app.add_option("--seed", seed_, "Seed of the weights, shuffles and augmentation")
        ->transform(seed_number())
        ->check(in_short_help());
    app.add_option("--log-steps", log_steps_, "Steps between two log lines; 0: no log lines")
        ->transform(whole_number(0))
        ->check(may_change());
    app.add_option("--log-style", log_style_,
                   "Lines of steps and epochs: plain; xla, those of PyTorch/XLA's tutorials, with "
                   "the losses as .npy files in the run folder")
        ->transform(one_of({"plain", "xla"}))
        ->check(may_change());
    app.add_flag("--summary", summary_,
                 "Print the model's layers, shapes, parameters, multiply-adds and memory, and "
                 "exit; needs no data")
        ->check(in_short_help())
        ->check(of_this_start());
    app.add_flag("--dump-plan", dump_plan_,
                 "Time a training step of one device on random inputs, print what it does in each "
                 "layer (layout, kernel, FLOPs, bytes, time, share of the processor's limit), and "
                 "exit; --limit-train-batches N times N steps; without --classes SPEC is read, or "
                 "1000 are taken")
        ->check(of_this_start());
    app.add_option("--dump-program", dump_program_,
                   "Write a training step of one of the devices as a StableHLO module, which XLA "
                   "compiles for TPU, GPU and CPU, to this file, its arguments and results to "
                   "FILE.json, and exit; without --classes SPEC is read, or 1000 are taken")
        ->type_name("FILE")
        ->check(of_this_start());
  }

  void check() override {
    require_trainer();
    model_.settle(choice_);
    choice_.check();
    choice_.settle();
    run_.check();
    const int ends = (summary_ ? 1 : 0) + (dump_plan_ ? 1 : 0) + (dump_program_.empty() ? 0 : 1);
    require(ends < 2, "--summary, --dump-plan and --dump-program: one of them");
    if (!dump_program_.empty()) optimisation_.check();
    if (summary_ || (ends > 0 && !has_data())) return;
    trace_.check();
    metrics_.check();
    data_.settle(read_);
    require(!data_.order.chosen().fill || read_.policy().on_fault == wds::OnFault::kSkip,
            "--fill is for --on-fault skip");
    limits_.check();
    optimisation_.check();
    check_contrast();
    check_evaluation();
    check_streams();
    run_folder_.check(choice_.task.objective(choice_.classes, data_.mixup)->measures(),
                      has_validation());
  }

  void run(CommandContext& context) override {
    if (summary_) return print_summary(context);
    read_.network.attach(context);
    label_maps_.emplace(*read_.network.opener());
    if (dump_plan_) return dump_plan(context);
    if (!dump_program_.empty()) return dump_program(context);
    processes_.emplace(context, ProcessOptions{.devices = run_.device_choice(),
                                               .plugins = run_.plugins,
                                               .cluster = cluster_options(),
                                               .heartbeat_timeout = heartbeat_timeout_});
    processes_->guard(context, [&] {
      trace_work(trace_, *read_.network.opener(), processes_->topology(), context,
                 [&] { train(context); });
    });
  }

 private:
  trainer::ClusterOptions cluster_options() const {
    return {.sums = allreduce_ == "mpi" ? trainer::SumsBy::kTransport : trainer::SumsBy::kTree,
            .bf16_gradients = allreduce_ == "tree-bf16"};
  }

  void train(CommandContext& context) {
    const device::DeviceSet& devices = processes_->devices();
    trainer::DeviceThreads threads(devices);
    trainer::Cluster& cluster = processes_->cluster();
    trainer::all_do(cluster, [&] { run_.settle(cluster.topology()); });
    trainer::all_do(cluster, [&] {
      if (!metrics_.listen.empty()) watch_.emplace(metrics_, cluster.topology(), context.log);
    });
    meet(cluster, context.trace);
    show_status(terminal_of(context), "looking at the shards and the run folder");
    settle(cluster, context);
    if (processes_->is_first() && !run_folder_.run_dir.empty())
      files_.emplace(run_folder_.run_dir, read_.network.opener(), context.stop, context.log);
    show_status(terminal_of(context), "counting the shards' samples");
    const auto model = choice_.build();
    const auto evaluated =
        choice_.images.has_eval_size() ? choice_.for_evaluation().build() : nullptr;
    const auto losses = choice_.task.objective(choice_.classes, data_.mixup);
    const ViewObjective views(*losses, views_);
    const trainer::DetailedObjective detailed(views, {.on_first_batch = first_batch_file()});
    const bool has_page = !run_folder_.run_dir.empty();
    const trainer::Objective& objective =
        has_page ? static_cast<const trainer::Objective&>(detailed) : views;
    std::optional<RunInput> made;
    first_batch_.emplace(terminal_of(context));
    trainer::all_do(cluster, [&] {
      run_.open_cache(context.log);
      made.emplace(input_options(), devices, context);
    });
    check_label_map(cluster);
    RunInput& input = *made;
    settle_steps(*model, input, cluster, context);
    processes_->print_places(context);
    print_header(*model, context);
    warn_of_overlap(context);
    if (limits_.val_batches > 0 && !limits_.fast_dev_run && !has_validation())
      context.log.warn("--limit-val-batches has no effect without --val");
    show_status(terminal_of(context), "reading weights, compiling the model");
    const auto backend = processes_->make_backend(choice_.images.of_bytes(), context);
    const auto result = fit({.model = *model,
                             .objective = objective,
                             .train = input.train(),
                             .validation = input.validation(),
                             .start = input.start(),
                             .evaluation_model = evaluated.get(),
                             .devices = threads,
                             .backend = backend.get(),
                             .cluster = &cluster},
                            input, detailed, context);
    check_target(result);
  }

  /// Schedules count in epochs and in steps.
  void settle_steps(const trainer::Model& model, RunInput& input, trainer::Cluster& cluster,
                    CommandContext& context) {
    if (optimisation_.needs_steps_per_epoch() && optimisation_.steps_per_epoch == 0)
      optimisation_.steps_per_epoch =
          decide_number(cluster, [&] { return find_steps(input, context); });
    optimisation_.settle(model, batch_of_step(),
                         decide_number(cluster, [&] { return run_steps(input, context); }));
  }

  trainer::TerminalLine* terminal_of(const CommandContext& context) const {
    return processes_->is_first() ? context.terminal : nullptr;
  }

  /// Hosts without a shared file system have each their own.
  void check_label_map(trainer::Cluster& cluster) {
    if (processes_->is_alone() || data_.fake > 0 || !has_class_names()) return;
    trainer::Setting map{.name = "the class names beside the shards"};
    trainer::all_do(cluster, [&] {
      const auto names = label_maps_->names(labelled_shards());
      Sha256 hash;
      for (const std::string& name : names) {
        hash.update(std::as_bytes(std::span(name)));
        hash.update(std::as_bytes(std::span("\n", 1)));
      }
      if (!names.empty()) map.digest = hash.hex();
    });
    trainer::check_alike(cluster, std::span(&map, 1));
  }

  bool has_validation() const { return limits_.overfit_batches > 0 || !data_.val_specs().empty(); }

  void check_contrast() const {
    const Task& task = choice_.task.what();
    if (!task.has_embeddings() || task.text) return;
    require(data_.order.chosen().shuffle.copies > 1,
            "--task contrast compares views of the same sample: --order 'permutation(copies=2)'");
    require(limits_.overfit_batches == 0, "--overfit-batches takes one view of each sample");
  }

  void check_evaluation() const {
    require(limits_.overfit_batches == 0 || data_.val_specs().empty(),
            "--overfit-batches evaluates on its own batches: leave out --val");
    require(limits_.target_accuracy == 0 || (has_validation() && choice_.task.what().has_class()),
            "--target-accuracy needs --val and --task classify");
    require(views_ == EvaluationViews::kOne || has_validation(), "--views needs --val");
    check_val_size();
    check_views(views_, choice_.task.is_dense());
    require(limits_.sanity_val_steps == 0 || has_validation(), "--sanity-val-steps needs --val");
  }

  void check_val_size() const {
    if (!choice_.images.has_eval_size()) return;
    require(limits_.overfit_batches == 0, "--overfit-batches evaluates at --size");
    ModelChoice any = choice_;
    any.classes = std::max<std::int64_t>(any.classes, 2);
    const auto resized = any.resized_for_evaluation();
    require(resized.empty(),
            fmt::format("--val-size: {} is of one size of pictures in training: evaluate with "
                        "`millrace eval --size {}`",
                        fmt::join(resized, ", "), extent_text(choice_.images.eval_size)));
  }

  void check_streams() const {
    if (data_.fake > 0) return;
    check_workers(data_.train_specs(), run_, read_, data_.order.chosen());
    if (!data_.val_specs().empty()) check_workers(data_.val_specs(), run_, read_);
  }

  RunInputOptions input_options() const {
    return {.data = data_,
            .limits = limits_,
            .choice = choice_,
            .run = run_,
            .read = read_,
            .seed = seed_,
            .saved = saved_,
            .hooks = first_batch_ ? first_batch_->hooks() : OpenerHooks()};
  }

  void take_usual_classes(const CommandContext& context) {
    if (!choice_.needs_classes()) return;
    choice_.classes = kUsualClasses;
    context.log.info(fmt::format("{} outputs, as --classes was not given", kUsualClasses));
  }

  bool has_data() const { return data_.fake > 0 || !data_.train.empty(); }

  /// For what is shown of a step without a run.
  void find_classes(CommandContext& context) {
    if (has_data() && choice_.needs_classes()) choice_.classes = count_outputs(context);
    take_usual_classes(context);
  }

  void dump_program(CommandContext& context) {
    if (optimisation_.accumulate > 1)
      throw Error(
          ErrorCode::kUnsupported,
          "--dump-program: a step of several micro-batches (--accumulate) has no StableHLO");
    const int devices = run_.device_choice().count();
    run_.settle({.devices = devices});
    find_classes(context);
    const auto program = make_program({.choice = choice_,
                                       .optimisation = optimisation_,
                                       .mixup = data_.mixup,
                                       .precision = run_.precision,
                                       .takes_bytes = run_.device_choice().takes_bytes(),
                                       .batch_size = run_.batch_size,
                                       .replicas = devices});
    write_program(program, dump_program_, *read_.network.opener());
    context.log.info(
        fmt::format("{}: a step of {} samples of {}, {}, replica of {}; {}.json has "
                    "its {} arguments and {} results",
                    dump_program_, run_.batch_size, choice_.name(), run_.precision.word, devices,
                    dump_program_, program.arguments.size(), program.results.size()));
  }

  void dump_plan(CommandContext& context) {
    const DeviceChoice choice = run_.device_choice();
    require(choice.is_cores(),
            "--dump-plan shows a plan for the CPU: --dump-program has a step "
            "for other devices");
    const auto devices = device::DeviceSet::parse(choice.cores);
    run_.settle({.devices = choice.count()});
    find_classes(context);
    const auto model = choice_.build();
    show_status(context.terminal, "compiling the model, timing its steps");
    trainer::PlanProfile profile;
    devices[0].run([&] {
      profile = trainer::profile_plan(
          *model,
          {.batch_size = run_.batch_size,
           .precision = run_.precision.compute(),
           .input_dtype = run_.precision.input()},
          {.max_steps = limits_.train_batches, .seed = seed_, .stop = context.stop});
    });
    print_plan(profile,
               {.model = model->name(),
                .batch_size = run_.batch_size,
                .precision = run_.precision.word,
                .json = context.json},
               context.out);
  }

  void print_summary(CommandContext& context) {
    run_.settle({.devices = run_.device_choice().count()});
    take_usual_classes(context);
    print_model_summary(*choice_.build(),
                        {.batch_size = run_.batch_size,
                         .precision = run_.precision.compute(),
                         .json = context.json},
                        context.out);
  }

  /// Samples of a step, of all replicas.
  std::int64_t batch_of_step() const {
    return run_.topology.world_size() * run_.batch_size * optimisation_.accumulate;
  }

  static std::int64_t decide_number(trainer::Cluster& cluster,
                                    const std::function<std::int64_t()>& decision) {
    return std::stoll(trainer::decide(cluster, [&] { return std::to_string(decision()); }));
  }

  /// Resolves what depends on other options, on existing files or on the data. Process 0 decides.
  void settle(trainer::Cluster& cluster, CommandContext& context) {
    trainer::decide(cluster, [this] { return check_places(); });
    fetch_newest(cluster, context);
    settle_limits();
    const std::string told = trainer::decide(cluster, [&] {
      find_out(context);
      const auto saved = find_saved();
      const SavedStreams streams = streams_of(saved);
      return nlohmann::json{{"run_dir", run_folder_.run_dir},
                            {"resume", run_folder_.resume},
                            {"streams", streams.streams},
                            {"seed_processes", streams.processes},
                            {"warmup", warmup_of(saved)},
                            {"classes", choice_.classes},
                            {"fit", choice_.images.fit},
                            {"eval_resize", choice_.images.eval_resize},
                            {"eval_height", choice_.images.eval_size.height},
                            {"eval_width", choice_.images.eval_size.width},
                            {"interpolation", choice_.images.interpolation},
                            {"names", choice_.task.names}}
          .dump();
    });
    const auto found = parse_json<nlohmann::json>(told, "what process 0 found out");
    run_folder_.run_dir = found.at("run_dir");
    run_folder_.resume = found.at("resume");
    saved_ = {.streams = found.at("streams"), .processes = found.at("seed_processes")};
    optimisation_.saved_warmup = found.at("warmup");
    choice_.classes = found.at("classes");
    choice_.images.fit = found.at("fit");
    choice_.images.eval_resize = found.at("eval_resize");
    choice_.images.eval_size = {found.at("eval_height").get<int>(),
                                found.at("eval_width").get<int>()};
    choice_.images.interpolation = found.at("interpolation");
    choice_.task.names = found.at("names");
  }

  /// Where hosts share no file system, the newest checkpoint may be on another one than process
  /// 0's.
  void fetch_newest(trainer::Cluster& cluster, const CommandContext& context) const {
    const std::string& run_dir = run_folder_.run_dir;
    if (run_folder_.resume != "auto" || io::is_network_url(run_dir) || limits_.fast_dev_run) return;
    trainer::fetch_newest_checkpoint(cluster, run_dir + "/checkpoints", context.log);
  }

  /// Of the run that is resumed. Reads its checkpoint, so only where something of it is used.
  std::optional<trainer::TrainState> find_saved() const {
    if (!run_.streams.is_open() && !seeds_by_process() && !optimisation_.has_default_warmup())
      return {};
    return run_folder_.saved_state(*read_.network.opener());
  }

  bool seeds_by_process() const {
    return data_.order.chosen().epochs.resampled &&
           data_.order.chosen().shuffle.order == wds::Order::kWebDataset;
  }

  SavedStreams streams_of(const std::optional<trainer::TrainState>& saved) const {
    if (!saved || (!run_.streams.is_open() && !seeds_by_process())) return {};
    SavedStreams streams = saved_streams(*saved);
    if (!run_.streams.is_open()) streams.streams = 0;
    return streams;
  }

  /// With more epochs the default would be longer, and the rate fall in mid-run.
  std::string warmup_of(const std::optional<trainer::TrainState>& saved) const {
    return saved && optimisation_.has_default_warmup() ? saved_warmup(*saved) : std::string();
  }

  /// Whatever is wrong with them is an error of usage.
  std::string check_places() const {
    try {
      run_folder_.check_places();
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kInvalidArgument) throw;
      throw Error(ErrorCode::kInvalidArgument, error.what());
    }
    return {};
  }

  void settle_limits() {
    if (limits_.fast_dev_run) {
      optimisation_.epochs = 1;
      run_folder_ = {
          .run_dir = "none", .init = run_folder_.init, .replace_head = run_folder_.replace_head};
      limits_.target_accuracy = 0;
    }
    limits_.settle();
  }

  void find_out(CommandContext& context) {
    run_folder_.settle(choice_.name(), *read_.network.opener(), context.log);
    if (limits_.deterministic) context.log.info("every run is deterministic");
    const auto before = choice_before();
    if (before) continue_as(*before, context);
    if (choice_.needs_classes()) choice_.classes = count_outputs(context);
    const bool has_names = before && before->task.name() == choice_.task.name();
    settle_class_names(has_names ? before->task.names : std::vector<std::string>());
    if (!before) check_init_classes();
    check_val_labels(context);
  }

  /// The head of --init is of its own classes.
  void check_init_classes() const {
    if (run_folder_.init.empty() || run_folder_.replace_head) return;
    check_head_classes(run_folder_.init, choice_, *read_.network.opener());
  }

  void check_val_labels(const CommandContext& context) {
    if (data_.fake > 0 || limits_.fast_dev_run || data_.val_specs().empty() ||
        !choice_.task.what().has_class())
      return;
    const auto shards = read_.lists.urls(data_.val_specs());
    check_validation_labels({.shards = shards,
                             .opener = *read_.network.opener(),
                             .label_maps = *label_maps_,
                             .policy = read_.policy(),
                             .stop = context.stop,
                             .log = context.log},
                            choice_.classes);
  }

  /// Each mask class has its own IoU and each label its column in predictions, named by the label
  /// map if there is one; a class is the same one wherever the model is evaluated.
  void settle_class_names(const std::vector<std::string>& before) {
    if (!has_class_names() || !choice_.task.names.empty() || data_.fake > 0) return;
    auto names = label_maps_->names(labelled_shards(), before, "the run's checkpoint");
    if (static_cast<std::int64_t>(names.size()) == choice_.classes)
      choice_.task.names = std::move(names);
  }

  bool has_class_names() const {
    const Task& what = choice_.task.what();
    return choice_.task.has_class_mask() || what.has_labels() || what.has_class();
  }

  std::vector<std::string> labelled_shards() const {
    std::vector<std::string> shards = train_shards(input_options());
    if (data_.val_specs().empty()) return shards;
    for (std::string& shard : read_.lists.urls(data_.val_specs()))
      shards.push_back(std::move(shard));
    return shards;
  }

  /// Of the run that is resumed; nullopt if there is none, or it does not say.
  std::optional<ModelChoice> choice_before() const {
    const std::optional<std::string> options = options_before();
    if (!options) return {};
    const bool is_own = !ModelChoice::is_said_in(*options);  // a program's checkpoint
    if (is_own && !choice_.needs_classes()) return {};
    return ModelChoice::from_json(*options);
  }

  /// As the resumed run saved them.
  std::optional<std::string> options_before() const {
    constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 28;
    const std::string& resume = run_folder_.resume;
    if (resume.empty()) return {};
    const auto opener = read_.network.opener();
    try {
      if (resume != "auto")
        return trainer::read_checkpoint_state(trainer::find_checkpoint(resume, "last", *opener),
                                              *opener)
            .options;
      const std::string config = run_folder_.run_dir + "/config.json";
      if (!output_exists(*opener, config)) return {};
      return std::string(io::read_object(*opener, config, kMaxConfigBytes).text());
    } catch (const Error& error) {
      if (choice_.needs_classes() || error.code() != ErrorCode::kCorrupt) throw;
      return {};  // whoever loads it says what is wrong
    }
  }

  /// Takes over what was not given: the outputs, so that labels are not counted again, and how
  /// pictures are fitted.
  void continue_as(const ModelChoice& before, const CommandContext& context) {
    const bool same_task = before.task.name() == choice_.task.name();
    if (choice_.needs_classes() && before.classes > 0) {
      context.log.info(fmt::format("{} outputs, as the run has them", before.classes));
      if (same_task) choice_.classes = before.classes;
    }
    ImageOptions& images = choice_.images;
    if (app_->get_option("--interpolation")->count() == 0)
      images.interpolation = before.images.interpolation;
    if (!same_task) return;
    require(before.task.tokenizer_sha256() == choice_.task.tokenizer_sha256(),
            "the run began with another tokenizer: --task.tokenizer is that one");
    if (app_->get_option("--eval-resize")->count() == 0)
      images.eval_resize = before.images.eval_resize;
    if (app_->get_option("--val-size")->count() == 0) images.eval_size = before.images.eval_size;
    check_val_size();
    if (app_->get_option("--fit")->count() > 0) return;
    if (images.fit != before.images.fit)
      context.log.info("--fit " + before.images.fit + ", as the run has it");
    images.fit = before.images.fit;
  }

  /// A dry run takes more outputs than it needs rather than read every label.
  std::int64_t outputs_of_dry_run(const std::string& shard, const CommandContext& context) {
    constexpr std::int64_t kImageNetClasses = 1000;
    const auto names = label_maps_->names({&shard, 1});
    if (!names.empty()) return static_cast<std::int64_t>(names.size());
    context.log.info("1000 outputs: a dry run does not count labels; --classes sets their number");
    return kImageNetClasses;
  }

  std::int64_t count_outputs(CommandContext& context) {
    constexpr std::int64_t kFakeClasses = 10;
    if (data_.fake > 0) return kFakeClasses;
    const auto shards = train_shards(input_options());
    if (limits_.fast_dev_run && choice_.task.what().has_class())
      return outputs_of_dry_run(shards.front(), context);
    const ClassCountInput input{.shards = shards,
                                .joins = train_joins(input_options()),
                                .opener = *read_.network.opener(),
                                .label_maps = *label_maps_,
                                .policy = read_.policy(),
                                .stop = context.stop,
                                .log = context.log};
    return tools::count_outputs(input, choice_.task);
  }

  std::int64_t find_steps(const RunInput& input, CommandContext& context) const {
    if (limits_.fast_dev_run) return 1;
    const auto shards = train_shards(input_options());
    return count_steps({.shards = shards,
                        .opener = *read_.network.opener(),
                        .policy = read_.policy(),
                        .epoch_samples = input.train_samples(),
                        .global_batch = run_.topology.world_size() * run_.batch_size,
                        .drops = data_.order.chosen().uneven == pipeline::Uneven::kDrop,
                        .max_batches = limits_.train_batches,
                        .accumulate = optimisation_.accumulate,
                        .stop = context.stop,
                        .log = context.log});
  }

  /// Steps of the whole run, if a warm-up depends on them and they, or an upper limit, are known
  /// from options or indexes. Never from the shards' location, so that a run over HTTP equals the
  /// run from disk. 0: unknown.
  std::int64_t run_steps(const RunInput& input, CommandContext& context) const {
    if (!optimisation_.has_default_warmup()) return 0;
    return optimisation_.epochs * epoch_steps(input, context);
  }

  std::int64_t epoch_steps(const RunInput& input, CommandContext& context) const {
    if (optimisation_.steps_per_epoch > 0) return optimisation_.steps_per_epoch;
    if (input.train_samples() <= 0 && data_.fake <= 0)
      return (limits_.train_batches + optimisation_.accumulate - 1) / optimisation_.accumulate;
    CommandContext quiet{.out = context.out, .log = {}, .stop = context.stop};
    return find_steps(input, quiet);
  }

  /// The choice of the model, which `eval` reads, and all options as they are resolved, which
  /// --config takes.
  std::string config_json() const {
    auto json = parse_json<nlohmann::ordered_json>(choice_.to_json(), "options");
    json["options"] = options_json(*app_);
    return json.dump(1) + "\n";
  }

  trainer::TrainOptions train_options(const CommandContext& context) const {
    trainer::TrainOptions options{.precision = run_.precision.compute(),
                                  .seed = seed_,
                                  .log_steps = log_steps_,
                                  .epoch_lines = log_style_ == "plain",
                                  .max_time = limits_.time_limit(),
                                  .sanity_val_steps = limits_.sanity_val_steps,
                                  .config_json = config_json(),
                                  .settings = settings_of(*app_),
                                  .renew_settings = renewed_settings,
                                  .opener = read_.network.opener(),
                                  .stop = context.stop,
                                  .log = context.log,
                                  .trace = context.trace};
    optimisation_.apply(options);
    options.optimizer.round_to_bf16 = run_.precision.rounds_weights();
    run_folder_.apply(options);
    return options;
  }

  /// A folder that also contains the test set is easily given as the training set.
  void warn_of_overlap(const CommandContext& context) const {
    if (limits_.overfit_batches > 0 || data_.fake > 0 || data_.val_specs().empty()) return;
    const auto train = train_shards(input_options());
    const std::set<std::string> trained(train.begin(), train.end());
    const auto val = read_.lists.urls(data_.val_specs());
    const auto both = std::ranges::count_if(
        val, [&](const std::string& shard) { return trained.contains(shard); });
    if (both > 0)
      context.log.warn(fmt::format(
          "training and --val have {} in common: val_ measures are not of unseen samples",
          counted(static_cast<std::uint64_t>(both), "shard")));
  }

  /// Changes to the images that the user may not have intended.
  std::string stored_text(const CommandContext& context) const {
    if (data_.fake > 0) return {};
    const auto shards = train_shards(input_options());
    const StoredImageInput stored{.shards = shards,
                                  .opener = *read_.network.opener(),
                                  .policy = read_.policy(),
                                  .stop = context.stop};
    warn_of_deep_levels(stored, context.log);
    const std::string changes = find_changes(stored, choice_.images);
    return changes.empty() ? changes : " (" + changes + ")";
  }

  /// Shares of a range that nobody has named may all be small.
  void warn_of_deep_levels(const StoredImageInput& stored, const Log& log) const {
    const auto& depth = choice_.task.what().depth;
    if (!depth || depth->values.one > 0) return;
    const std::int64_t largest = find_largest_level(stored, depth->field);
    if (largest > 255)
      log.warn(fmt::format(
          "{} has levels of 16 bits, the first sample's up to {}: depths are shares of 65535, and "
          "predicted with 8 bits; with depth_one=LEVEL in --task that level is 1, and 16 bits are "
          "written",
          depth->field, largest));
  }

  std::string devices_text() const {
    std::string devices = counted(static_cast<std::uint64_t>(run_.topology.devices), "device");
    if (run_.topology.processes == 1) return devices;
    return fmt::format("{} processes x {}", run_.topology.processes, devices);
  }

  void print_header(const trainer::Model& model, const CommandContext& context) const {
    const std::string& run_dir = run_folder_.run_dir;
    const bool half = run_.precision.compute() == trainer::nn::Precision::kBFloat16;
    const decode::Extent size = choice_.images.size;
    const decode::Extent canvas = choice_.images.canvas();
    context.log.info(fmt::format(
        "{}: {} parameters, {}, {}x{}x{} images{}, {}", model.name(),
        model.parameters().num_values(), choice_.task.text(choice_.classes), size.height,
        size.width, choice_.images.channels,
        canvas == size
            ? stored_text(context)
            : fmt::format(" padded to {}x{}{}", canvas.height, canvas.width, stored_text(context)),
        run_.precision.word));
    if (choice_.images.has_eval_size())
      context.log.info("evaluations are of pictures of " + extent_text(choice_.images.eval_size));
    if (half && !trainer::nn::has_native_bfloat16())
      context.log.info("this machine has no bf16 instructions: results of float32 are rounded");
    context.log.info(fmt::format(
        "{}, {} x batch size {}{} = {} per step; {}, {}{}",
        data_.fake > 0 ? "fake data" : counted(train_shards(input_options()).size(), "shard"),
        devices_text(), run_.batch_size,
        optimisation_.accumulate > 1 ? fmt::format(" x {} batches", optimisation_.accumulate) : "",
        counted(static_cast<std::uint64_t>(batch_of_step()), "sample"), optimisation_.text(),
        counted(static_cast<std::uint64_t>(optimisation_.epochs), "epoch"),
        run_dir.empty() ? "" : "; run folder " + io::printable_url(run_dir)));
  }

  trainer::XlaLinesOptions xla_lines(const trainer::ReplicaThreads& devices,
                                     const CommandContext& context) const {
    trainer::XlaLinesOptions options{.log = context.log,
                                     .topology = run_.topology,
                                     .epochs = optimisation_.epochs,
                                     .folder = run_folder_.run_dir,
                                     .opener = opener_.get()};
    for (int device = 0; device < devices.size(); ++device)
      options.devices.push_back(devices.name(device));
    return options;
  }

  /// Writes what the first process trains on at first.
  std::function<void(const pipeline::Batch&)> first_batch_file() {
    if (!files_) return {};
    return [this](const pipeline::Batch& batch) {
      files_->write("first-batch.json", first_batch_json(batch, choice_.images).dump());
    };
  }

  DetailNames evaluation_names(const RunInput& input) {
    if (!files_) return {};
    std::vector<std::string> classes;
    if (has_class_names() && choice_.task.names.empty() && data_.fake == 0)
      classes = label_maps_->names(labelled_shards());
    return detail_names(choice_.task, choice_.classes, std::move(classes),
                        input.validation_shards());
  }

  trainer::FitResult fit(const trainer::FitInput& input, const RunInput& run_input,
                         const trainer::DetailedObjective& detailed, CommandContext& context) {
    opener_ = read_.network.opener();
    trainer::ProgressBar bar(terminal_of(context));
    bar.expect_epochs(optimisation_.epochs);
    bar.expect_evaluation(input.validation == nullptr ? 0 : input.validation->steps_per_epoch());
    JsonObserver json(context.out);
    CheckpointUpload upload(run_folder_.upload, read_.network.http(), context.stop, context.log,
                            terminal_of(context));
    trainer::XlaLines xla(xla_lines(input.devices, context));
    const Environment environment = process_environment();
    StopAdvice advice(
        is_of_mpirun(environment) && !processes_->is_alone() ? mpirun_kill_seconds(environment) : 0,
        context.log);
    std::vector<trainer::Observer*> observers = {&bar, &*first_batch_, &advice};
    if (log_style_ == "xla") observers.push_back(&xla);
    if (context.json) observers.push_back(&json);
    if (!run_folder_.upload.empty()) observers.push_back(&upload);
    RunPage page(page_options(input, run_input, context));
    observers.push_back(&page);
    EvaluationFiles evaluations(detailed, files_ ? &*files_ : nullptr, evaluation_names(run_input));
    observers.push_back(&evaluations);
    trainer::all_do(*input.cluster, [&] {
      if (!run_folder_.upload.empty() && processes_->is_first()) upload.begin();
    });
    const std::stop_callback told(context.stop, [&context] {
      if (context.signals != nullptr && context.signals->signal() != 0)
        context.log.info(
            "a signal: the run ends after the step in flight, and says what it has saved");
    });
    const FirstBatchLine::Watched waited(*first_batch_,
                                         [&run_input] { return run_input.train_state(); });
    std::optional<trainer::PrometheusMetrics::Watched> watched;
    if (watch_) {
      observers.push_back(&watch_->metrics());
      watched.emplace(watch_->metrics(), watched_run(run_input));
    }
    auto result = fit_and_draw(input, observers, page, context);
    if (context.trace != nullptr && !result.epochs.empty())
      trace_.warn_if_not_reached(result.epochs.back().global_step, context.log);
    say_stopped(result, context.log);
    input.cluster->fail_alike();  // from here on: the result is every process's
    if (result.end.interrupted) throw Error(ErrorCode::kCancelled, "training was stopped");
    check_uploaded(upload);
    return result;
  }

  static void say_stopped(const trainer::FitResult& result, const Log& log) {
    if (result.end.stopped_by.empty()) return;
    log.info(result.last_checkpoint.empty()
                 ? "nothing is saved: the run has no folder (--run-dir)"
                 : io::printable_url(result.last_checkpoint) + "; --resume auto continues from it");
  }

  void check_uploaded(const CheckpointUpload& upload) const {
    if (upload.missing().empty()) return;
    throw Error(ErrorCode::kIo, fmt::format("not uploaded: {}", fmt::join(upload.missing(), ", ")),
                {.url = run_folder_.upload});
  }

  trainer::WatchedRun watched_run(const RunInput& input) const {
    return {.train = [&input] { return input.train_state(); },
            .validation = [&input] { return input.validation_state(); },
            .network = [this] { return read_.network.state(); },
            .topology = run_.topology,
            .epochs = optimisation_.epochs};
  }

  /// What a run is that its page tells of.
  RunPageOptions page_options(const trainer::FitInput& input, const RunInput& run_input,
                              const CommandContext& context) {
    if (!files_) return {};
    return {.files = &*files_,
            .log = context.log,
            .start = describe_start(
                {.words = command_words(),
                 .topology = run_.topology,
                 .model = input.model.name(),
                 .parameters = static_cast<std::int64_t>(input.model.parameters().num_values())},
                {{"train", data_.fake > 0 ? std::vector<std::string>() : data_.train, &input.train,
                  run_input.train_samples()},
                 {"val", data_.val_specs(), input.validation, run_input.val_samples()}})};
  }

  /// The page is drawn of a run that fails, too.
  trainer::FitResult fit_and_draw(const trainer::FitInput& input,
                                  const std::vector<trainer::Observer*>& observers, RunPage& page,
                                  const CommandContext& context) {
    try {
      auto result = trainer::fit(input, train_options(context), observers);
      page.keep_memory(peak_memory_of_all(*input.cluster));
      finish_page(page);
      return result;
    } catch (...) {
      finish_page(page);
      throw;
    }
  }

  void finish_page(RunPage& page) {
    page.draw();
    if (files_) files_->finish();
  }

  void check_target(const trainer::FitResult& result) const {
    if (limits_.target_accuracy == 0) return;
    std::optional<double> best;
    if (result.end.monitor == "val_top1") best = result.end.best;
    for (const trainer::EpochEvent& epoch : result.epochs) {
      const double top1 = trainer::find_value(epoch.val, "top1").value_or(std::nan(""));
      if (std::isfinite(top1)) best = std::max(best.value_or(0.0), top1);
    }
    if (best && 100.0 * *best >= limits_.target_accuracy) return;
    if (!best)
      throw Error(ErrorCode::kExhausted,
                  fmt::format("no evaluation measured an accuracy for --target-accuracy {}",
                              limits_.target_accuracy));
    throw Error(ErrorCode::kExhausted, fmt::format("the best accuracy, {:.2f} %, is below the {} % "
                                                   "of --target-accuracy",
                                                   100.0 * *best, limits_.target_accuracy));
  }

  CLI::App* app_ = nullptr;
  std::shared_ptr<const io::Opener> opener_;  ///< of the observers
  std::optional<LabelMaps> label_maps_;       ///< of the sets, read where they are asked for
  std::optional<RunProcesses> processes_;     ///< until an error has been printed
  DataOptions data_;
  ReadOptions read_;
  ModelOption model_;
  ModelChoice choice_;
  OptimisationOptions optimisation_;
  RunOptions run_;
  RunFolderOptions run_folder_;
  LimitOptions limits_;
  TraceFileOptions trace_;
  MetricsOptions metrics_;
  std::optional<RunFolderWriter> files_;  ///< of the first process, if there is a run folder
  std::optional<RunWatch> watch_;         ///< until the command ends
  std::optional<FirstBatchLine> first_batch_;
  std::string allreduce_ = "tree";
  EvaluationViews views_ = EvaluationViews::kOne;
  std::int64_t heartbeat_timeout_ = kHeartbeatTimeout;
  std::uint64_t seed_ = 0;
  SavedStreams saved_;
  std::int64_t log_steps_ = 20;
  std::string log_style_ = "plain";
  bool summary_ = false;
  bool dump_plan_ = false;
  std::string dump_program_;
};

}  // namespace

std::unique_ptr<Command> make_train_command() { return std::make_unique<TrainCommand>(); }

}  // namespace millrace::tools
