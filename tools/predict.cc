// millrace predict: a checkpoint's predictions for samples, which need no labels.
#include "trainer/predict.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "device/device.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/commands.h"
#include "tools/label_map.h"
#include "tools/launcher.h"
#include "tools/output_place.h"
#include "tools/predict/dense_shards.h"
#include "tools/predict/rows.h"
#include "tools/train/run_options.h"
#include "tools/values.h"
#include "trainer/checkpoint.h"
#include "trainer/feed.h"

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
    read_.declare(app);
    read_.declare_index(app);
    app.add_option("--checkpoint", checkpoint_,
                   "Folder that `millrace train` wrote, or its URL: a checkpoint, or a run, whose "
                   "best checkpoint is used")
        ->required();
    app.add_option("-o,--output", output_,
                   "classify, multilabel: file for the rows [standard output]")
        ->type_name("FILE.csv");
    app.add_option("--top", rows_.top, "classify: the N most likely classes of each sample")
        ->transform(whole_number(1, 1 << 24));
    app.add_option("--names", names_, "Classes' or labels' names, one per line")
        ->type_name("FILE")
        ->transform(existing_file());
    app.add_option("--shards", shards_,
                   "Masks, depths: shards of mask.png and depth.png in the images' own sizes, as "
                   "`create` names shards")
        ->type_name("PATTERN");
    app.add_flag("--force", force_, "Replace existing files");
    run_.declare(app);
  }

  void check() override {
    refuse_launcher();
    run_.check();
    read_.check();
    check_checkpoint(checkpoint_);
    require(output_.empty() || shards_.empty(), "--output is for rows, --shards for pictures");
    if (output_ == "-") output_.clear();
    if (!output_.empty()) check_output_file(output_, replace());
    if (!shards_.empty()) check_output(shards_);
    if (!shards_.empty()) check_folder_of(shards_);
    check_workers(read_.specs(), in_order(), read_);
  }

  void run(Context& context) override {
    read_.attach(context);
    checkpoint_ = trainer::find_checkpoint(checkpoint_, "best", *read_.opener());
    const ModelChoice choice = ModelChoice::from_checkpoint(checkpoint_, *read_.opener());
    require(choice.task.is_dense() || shards_.empty(),
            "--shards is for checkpoints of masks and depths");
    require(
        !choice.task.is_dense() || !shards_.empty(),
        "a checkpoint of task " + choice.task.kind + " predicts pictures: give --shards PATTERN");
    rows_.json = context.json;
    if (!names_.empty()) rows_.names = read_names(*read_.opener(), names_);
    if (choice.task.is_dense()) return write_shards(choice, context);
    write_rows(choice, context);
  }

 private:
  /// One stream, so that the samples keep the shards' order, unless the user asks for more.
  RunOptions in_order() const {
    RunOptions options = run_;
    if (options.workers == 0 && options.streams == 0) options.workers = 1;
    return options;
  }

  io::Replace replace() const { return force_ ? io::Replace::kAtomically : io::Replace::kNever; }

  std::int64_t predict(const ModelChoice& choice, const Context& context,
                       const trainer::PredictionSink& each) const {
    const auto devices = device::DeviceSet::parse(run_.devices);
    trainer::DeviceThreads threads(devices);
    RunOptions run = in_order();
    run.settle({.devices = threads.size()});
    const auto model = choice.build();
    const trainer::LossObjective objective = choice.task.objective(choice.classes);
    trainer::LoaderFeed feed(make_pipeline_options({.shards = read_.shards(), .targets = false},
                                                   choice, run, read_, context),
                             devices);
    return trainer::predict(
        {.model = *model, .objective = objective, .feed = feed, .devices = threads},
        {.precision = run_.compute_precision(),
         .weights = checkpoint_,
         .opener = read_.opener(),
         .stop = context.stop,
         .log = context.log,
         .carried = choice.task.is_dense() ? std::vector<std::string>{kSizeField}
                                           : std::vector<std::string>{}},
        each);
  }

  void write_rows(const ModelChoice& choice, Context& context) const {
    const auto sink =
        output_.empty() ? nullptr : open_output_file(*read_.opener(), output_, replace());
    const auto line = [&](std::string text) {
      if (text.empty()) return;
      if (sink == nullptr) return context.out.line(text);
      text += '\n';
      sink->write(std::as_bytes(std::span(text)));
    };
    const bool labels = choice.task.kind == "multilabel";
    const auto outputs = static_cast<std::size_t>(choice.classes);
    line(labels ? label_header(rows_, outputs) : class_header(rows_, outputs));
    const std::int64_t samples = predict(choice, context, [&](const trainer::Prediction& one) {
      line(labels ? label_row(one, rows_) : class_row(one, rows_));
    });
    if (sink != nullptr) sink->finish();
    report(samples, output_.empty() ? "standard output" : output_, context);
  }

  void write_shards(const ModelChoice& choice, Context& context) const {
    make_parent_folders(shards_);
    const auto opener = read_.opener();
    DenseShards shards({.pattern = shards_, .replace = replace(), .opener = opener.get()}, choice);
    const std::int64_t samples =
        predict(choice, context, [&](const trainer::Prediction& one) { shards.write(one); });
    for (const wds::ShardSummary& shard : shards.finish()) print(shard, context);
    report(samples, shards_, context);
  }

  static void print(const wds::ShardSummary& shard, Context& context) {
    const nlohmann::ordered_json json = {
        {"url", shard.url}, {"samples", shard.samples}, {"bytes", shard.bytes}};
    context.out.line(context.json ? json.dump()
                                  : shard.url + ": " + counted(shard.samples, "sample"));
  }

  static void report(std::int64_t samples, const std::string& place, const Context& context) {
    context.log.info(fmt::format("{} predicted, to {}",
                                 counted(static_cast<std::uint64_t>(samples), "sample"), place));
  }

  ReadOptions read_;
  RunOptions run_;
  RowOptions rows_;
  std::string checkpoint_;
  std::string output_;
  std::string names_;
  std::string shards_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_predict_command() { return std::make_unique<PredictCommand>(); }

}  // namespace millrace::tools
