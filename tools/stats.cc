// millrace stats: classes, image sizes, and the mean and standard deviation for normalisation.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <optional>
#include <span>

#include "decode/codec.h"
#include "io/base/error.h"
#include "io/base/machine.h"
#include "tools/commands.h"
#include "tools/label_map.h"
#include "tools/option_settings.h"
#include "tools/output_place.h"
#include "tools/picture_scan.h"
#include "tools/read_options.h"
#include "tools/run_processes.h"
#include "tools/shared_work.h"
#include "tools/stats/set_stats.h"
#include "tools/stats/storage_trial.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

/// A picture's part of the statistics.
SampleStats picture_stats(const decode::Image& image) {
  SampleStats stats{.size = decode::ImageSize{.height = image.height, .width = image.width}};
  stats.pixels.add(image);
  return stats;
}

class StatsCommand final : public Command {
 public:
  std::string name() const override { return "stats"; }
  std::string summary() const override {
    return "Counts classes and image sizes; mean and deviation of the channels";
  }
  std::string example() const override {
    return "  millrace stats 'train-{000000..000019}.tar'\n"
           "  millrace stats --json train-000000.tar --limit 1000 -o stats.json\n"
           "  millrace stats 'train-{000000..000019}.tar' --limit 5000 --storage\n";
  }

  void declare(CLI::App& app) override {
    read_.declare(app);
    app.add_option("--image", suffixes_, "The images' suffixes; a sample's first match counts")
        ->type_name("SUFFIX;...");
    app.add_option("--limit", limit_, "Maximum samples to read; 0: all")
        ->transform(whole_number(0));
    app.add_option("-o,--output", output_, "File or URL for the result [standard output]")
        ->type_name("FILE")
        ->transform(output_path());
    app.add_flag("--force", force_, "Replace an existing file");
    auto* storage = app.add_flag(
        "--storage", storage_,
        "Try with some pictures what other ways to store them (create and reshard --jpeg, --image) "
        "would take, and how fast this machine would decode them");
    app.add_option("--size", size_, "Side of the random-resized crop that --storage times")
        ->transform(whole_number(1, 4096))
        ->needs(storage);
    app.add_option("--threads", threads_, "Decoding threads; 0: one per core")
        ->transform(whole_number(0, kMaxThreads))
        ->check(own_of_process());
  }
  void check() override {
    read_.check();
    if (output_ == "-") output_.clear();
    if (!output_.empty()) check_output_file(output_, replace());
  }

  void run(CommandContext& context) override {
    const Log log = context.log;
    processes_.emplace(context);
    processes_->guard(context, [&] { gather_all(context, log); });
  }

 private:
  io::Replace replace() const { return force_ ? io::Replace::kAtomically : io::Replace::kNever; }

  /// `log`: of this process's faults.
  void gather_all(CommandContext& context, const Log& log) {
    trainer::all_do(processes_->cluster(), [&] { check_divisible(); });
    read_.network.attach(context);
    if (storage_)
      trial_.emplace(StorageTrialOptions{.size = size_,
                                         .threads = threads_ > 0 ? threads_ : usable_cores(),
                                         .stop = context.stop});
    const auto all = read_.shards();
    std::vector<std::string> names;
    trainer::all_do(processes_->cluster(), [&] {
      if (processes_->is_first()) names = read_label_map(*read_.network.opener(), all);
    });
    gather(own_shards(all, processes_->topology()), context, log);
    const auto packed =
        of_processes(processes_->cluster(), nlohmann::json::binary(stats_.packed()));
    if (!processes_->is_first()) return;
    for (std::size_t process = 1; process < packed.size(); ++process)
      stats_.add(SetStats::unpacked(packed[process].get_binary()));
    print(names, context);
  }

  /// What depends on the shards before.
  void check_divisible() const {
    if (processes_->is_alone()) return;
    require(!storage_, "--storage needs a single process, whose machine it is about");
    require(limit_ == 0, "--limit needs a single process: leave out --limit, or start one");
    require(read_.policy().on_fault != wds::OnFault::kStop,
            "--on-fault stop needs a single process: --on-fault skip or fail, or start one");
  }

  void gather(const std::vector<std::string>& shards, const CommandContext& context,
              const Log& log) {
    if (shards.empty()) return;
    wds::FaultLedger ledger(read_.policy(), log);
    scan_pictures<SampleStats>(
        {.shards = shards,
         .opener = read_.network.opener(),
         .ledger = ledger,
         .stop = context.stop,
         .suffixes = suffixes_,
         .tolerate_truncated = read_.faults.tolerate_truncated,
         .limit = limit_,
         .threads = threads_,
         .terminal = context.terminal},
        [](const wds::Field&, const decode::Image& image) { return picture_stats(image); },
        [&](const wds::Sample& sample, const ScannedSample<SampleStats>& found) {
          if (!found.fault) add(sample, found);
        });
  }

  void add(const wds::Sample& sample, const ScannedSample<SampleStats>& found) {
    SampleStats stats = found.picture.value_or(SampleStats());
    stats.label = found.label;
    stats_.add(stats);
    if (trial_ && stats.size) trial_->add(sample.find_any(suffixes_)->data, *stats.size);
  }

  void print(const std::vector<std::string>& names, CommandContext& context) const {
    std::optional<StorageReport> storage;
    if (trial_) storage = trial_->run();
    std::vector<std::string> lines =
        context.json ? std::vector{to_json(stats_, names, storage)} : to_lines(stats_, names);
    if (storage && !context.json)
      for (std::string& line : storage->lines()) lines.push_back(std::move(line));
    if (output_.empty()) {
      for (const std::string& line : lines) context.out.line(line);
      return;
    }
    const std::string text = fmt::format("{}\n", fmt::join(lines, "\n"));
    const auto sink = open_output_file(*read_.network.opener(), output_, replace());
    sink->write(std::as_bytes(std::span(text)));
    sink->finish();
  }

  std::optional<RunProcesses> processes_;  ///< until an error has been printed
  ReadOptions read_;
  std::string suffixes_ = decode::standard_codecs()->suffixes();
  std::string output_;
  bool force_ = false;
  std::uint64_t limit_ = 0;
  int threads_ = 0;
  bool storage_ = false;
  int size_ = 224;
  std::optional<StorageTrial> trial_;
  SetStats stats_;
};

}  // namespace

std::unique_ptr<Command> make_stats_command() { return std::make_unique<StatsCommand>(); }

}  // namespace millrace::tools
