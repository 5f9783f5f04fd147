#include "tools/train/resumed_run.h"

#include <fmt/format.h>

#include <cstddef>

#include "io/base/error.h"
#include "io/opener.h"
#include "tools/output_place.h"
#include "tools/parse.h"
#include "trainer/checkpoint.h"

namespace millrace::tools {
namespace {

/// Of a run that has a checkpoint: without one it begins anew, and nothing of it is taken over.
std::optional<std::string> options_in_folder(const std::string& run_dir, const io::Opener& opener) {
  if (trainer::find_newest_checkpoint(run_dir + "/checkpoints", {}, opener).path.empty()) return {};
  constexpr std::size_t kMaxConfigBytes = std::size_t{1} << 28;
  const std::string config = run_dir + "/config.json";
  if (!output_exists(opener, config)) return {};
  return std::string(io::read_object(opener, config, kMaxConfigBytes).text());
}

/// As the resumed run saved them.
std::optional<std::string> saved_options(const TrainCommandOptions& options) {
  const std::string& resume = options.run_folder.resume;
  if (resume.empty()) return {};
  const auto opener = options.read.network.opener();
  try {
    if (resume == "auto") return options_in_folder(options.run_folder.run_dir, *opener);
    const std::string checkpoint = trainer::find_checkpoint(resume, "last", *opener);
    return trainer::read_checkpoint_state(checkpoint, *opener).options;
  } catch (const Error& error) {
    if (options.choice.needs_classes() || error.code() != ErrorCode::kCorrupt) throw;
    return {};  // whoever loads it says what is wrong
  }
}

/// Of evaluations, which take the size of --val-size and the crop of --eval-resize.
void continue_sizes(const ImageOptions& before, TrainCommandOptions& options) {
  ImageOptions& images = options.choice.images;
  if (!options.is_given("--eval-resize")) images.eval_resize = before.eval_resize;
  if (!options.is_given("--val-size")) images.eval_size = before.eval_size;
  options.check_val_size();
}

void continue_fit(const ImageOptions& before, TrainCommandOptions& options, const Log& log) {
  if (options.is_given("--fit")) return;
  ImageOptions& images = options.choice.images;
  if (images.fit != before.fit) log.info("--fit " + before.fit + ", as the run has it");
  images.fit = before.fit;
}

bool seeds_by_process(const TrainCommandOptions& options) {
  const SampleOrder order = options.data.order.chosen();
  return order.epochs.resampled && order.shuffle.order == wds::Order::kWebDataset;
}

}  // namespace

std::optional<ModelChoice> resumed_choice(const TrainCommandOptions& options) {
  const std::optional<std::string> saved = saved_options(options);
  if (!saved) return {};
  const bool is_own = !ModelChoice::is_said_in(*saved);  // a program's checkpoint
  if (is_own && !options.choice.needs_classes()) return {};
  return ModelChoice::from_json(*saved);
}

void continue_as(const ModelChoice& before, TrainCommandOptions& options, const Log& log) {
  ModelChoice& choice = options.choice;
  const bool same_task = before.task.name() == choice.task.name();
  if (choice.needs_classes() && before.classes > 0) {
    log.info(fmt::format("{} outputs, as the run has them", before.classes));
    if (same_task) choice.classes = before.classes;
  }
  if (!options.is_given("--interpolation"))
    choice.images.interpolation = before.images.interpolation;
  if (!same_task) return;
  require(before.task.tokenizer_sha256() == choice.task.tokenizer_sha256(),
          "the run began with another tokenizer: --task.tokenizer is that one");
  continue_sizes(before.images, options);
  continue_fit(before.images, options, log);
}

/// With more epochs the default warm-up would be longer, and the rate fall in mid-run.
ResumedState resumed_state(const TrainCommandOptions& options) {
  const bool is_open = options.run.streams.is_open();
  const bool takes_streams = is_open || seeds_by_process(options);
  const bool takes_warmup = options.optimisation.has_default_warmup();
  if (!takes_streams && !takes_warmup) return {};
  const auto saved = options.run_folder.saved_state(*options.read.network.opener());
  if (!saved) return {};
  ResumedState state;
  if (takes_streams) state.streams = saved_streams(*saved);
  if (!is_open) state.streams.streams = 0;
  if (takes_warmup) state.warmup = saved_warmup(*saved);
  return state;
}

}  // namespace millrace::tools
