// millrace reshard: rewrites shards with other sizes, order or fields.
#include "wds/reshard.h"

#include <fmt/format.h>
#include <tbb/parallel_for.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/local_path.h"
#include "tools/commands.h"
#include "tools/create/job_state.h"
#include "tools/create/shard_set.h"
#include "tools/known_samples.h"
#include "tools/label_map.h"
#include "tools/metered_opener.h"
#include "tools/metrics_watch.h"
#include "tools/output_place.h"
#include "tools/parse.h"
#include "tools/picture_recoding.h"
#include "tools/progress.h"
#include "tools/read_options.h"
#include "tools/run_processes.h"
#include "tools/same_samples.h"
#include "tools/shared_work.h"
#include "tools/task_arena.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

class ReshardCommand final : public Command {
 public:
  std::string name() const override { return "reshard"; }
  std::string summary() const override { return "Rewrites shards: sizes, order, fields"; }
  std::string example() const override {
    return "  millrace reshard 'https://host/old-{000..099}.tar' 'new/train-%06d.tar' --maxcount "
           "5000 --shuffle-seed 1\n  millrace reshard big.tar.gz 'small-%06d.tar' --select jpg,cls "
           "--rename jpeg=jpg\n  millrace reshard 'old/train-{000..099}.tar' 'new/train-%06d.tar' "
           "--jpeg restarts\n  millrace reshard 'old/train-{000..099}.tar' 'small/train-%06d.tar' "
           "--jpeg "
           "'resize(256)'\n\nIt streams. --shuffle-seed shuffles the shards, then samples "
           "through a "
           "buffer: a sample moves about as\nfar as the buffer is long, so shards sorted by class "
           "need a buffer as long as the set.\n";
  }

  std::vector<const Table*> tables() const override {
    std::vector<const Table*> tables = PictureRecoding::tables();
    tables.push_back(&FaultOptions::table());
    return tables;
  }
  void declare(CLI::App& app) override {
    app.add_option("SPEC", spec_, "Shards to read, from disk or network")->required();
    app.add_option("PATTERN", options_.writer.pattern,
                   "Shards to write, paths or s3:// or gs:// urls, their number as %06d")
        ->required()
        ->transform(output_path());
    app.add_option("--maxcount", options_.writer.maxcount, "Maximum samples per shard")
        ->transform(whole_number(1, kMaxCount));
    app.add_option("--maxsize", maxsize_, "Bytes that fill a shard: 3e9, 500M, 1GiB")
        ->type_name("BYTES");
    auto* shuffle = app.add_option("--shuffle-seed", options_.shuffle_seed,
                                   "Shuffle shards, and samples in a buffer, by this seed")
                        ->transform(seed_number())
                        ->type_name("SEED");
    app.add_option("--buffer", options_.buffer_samples, "Samples in the shuffle buffer")
        ->transform(whole_number(2, std::uint64_t{1} << 32U))
        ->needs(shuffle);
    app.add_option("--buffer-bytes", buffer_bytes_, "Maximum bytes in the shuffle buffer")
        ->type_name("BYTES")
        ->needs(shuffle);
    app.add_option("--select", options_.select, "Fields to keep, by their new names; default: all")
        ->delimiter(',')
        ->type_name("SUFFIX,...");
    app.add_option("--rename", renames_, "Fields' suffixes")
        ->delimiter(',')
        ->type_name("OLD=NEW,...");
    pictures_.declare(app);
    app.add_flag("--drop-duplicates", options_.drop_duplicates,
                 "Drop samples whose key was already written");
    app.add_flag("--force", force_, "Delete the pattern's existing shards first");
    read_.faults.declare(app);
    read_.network.declare(app);
    metrics_.declare(app);
  }

  void check() override {
    pictures_.settle();
    static_cast<void>(wds::shard_name(options_.writer.pattern, 0));
    options_.writer.maxsize = parse_bytes("--maxsize", maxsize_);
    options_.buffer_bytes = parse_bytes("--buffer-bytes", buffer_bytes_);
    parse_renames();
    read_.check({spec_});
    check_place();
    metrics_.check();
  }

  void run(CommandContext& context) override {
    processes_.emplace(context);
    processes_->guard(context, [&] { reshard(context); });
  }

 private:
  /// Process 0 holds the lock; a store has none.
  void reshard(CommandContext& context) {
    read_.network.attach(context);
    options_.shards = read_.lists.urls({spec_});
    options_.topology = processes_->topology();
    trainer::all_do(processes_->cluster(), [&] { open_watch(context.log); });
    std::optional<JobState> lock;
    try {
      trainer::decide(processes_->cluster(), [&] { return take_pattern(lock); });
      write(context);
    } catch (...) {
      if (lock) lock->finish();
      throw;
    }
    if (lock) lock->finish();
  }

  void open_watch(const Log& log) {
    if (metrics_.listen.empty()) return;
    watch_.emplace(metrics_,
                   WatchedJob{.command = name(),
                              .topology = processes_->topology(),
                              .network = [this] { return read_.network.state(); }},
                   log);
  }

  std::string take_pattern(std::optional<JobState>& lock) {
    const std::string& pattern = options_.writer.pattern;
    make_parent_folders(pattern);
    if (!io::is_network_url(pattern)) lock.emplace(JobState::path_of(pattern));
    refuse_to_replace_input();
    const auto opener = read_.network.opener();
    if (force_) delete_shards(*opener, pattern);
    if (!force_) refuse_existing_shards(*opener, pattern);
    return {};
  }

  /// Requires: no other run writes the pattern.
  void write(CommandContext& context) {
    const auto opener = read_.network.opener();
    options_.writer.opener = opener.get();
    options_.writer.log = context.log;
    if (force_ && io::is_network_url(options_.writer.pattern))
      options_.writer.replace = io::Replace::kAtomically;  // a server may not list all there is
    if (processes_->is_alone()) {
      options_.writer.manifest = manifest_path(options_.writer.pattern);
      options_.writer.pictures = pictures_.stored();
    }
    options_.writer.on_shard = [&](const auto& shard) {
      if (processes_->is_alone()) print_written(shard, context);
      if (watch_) watch_->metrics().add_shard(shard.bytes);
    };
    const auto names = read_label_map(*opener, options_.shards);
    wds::FaultLedger ledger(read_.policy(), context.log);
    wds::ReshardResult result = reshard_all(opener, ledger, context);
    check_same(result, ledger);
    const std::string of_pictures = pictures_.summary(processes_->cluster());
    if (!processes_->is_alone()) {
      result.shards = all_summaries(processes_->cluster(), result.shards);
      if (!processes_->is_first()) return;
      for (const wds::ShardSummary& shard : result.shards) print_written(shard, context);
      if (!result.shards.empty())
        write_set_manifest(*opener, result.shards, manifest_path(options_.writer.pattern),
                           pictures_.stored());
    }
    if (result.shards.empty()) refuse_empty(*opener, result, ledger);
    if (!names.empty())
      write_label_map(*opener, names, label_map_url(wds::shard_name(options_.writer.pattern, 0)));
    summarise(result, ledger, of_pictures, context);
  }

  /// Each process numbers the samples by what it read itself, and writes those whose turn it is.
  void check_same(const wds::ReshardResult& result, const wds::FaultLedger& ledger) {
    const trainer::Setting counts[] = {
        {.name = "samples", .value = std::to_string(result.written)},
        {.name = "skipped as damaged", .value = ledger.skipped_text()},
        {.name = "keys and sizes", .value = hash_text(result.digest)}};
    check_same_samples(processes_->cluster(), counts,
                       fmt::format("{} and the other shards written have samples twice or lack "
                                   "them, and no manifest: see that all processes read the same "
                                   "shards, and write them again with --force",
                                   io::printable_url(wds::shard_name(options_.writer.pattern, 0))));
  }

  /// What is read is progress: a shuffle's buffer is filled before anything is written.
  std::shared_ptr<const io::Opener> watched(std::shared_ptr<const io::Opener> opener) {
    if (!watch_) return opener;
    return std::make_shared<MeteredOpener>(
        std::move(opener),
        OpenerHooks{.on_read = [this](const std::string&, const io::ByteSource&,
                                      std::size_t bytes) { watch_->metrics().read(bytes); }});
  }

  wds::ReshardResult reshard_all(const std::shared_ptr<const io::Opener>& opener,
                                 wds::FaultLedger& ledger, const CommandContext& context) {
    const std::uint64_t known = known_samples(read_.policy(), options_.shards);
    Progress progress(context.terminal, "samples", known, "reading the first samples");
    const auto followed = progress.follow(watched(opener), options_.shards, Follow::kUnlessCounted);
    if (watch_) watch_->metrics().expect(known);
    options_.on_sample = [&](std::uint64_t written) {
      progress.at(written);
      if (!watch_) return;
      watch_->metrics().at(written);
      watch_->metrics().skipped(ledger.skipped());
    };
    std::optional<TaskArena> threads;
    if (pictures_.wanted()) {
      threads.emplace(0);
      options_.change = [&](std::span<wds::WriterSample> samples) {
        threads->execute([&] {
          tbb::parallel_for(std::size_t{0}, samples.size(), [&](std::size_t i) {
            pictures_.recode(samples[i].key, samples[i].fields);
          });
        });
      };
    }
    return wds::reshard(options_, *followed, ledger, context.stop);
  }

  void parse_renames() {
    for (const std::string& rule : renames_) {
      const std::size_t equals = rule.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == rule.size())
        throw Error(ErrorCode::kInvalidArgument, "--rename " + rule + ": expected OLD=NEW");
      options_.rename.emplace_back(rule.substr(0, equals), rule.substr(equals + 1));
    }
  }

  /// What a store has is found when it is asked, not before.
  void check_place() const {
    const std::string& pattern = options_.writer.pattern;
    check_output(pattern);
    check_folder_of(pattern);
    if (io::is_network_url(pattern)) return;
    if (!force_) refuse_existing_shards(*read_.network.opener(), pattern);
    if (read_.lists.are_known({spec_})) refuse_to_replace_input();
  }

  /// The output must not delete the input.
  void refuse_to_replace_input() const {
    if (!force_) return;
    const auto doomed = existing_shards(*read_.network.opener(), options_.writer.pattern);
    for (const std::string& url : read_.lists.urls({spec_})) {
      const auto path = io::local_path(url);
      const bool both = std::any_of(doomed.begin(), doomed.end(), [&](const auto& shard) {
        std::error_code ignored;
        return path ? fs::equivalent(*path, shard, ignored) : url == shard;
      });
      if (both)
        throw Error(ErrorCode::kInvalidArgument,
                    path.value_or(url) + " would be read and replaced: write to another pattern");
    }
  }

  /// A manifest of no shards would be the next command's riddle.
  [[noreturn]] void refuse_empty(const io::Opener& opener, const wds::ReshardResult& result,
                                 const wds::FaultLedger& ledger) const {
    delete_shards(opener, options_.writer.pattern);
    throw Error(ErrorCode::kNotFound, "no sample is left to write" + left_out(result, ledger));
  }

  static std::string left_out(const wds::ReshardResult& result, const wds::FaultLedger& ledger) {
    std::string text;
    if (result.duplicates > 0) text += ", " + counted(result.duplicates, "duplicate") + " left out";
    if (result.empty > 0) text += fmt::format(", {} had no field to keep", result.empty);
    if (ledger.skipped() > 0) text += fmt::format(", {} skipped as damaged", ledger.skipped_text());
    return text;
  }

  void summarise(const wds::ReshardResult& result, const wds::FaultLedger& ledger,
                 const std::string& of_pictures, CommandContext& context) const {
    std::string text = counted(result.written, "sample") + " in " +
                       counted(result.shards.size(), "shard") + left_out(result, ledger);
    if (options_.shuffle_seed)
      text += "; shuffled through a buffer of at most " +
              counted(static_cast<std::uint64_t>(options_.buffer_samples), "sample") + " and " +
              counted(options_.buffer_bytes, "byte");
    context.log.info(text + of_pictures);
    for (const std::string& suffix : result.not_found)
      context.log.warn("no sample has the field " + printable(suffix) +
                       ", which --rename or --select names");
  }

  std::optional<RunProcesses> processes_;  ///< until an error has been printed
  ReadOptions read_;
  wds::ReshardOptions options_;
  PictureRecoding pictures_;
  MetricsOptions metrics_;
  std::optional<JobWatch> watch_;
  std::string spec_;
  std::string maxsize_ = "3e9";
  std::string buffer_bytes_ = "1GiB";
  std::vector<std::string> renames_;
  bool force_ = false;
};

}  // namespace

std::unique_ptr<Command> make_reshard_command() { return std::make_unique<ReshardCommand>(); }

}  // namespace millrace::tools
