#include "tools/train/run_folder_options.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <ctime>
#include <filesystem>
#include <utility>

#include "io/base/error.h"
#include "tools/help.h"
#include "tools/option_settings.h"
#include "tools/output_place.h"
#include "tools/train/weights_file.h"
#include "tools/values.h"
#include "trainer/checkpoint.h"
#include "trainer/run_lock.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAuto = "auto";

[[noreturn]] void refuse_folder(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// 0 for one that is not there.
int saved_number(const pipeline::DataIdentity& data, std::string_view name) {
  const auto option =
      std::ranges::find(data.options, name, [](const auto& one) { return one.first; });
  int number = 0;
  if (option != data.options.end())
    std::from_chars(option->second.data(), option->second.data() + option->second.size(), number);
  return std::max(number, 0);
}

/// Whether there is anything in a store's folder.
bool holds_objects(const io::Opener& opener, const std::string& folder) {
  return !opener.list(folder + "/").empty();
}

/// `wanted`, or with a number appended: two runs may begin in the same second.
std::string new_folder(const std::string& wanted, const io::Opener& opener) {
  const auto exists = [&](const std::string& folder) {
    return io::is_network_url(folder) ? holds_objects(opener, folder) : fs::exists(folder);
  };
  std::string folder = wanted;
  for (int number = 2; exists(folder); ++number) folder = fmt::format("{}-{}", wanted, number);
  return folder;
}

/// The folder for new runs: "runs" of "auto", DIR of DIR/auto; else empty.
std::string folder_of_auto(const std::string& run_dir) {
  constexpr std::string_view kInFolder = "/auto";
  if (run_dir == kAuto) return "runs";
  if (!run_dir.ends_with(kInFolder)) return {};
  return run_dir.substr(0, run_dir.size() - kInFolder.size());
}

/// A clock's time of nanoseconds holds no more than 292 years: longer ones never pass either.
std::chrono::seconds whole_seconds(double minutes) {
  constexpr double kMaxSeconds = 100.0 * 365 * 24 * 3600;
  return std::chrono::seconds(std::llround(std::min(60 * minutes, kMaxSeconds)));
}

void check_monitor(const std::string& monitor, const std::vector<std::string>& measures,
                   bool has_validation) {
  std::string known;
  for (const std::string part : {"val_", "train_"}) {
    if (part == "val_" && !has_validation) continue;
    for (const std::string& measure : measures) {
      if (monitor == part + measure) return;
      known += (known.empty() ? "" : ", ") + part + measure;
    }
  }
  if (monitor.starts_with("val_") && !has_validation)
    refuse_folder("--monitor " + monitor + ": nothing is evaluated without --val");
  refuse_folder("--monitor " + monitor + ": no such measure; known are " + known);
}

void declare_folder(CLI::App& app, RunFolderOptions& folder) {
  app.add_option("--run-dir", folder.run_dir,
                 "Folder for metrics, configuration and checkpoints, on disk or at s3:// or gs://; "
                 "DIR/auto: DIR/MODEL-DATE-TIME; auto: runs/auto; none: nothing is written")
      ->type_name("DIR")
      ->transform(output_path())
      ->check(in_short_help())
      ->check(of_this_start());
  app.add_flag("--force", folder.force,
               "Start over in a --run-dir that holds a run, whose files go to replaced-N in it, or "
               "in a store are removed")
      ->check(of_this_start());
}

void declare_start(CLI::App& app, RunFolderOptions& folder) {
  app.add_option("--resume", folder.resume,
                 "Checkpoint or run to continue, a folder or URL; auto: the newest one in "
                 "--run-dir, else the last one uploaded, if any")
      ->type_name("PATH")
      ->transform(output_path())
      ->check(in_short_help())
      ->check(of_this_start());
  app.add_flag(
         "--allow-changed-data", folder.accept_changed_data,
         "Let --resume continue even if the list of shards or their contents have changed; where "
         "the validation set has, the best epoch begins anew")
      ->check(of_this_start());
  app.add_option("--init", folder.init,
                 "Weights to start from, in torchvision's names: a .safetensors file, a "
                 "checkpoint, or a run, whose best checkpoint is used")
      ->type_name("PATH")
      ->transform(output_path())
      ->check(in_short_help())
      ->check(may_change())
      ->check(names_contents());
  app.add_flag("--replace-head", folder.replace_head,
               "Initialise the last layer anew instead of loading it")
      ->check(may_change());
}

void declare_saves(CLI::App& app, RunFolderOptions& folder) {
  app.add_option("--monitor", folder.monitor,
                 "The measure that decides which checkpoint is best [the first that is measured of "
                 "val_top1, val_miou, val_loss, train_loss]")
      ->type_name("MEASURE")
      ->check(may_change());
  app.add_option("--save-top-k", folder.top_k, "Keep the checkpoints of the best K epochs")
      ->transform(whole_number(0, 1 << 20))
      ->check(may_change());
  app.add_option("--save-every-steps", folder.every_steps, "Save `last` every N steps; 0: never")
      ->transform(whole_number(0))
      ->check(may_change());
  app.add_option("--save-every-minutes", folder.every_minutes,
                 "Save `last` every X minutes, to the second; 0: never")
      ->transform(real_number(0))
      ->check(may_change());
  app.add_option(
         "--upload", folder.upload,
         "Upload each complete checkpoint of a --run-dir on disk to http(s)://, s3://, gs:// "
         "or a folder")
      ->type_name("URL")
      ->transform(output_path())
      ->check(of_this_start());
}

}  // namespace

void RunFolderOptions::declare(CLI::App& app) {
  app.option_defaults()->group("Checkpoints");
  declare_folder(app, *this);
  declare_start(app, *this);
  declare_saves(app, *this);
}

void RunFolderOptions::check(const std::vector<std::string>& measures, bool has_validation) const {
  if (!monitor.empty()) check_monitor(monitor, measures, has_validation);
  if (!upload.empty() && run_dir == "none") refuse_folder("--upload needs a --run-dir");
  if (!upload.empty() && io::is_network_url(run_dir))
    refuse_folder("--upload is for a --run-dir on disk: checkpoints are in " +
                  io::printable_url(run_dir) + " already");
  if (every_minutes > 0 && whole_seconds(every_minutes) == std::chrono::seconds::zero())
    refuse_folder(
        fmt::format("--save-every-minutes {:g} is less than a second; 0: never", every_minutes));
  if (run_dir == "none") check_nothing_saved();
  check_start();
}

void RunFolderOptions::check_nothing_saved() const {
  const std::array kOptions =
      std::to_array<std::pair<const char*, bool>>({{"--save-top-k", top_k > 0},
                                                   {"--save-every-steps", every_steps > 0},
                                                   {"--save-every-minutes", every_minutes > 0}});
  for (const auto& [name, given] : kOptions)
    if (given) refuse_folder(std::string(name) + " needs a --run-dir");
}

void RunFolderOptions::check_places() const {
  if (!upload.empty() && !io::is_network_url(upload)) check_local_output(upload);
  check_start_places();
  check_run_dir();
}

void RunFolderOptions::check_start() const {
  if (replace_head && init.empty()) refuse_folder("--replace-head needs --init");
  if (!init.empty() && !resume.empty() && resume != kAuto)
    refuse_folder(
        "a run either starts from weights (--init) or continues from a checkpoint (--resume)");
  if (force && !resume.empty())
    refuse_folder("--force starts over and --resume continues: give only one of them");
  if (accept_changed_data && resume.empty()) refuse_folder("--allow-changed-data needs --resume");
  if (resume == kAuto && (!folder_of_auto(run_dir).empty() || run_dir == "none"))
    refuse_folder("--resume auto needs a --run-dir to look into");
}

void RunFolderOptions::check_start_places() const {
  if (!init.empty() && !io::is_network_url(init) && !fs::exists(init))
    refuse_folder("--init: no weights at " + init);
  if (!init.empty()) check_weights_file(init);
  const bool local = !resume.empty() && resume != kAuto && !io::is_network_url(resume);
  if (local && !fs::exists(resume)) refuse_folder("no checkpoint at " + resume);
}

void RunFolderOptions::check_run_dir() const {
  if (run_dir == "none") return;
  if (io::is_network_url(run_dir)) {
    require(
        io::UrlOpener().can_list(run_dir),
        "--run-dir " + io::printable_url(run_dir) +
            ": a run's folder is on a disk or in a store that lists its objects (s3://, gs://)");
    return;
  }
  check_local_output(run_dir);
  const std::string parent = folder_of_auto(run_dir);
  check_writable_folder(parent.empty() ? run_dir : parent);
  if (!parent.empty()) return;
  trainer::check_not_running(run_dir);
  if (resume.empty() && !force && fs::exists(run_dir + "/metrics.jsonl")) refuse_used();
}

void RunFolderOptions::refuse_used() const {
  refuse_folder(run_dir +
                " holds a run: continue it with --resume auto, or start over with --force");
}

void RunFolderOptions::settle(const std::string& model, const io::Opener& opener, const Log& log) {
  while (io::is_network_url(run_dir) && run_dir.ends_with('/')) run_dir.pop_back();
  if (const std::string parent = folder_of_auto(run_dir); !parent.empty())
    run_dir = new_folder(
        fmt::format("{}/{}-{:%Y%m%d-%H%M%S}", parent, model, fmt::localtime(std::time(nullptr))),
        opener);
  if (run_dir == "none") run_dir.clear();
  if (io::is_network_url(run_dir) && resume.empty() && !force && holds_run(opener)) refuse_used();
  if (!run_dir.empty() && !resume.empty() && resume != kAuto) meet_own(opener);
  while (upload.size() > 1 && upload.ends_with('/')) upload.pop_back();
  if (!upload.empty()) meet_uploaded(opener, log);
}

/// Whether a run in a store has saved anything. Its lock alone may be one that a killed run left.
bool RunFolderOptions::holds_run(const io::Opener& opener) const {
  const auto objects = opener.list(run_dir + "/");
  return std::ranges::any_of(objects, [](const io::ListedObject& object) {
    return object.url.ends_with("/metrics.jsonl") || object.url.ends_with("/checkpoints/");
  });
}

// Of a folder that holds another run than the one that is continued, nothing is replaced.
void RunFolderOptions::meet_own(const io::Opener& opener) const {
  const std::string there = trainer::find_checkpoint(run_dir, "last", opener);
  if (!trainer::is_checkpoint(there, opener)) return;
  const std::string run = trainer::checkpoint_run(there, opener);
  const std::string continued =
      trainer::checkpoint_run(trainer::find_checkpoint(resume, "last", opener), opener);
  if (run.empty() || continued.empty() || run == continued) return;
  refuse_folder(io::printable_url(run_dir) + " holds another run than " +
                io::printable_url(resume) +
                ": continue the one that is there with --resume auto, or give another --run-dir");
}

// Another run's checkpoints are not replaced without a word.
void RunFolderOptions::meet_uploaded(const io::Opener& opener, const Log& log) {
  std::string there = upload + "/last";
  if (!trainer::is_checkpoint(there, opener)) there = upload + "/best";
  if (force || !trainer::is_checkpoint(there, opener)) return;
  if (resume.empty()) refuse_uploaded(there);
  const std::string own =
      resume == kAuto ? trainer::find_newest_checkpoint(run_dir + "/checkpoints", Log()).path
                      : trainer::find_checkpoint(resume, "last", opener);
  if (!own.empty()) return compare_with_uploaded(own, there, opener, log);
  log.info("no checkpoint in " + run_dir + ": using the uploaded one");
  resume = there;
}

void RunFolderOptions::refuse_uploaded(const std::string& there) const {
  refuse_folder("--upload " + io::printable_url(upload) +
                " holds another run's checkpoints: continue that run with --resume " +
                io::printable_url(there) +
                (resume.empty() ? ", replace them with --force, or upload elsewhere"
                                : ", or upload elsewhere"));
}

// The run may have continued elsewhere, on a machine that had only the uploaded one.
void RunFolderOptions::compare_with_uploaded(const std::string& own, const std::string& there,
                                             const io::Opener& opener, const Log& log) {
  if (own == there) return;
  try {
    const auto uploaded = trainer::read_checkpoint_state(there, opener);
    const auto found = trainer::read_checkpoint_state(own, opener);
    const bool known = !uploaded.run.empty() && !found.run.empty();
    if (known && uploaded.run != found.run) refuse_uploaded(there);
    if (uploaded.global_step <= found.global_step) return;
    const std::string steps = fmt::format("{} is at step {}, the uploaded one at {}", own,
                                          found.global_step, uploaded.global_step);
    if (resume != kAuto) return log.warn(steps + ", and will be replaced");
    log.info(steps + ": using the uploaded one");
    resume = there;
  } catch (const Error& error) {
    const bool is_final =
        error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kInvalidArgument;
    if (is_final) throw;
    log.warn(
        fmt::format("using {}: the uploaded checkpoint cannot be read: {}", own, error.what()));
  }
}

// Errors in the checkpoint are reported by whatever resumes from it.
std::optional<trainer::TrainState> RunFolderOptions::saved_state(const io::Opener& opener) const {
  if (resume.empty()) return {};
  try {
    const std::string path =
        resume == kAuto ? trainer::find_newest_checkpoint(run_dir + "/checkpoints", {}, opener).path
                        : trainer::find_checkpoint(resume, "last", opener);
    if (path.empty()) return {};
    return trainer::read_checkpoint_state(path, opener);
  } catch (const Error&) {
    return {};
  }
}

SavedStreams saved_streams(const trainer::TrainState& saved) {
  if (!saved.data) return {};
  return {.streams = saved_number(*saved.data, "streams"),
          .processes = saved_number(*saved.data, "processes")};
}

std::string saved_warmup(const trainer::TrainState& saved) {
  const auto warmup =
      std::ranges::find(saved.settings, "--schedule.warmup", &trainer::Setting::name);
  const bool is_default = warmup != saved.settings.end() && !warmup->is_given;
  return is_default && warmup->value.ends_with("steps") ? warmup->value : std::string();
}

void RunFolderOptions::apply(trainer::TrainOptions& options) const {
  options.run_folder = run_dir;
  options.resume = resume;
  options.accept_changed_data = accept_changed_data;
  options.init = init;
  options.replace_head = replace_head;
  options.checkpoint.monitor = monitor;
  options.checkpoint.top_k = top_k;
  options.checkpoint.every_steps = every_steps;
  options.checkpoint.every = whole_seconds(every_minutes);
}

}  // namespace millrace::tools
