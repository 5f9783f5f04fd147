// millrace predict: a checkpoint's predictions for samples, which need no labels.
#include "trainer/predict.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>

#include "device/device.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "pipeline/data_identity.h"
#include "pipeline/epoch_length.h"
#include "tools/commands.h"
#include "tools/label_map.h"
#include "tools/option_settings.h"
#include "tools/output_place.h"
#include "tools/parse.h"
#include "tools/predict/dense_shards.h"
#include "tools/predict/rows.h"
#include "tools/progress.h"
#include "tools/run_processes.h"
#include "tools/train/run_options.h"
#include "tools/train/saved_run.h"
#include "tools/values.h"
#include "tools/version.h"
#include "trainer/checkpoint.h"
#include "trainer/feed.h"
#include "trainer/same_data.h"
#include "wds/shard_name.h"

namespace millrace::tools {
namespace {

class PredictCommand final : public Command {
 public:
  std::string name() const override { return "predict"; }
  std::string summary() const override {
    return "Writes a checkpoint's predictions for samples; needs no labels";
  }
  std::string example() const override {
    return "  millrace predict --checkpoint runs/one/checkpoints/best 'new-{000000..000003}.tar' "
           "-o new.csv\n"
           "  millrace predict --checkpoint runs/one/checkpoints/best new-000000.tar --top 5 "
           "--json\n"
           "  millrace predict --checkpoint runs/unet/checkpoints/best 'new-{000000..000003}.tar' "
           "\\\n      --shards 'predicted/new-%06d.tar'\n";
  }

  void declare(CLI::App& app) override {
    app_ = &app;
    read_.declare(app);
    read_.index.declare(app);
    read_.declare_join(app);
    app.add_option("--checkpoint", checkpoint_,
                   "Folder that `millrace train` wrote, or its URL: a checkpoint, or a run, whose "
                   "best checkpoint is used")
        ->required()
        ->type_name("PATH")
        ->transform(output_path())
        ->check(names_contents());
    app.add_option("-o,--output", output_,
                   "classify, multilabel: file for the rows [standard output]")
        ->type_name("FILE.csv")
        ->transform(output_path());
    app.add_option("--top", rows_.top, "classify: the N most likely classes of each sample")
        ->transform(whole_number(1, 1 << 24));
    app.add_option("--names", names_,
                   "Classes' or labels' names, one per line [labels: the checkpoint's]")
        ->type_name("FILE")
        ->transform(existing_file());
    app.add_option("--shards", shards_,
                   "Masks, depths: shards of mask.png and depth.png in the images' own sizes, as "
                   "`create` names shards")
        ->type_name("PATTERN")
        ->transform(output_path());
    app.add_flag("--force", force_, "Replace existing files");
    run_.declare(app);
    declare_heartbeat_timeout(app, heartbeat_timeout_);
  }

  void check() override {
    require_trainer();
    run_.check();
    read_.check();
    check_checkpoint(checkpoint_);
    require(output_.empty() || shards_.empty(), "--output is for rows, --shards for pictures");
    if (output_ == "-") output_.clear();
    if (!output_.empty()) check_output(output_);
    if (!output_.empty()) check_folder_of(output_);
    if (!shards_.empty()) check_output(shards_);
    if (!shards_.empty()) check_folder_of(shards_);
    check_workers(read_.specs, in_order(), read_);
  }

  void run(CommandContext& context) override {
    const Log log = context.log;
    processes_.emplace(context, ProcessOptions{.devices = run_.device_choice(),
                                               .plugins = run_.plugins,
                                               .heartbeat_timeout = heartbeat_timeout_});
    processes_->guard(context, [&] {
      processes_->print_places(context);
      CommandContext own{.out = context.out,
                         .log = log,
                         .stop = context.stop,
                         .json = context.json,
                         .terminal = context.terminal};
      read_.network.attach(own);
      trainer::all_do(processes_->cluster(), [&] { settle(); });
      check_shards();
      trainer::all_do(processes_->cluster(), [&] { take_run(own); });
      predict_own(own);
    });
  }

 private:
  /// Each process finds the whole list, of which it takes a part.
  void check_shards() {
    if (processes_->is_alone()) return;
    std::optional<pipeline::DataIdentity> seen;
    trainer::all_do(processes_->cluster(), [&] {
      pipeline::PipelineOptions all;
      all.shards = read_.shards();
      all.opener = read_.network.opener();
      seen = pipeline::identify(all);
    });
    trainer::check_same_data(processes_->cluster(), "samples", seen);
  }

  /// Each process predicts a part of the shards, one behind the other, and writes a part.
  void settle() {
    run_ = in_order();
    run_.settle({.devices = processes_->topology().devices});
    const Topology where = processes_->topology();
    if (!output_.empty()) refuse_other_parts(output_, where.processes, false);
    if (!shards_.empty()) refuse_other_parts(shards_, where.processes, true);
    if (where.processes > 1) {
      require(!output_.empty() || !shards_.empty(),
              "several processes would mix their rows on standard output: give --output");
      if (!output_.empty()) output_ = part_of(output_, where);
      if (!shards_.empty()) shards_ = part_of(shards_, where);
    }
    if (!output_.empty()) check_output_file(output_, replace());
    const auto all = read_.shards();
    const auto bound = [&](int process) {
      return all.begin() + static_cast<std::ptrdiff_t>(all.size()) * process / where.processes;
    };
    own_shards_.assign(bound(where.process), bound(where.process + 1));
    own_joins_ = read_.joined();
    for (std::vector<std::string>& list : own_joins_) {
      const auto first = bound(where.process) - all.begin();
      list.assign(list.begin() + first,
                  list.begin() + first + static_cast<std::ptrdiff_t>(own_shards_.size()));
    }
  }

  /// Files of an earlier prediction by another number of processes would stay beside this one's.
  static void refuse_other_parts(const std::string& path, int processes, bool is_pattern) {
    const std::filesystem::path whole(path);
    const std::filesystem::path folder = whole.has_parent_path() ? whole.parent_path() : ".";
    std::error_code fault;
    for (std::filesystem::directory_iterator entry(folder, fault), end; !fault && entry != end;
         entry.increment(fault)) {
      const auto other = processes_of(entry->path().filename().string(), whole, is_pattern);
      if (!other || *other == processes) continue;
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is of a prediction by {}, and its samples would be there twice: "
                              "delete that one's files, or give another name",
                              entry->path().string(),
                              *other == 1 ? "1 process" : fmt::format("{} processes", *other)));
    }
  }

  /// Of how many processes' prediction to `path` a file is a part; nullopt: of none.
  static std::optional<std::int64_t> processes_of(std::string name,
                                                  const std::filesystem::path& path,
                                                  bool is_pattern) {
    const std::string extension = path.extension().string();
    if (!name.ends_with(extension)) return {};
    name.resize(name.size() - extension.size());
    const std::int64_t processes = take_part(name);
    name += extension;
    const bool is_its = is_pattern ? !wds::around_number(path.string()).digits_in(name).empty()
                                   : name == path.filename();
    return is_its ? std::optional(processes) : std::nullopt;
  }

  /// Cuts "-1of4" off `stem` and returns 4; 1 if there is none.
  static std::int64_t take_part(std::string& stem) {
    const std::size_t dash = stem.rfind('-');
    if (dash == std::string::npos) return 1;
    const std::string part = stem.substr(dash + 1);
    const std::size_t of = part.find("of");
    if (of == std::string::npos || !is_whole(part.substr(0, of)) || !is_whole(part.substr(of + 2)))
      return 1;
    const std::int64_t processes = number_or_zero(part.substr(of + 2));
    stem.resize(dash);
    return processes;
  }

  static bool is_whole(const std::string& text) {
    return !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
  }

  /// "rows.csv" of process 1 of 4 is "rows-1of4.csv".
  static std::string part_of(const std::string& path, const Topology& where) {
    const std::filesystem::path whole(path);
    return (whole.parent_path() / fmt::format("{}-{}of{}{}", whole.stem().string(), where.process,
                                              where.processes, whole.extension().string()))
        .string();
  }

  /// The model predicts as its run evaluated it.
  void take_run(CommandContext& context) {
    show_status(processes_->terminal_of(context), "reading the checkpoint");
    const auto opener = read_.network.opener();
    checkpoint_ = trainer::find_checkpoint(checkpoint_, "best", *opener,
                                           processes_->is_first() ? context.log : Log());
    const SavedRun run = SavedRun::of_checkpoint(checkpoint_, *opener);
    choice_ = run.choice().for_evaluation();
    require(choice_.task.is_dense() || shards_.empty(),
            "--shards is for checkpoints of masks and depths");
    require(!choice_.task.is_dense() || !shards_.empty(),
            "a checkpoint of task " + choice_.task.name() +
                " predicts pictures: give --shards PATTERN");
    for (const std::string& option : run.give({"precision"}, *app_))
      if (processes_->is_first()) context.log.info(option + ", as the run has it");
    require(rows_.top == 1 || choice_.task.what().has_class(),
            "--top is for checkpoints of classes");
    rows_.json = context.json;
    if (choice_.task.what().has_labels()) rows_.names = choice_.task.names;
    if (!names_.empty()) rows_.names = given_names(*opener);
  }

  std::vector<std::string> given_names(const io::Opener& opener) const {
    const Task& task = choice_.task.what();
    require(task.has_class() || task.has_labels(), "--names is for classes and labels");
    std::vector<std::string> names = read_names(opener, names_);
    const auto outputs = static_cast<std::uint64_t>(choice_.classes);
    require(names.size() == outputs,
            fmt::format("--names {}: {} for {}", printable(names_), counted(names.size(), "name"),
                        task.has_labels() ? counted(outputs, "label") : counted(outputs, "class")));
    return names;
  }

  /// One that fails ends the others, which may have hours to go.
  void predict_own(CommandContext& context) {
    if (choice_.task.is_dense()) return write_shards(context);
    write_rows(context);
  }

  /// Completes this process's part once all have predicted theirs: where one fails, none leaves a
  /// file that the same command would refuse to replace.
  void finish_together(const std::function<void()>& finish) {
    trainer::all_do(processes_->cluster(), [] {});
    trainer::all_do(processes_->cluster(), finish);
  }

  /// One stream, so that the samples keep the shards' order, unless the user asks for more.
  RunOptions in_order() const {
    RunOptions options = run_;
    if (options.streams.is_open()) options.streams.streams = {.number = 1, .has_unit = true};
    return options;
  }

  io::Replace replace() const { return force_ ? io::Replace::kAtomically : io::Replace::kNever; }

  std::int64_t predict(const CommandContext& context, const trainer::PredictionSink& each) const {
    if (own_shards_.empty()) return 0;
    // Rows on the same terminal are progress enough.
    const bool rows = output_.empty() && shards_.empty() && ::isatty(STDOUT_FILENO) == 1;
    trainer::TerminalLine* shown = rows || !processes_->is_first() ? nullptr : context.terminal;
    const device::DeviceSet& devices = processes_->devices();
    trainer::DeviceThreads threads(devices);
    const auto model = choice_.build();
    const auto objective = choice_.task.objective(choice_.classes);
    show_status(shown, "reading the shards' counts");
    CommandContext own = context;
    own.terminal = shown;
    pipeline::PipelineOptions options = make_pipeline_options(
        {.shards = own_shards_, .joins = own_joins_, .targets = false}, choice_, run_, read_, own);
    const auto total =
        static_cast<std::uint64_t>(pipeline::global_samples_per_epoch(options).value_or(0));
    trainer::LoaderFeed feed(std::move(options), devices);
    const auto backend = processes_->make_backend(choice_.images.of_bytes(), context);
    Progress progress(shown, "samples", total, "predicting, waiting for the first batch");
    std::uint64_t done = 0;
    const std::int64_t samples =
        trainer::predict({.model = *model,
                          .objective = *objective,
                          .feed = feed,
                          .devices = threads,
                          .backend = backend.get()},
                         {.precision = run_.precision.compute(),
                          .weights = checkpoint_,
                          .opener = read_.network.opener(),
                          .stop = context.stop,
                          .log = context.log,
                          .carried = choice_.task.is_dense() ? std::vector<std::string>{kSizeField}
                                                             : std::vector<std::string>{}},
                         [&](const trainer::Prediction& one) {
                           each(one);
                           progress.at(++done);
                         });
    if (const std::uint64_t skipped = feed.pipeline()->statistics().skipped; skipped > 0)
      context.log.info(counted(skipped, "sample") + " skipped as damaged");
    return samples;
  }

  /// Of the texts' tower, too.
  std::size_t num_outputs() const {
    return static_cast<std::size_t>(choice_.classes) * (choice_.task.what().text ? 2 : 1);
  }

  struct Rows {
    decltype(&class_header) header;
    decltype(&class_row) row;
  };
  static Rows rows_of(const Task& task) {
    if (task.has_labels()) return {label_header, label_row};
    if (task.has_embeddings()) return {feature_header, feature_row};
    return {class_header, class_row};
  }

  void write_rows(CommandContext& context) {
    const auto sink =
        output_.empty() ? nullptr : open_output_file(*read_.network.opener(), output_, replace());
    const auto line = [&](std::string text) {
      if (text.empty()) return;
      if (sink == nullptr) return context.out.line(text);
      text += '\n';
      sink->write(std::as_bytes(std::span(text)));
    };
    const Rows rows = rows_of(choice_.task.what());
    if (processes_->is_first())  // the parts one behind the other are one file
      line(rows.header(rows_, num_outputs()));
    const std::int64_t samples =
        predict(context, [&](const trainer::Prediction& one) { line(rows.row(one, rows_)); });
    finish_together([&] {
      if (sink != nullptr) sink->finish();
    });
    report(samples, output_.empty() ? "standard output" : output_, context);
  }

  void write_shards(CommandContext& context) {
    make_parent_folders(shards_);
    const auto opener = read_.network.opener();
    std::uint64_t complete = 0;
    try {
      DenseShards shards({.pattern = shards_,
                          .replace = replace(),
                          .opener = opener.get(),
                          .on_shard = [&](const wds::ShardSummary&) { ++complete; }},
                         choice_);
      const std::int64_t samples =
          predict(context, [&](const trainer::Prediction& one) { shards.write(one); });
      std::vector<wds::ShardSummary> written;
      finish_together([&] { written = shards.finish(); });
      for (const wds::ShardSummary& shard : written) print(shard, context);
      report(samples, shards_, context);
    } catch (const std::exception&) {
      if (complete > 0)
        context.log.warn(fmt::format("{} of {} are complete, and stay: --force replaces them",
                                     counted(complete, "shard"), io::printable_url(shards_)));
      throw;
    }
  }

  static void print(const wds::ShardSummary& shard, CommandContext& context) {
    const nlohmann::ordered_json json = {
        {"url", io::printable_url(shard.url)}, {"samples", shard.samples}, {"bytes", shard.bytes}};
    context.out.line(context.json
                         ? json.dump()
                         : io::printable_url(shard.url) + ": " + counted(shard.samples, "sample"));
  }

  static void report(std::int64_t samples, const std::string& place,
                     const CommandContext& context) {
    context.log.info(fmt::format("{} predicted, to {}",
                                 counted(static_cast<std::uint64_t>(samples), "sample"),
                                 io::printable_url(place)));
  }

  CLI::App* app_ = nullptr;
  std::int64_t heartbeat_timeout_ = kHeartbeatTimeout;
  std::optional<RunProcesses> processes_;  ///< until an error has been printed
  ReadOptions read_;
  RunOptions run_;
  ModelChoice choice_;
  RowOptions rows_;
  std::vector<std::string> own_shards_;
  std::vector<std::vector<std::string>> own_joins_;
  std::string checkpoint_;
  std::string output_;
  std::string names_;
  std::string shards_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_predict_command() { return std::make_unique<PredictCommand>(); }

}  // namespace millrace::tools
