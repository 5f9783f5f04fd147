// millrace create: raw data to shards.
#include <CLI/App.hpp>
#include <cstdlib>
#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/base/error.h"
#include "io/base/machine.h"
#include "tools/commands.h"
#include "tools/create/recoded_source.h"
#include "tools/create/shard_set.h"
#include "tools/create/source_options.h"
#include "tools/create/write_set.h"
#include "tools/metrics_watch.h"
#include "tools/option_settings.h"
#include "tools/parse.h"
#include "tools/picture_recoding.h"
#include "tools/run_processes.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

// Files of about 100 KB are what malloc takes from the kernel and gives back, one by one: each of
// their pages would be cleared anew.
void keep_freed_memory() {
#ifdef __GLIBC__
  constexpr int kMostKept = 64 << 20;
  ::mallopt(M_MMAP_THRESHOLD, kMostKept / 2);
  ::mallopt(M_TRIM_THRESHOLD, kMostKept);
#endif
}

class CreateCommand final : public Command {
 public:
  std::string name() const override { return "create"; }
  std::string summary() const override {
    return "Writes shards from folders, tables, Parquet, COCO or synthetic data";
  }
  std::string example() const override {
    return "  millrace create 'out/train-%06d.tar' --from-folder photos --shuffle-seed 1 "
           "--maxcount "
           "5000\n  millrace create 'seg/train-%06d.tar' --from-folder images --pair mask=labels\n "
           " millrace create 'cifar10/train-%06d.tar' --from-cifar data_batch_*.bin --shuffle-seed "
           "1\n  "
           "millrace create 'fmnist/train-%06d.tar' --from-idx train-images-idx3-ubyte.gz \\\n     "
           " train-labels-idx1-ubyte.gz\n  millrace create 'pe/fold{fold}/pe-%06d.tar' --from-csv "
           "train.csv --root images \\\n      --path "
           "'{StudyInstanceUID}/{SeriesInstanceUID}/*{SOPInstanceUID}.jpg' \\\n      --labels "
           "pe_present chronic --group-by StudyInstanceUID --folds 5 --shuffle-seed 1\n  millrace "
           "create 'food/train-%06d.tar' --from-parquet 'data/*.parquet' --images image \\\n      "
           "--label label\n  millrace "
           "create 'toy/train-%06d.tar' --synthetic classes --count 2000 --maxcount 500\n  The "
           "same command again completes an interrupted set.\n  Several processes need files of "
           "the "
           "same times: copies by cp -p, rsync -t.\n";
  }

  std::vector<const Table*> tables() const override { return PictureRecoding::tables(); }
  void declare(CLI::App& app) override {
    app.add_option(
           "PATTERN", pattern_,
           "Shards to write, paths or s3:// or gs:// urls, their number as %06d; with --folds "
           "the fold's as {fold}")
        ->required()
        ->transform(output_path());
    source_.declare(app);
    app.add_option("--maxcount", maxcount_, "Maximum samples per shard")
        ->transform(whole_number(1, kMaxCount));
    app.add_option("--maxsize", maxsize_, "Bytes that fill a shard: 3e9, 500M, 1GiB")
        ->type_name("BYTES");
    pictures_.declare(app);
    for (const char* name : {"--jpeg", "--image"}) app.get_option(name)->group("Images");
    app.add_option("--folds", folds_,
                   "Divide the samples into this many sets, keeping groups whole")
        ->transform(whole_number(2, 1000))
        ->default_str("");
    app.add_option("--shuffle-seed", shuffle_,
                   "Shuffle all samples, and the assignment to folds, by this seed")
        ->transform(seed_number())
        ->type_name("SEED");
    app.add_flag("--no-index", no_index_, "Write neither indexes nor a manifest");
    app.add_flag("--force", force_, "Delete the pattern's existing shards first");
    metrics_.declare(app);
    app.add_option("--threads", threads_, "Reading and encoding threads; 0: one per core")
        ->transform(whole_number(0, kMaxThreads))
        ->check(own_of_process());
  }

  void check() override {
    pictures_.settle();
    check_set(set_options());
    source_.check();
    if (pictures_.resizes()) source_.check_resized_by("--jpeg resize");
    metrics_.check();
  }

  void run(CommandContext& context) override {
    keep_freed_memory();
    processes_.emplace(context);
    processes_->guard(context, [&] {
      WriteSetOptions options = set_options();
      if (pictures_.wanted())
        options.closing = [this] { return pictures_.summary(processes_->cluster()); };
      options.on_shard = [&](const wds::ShardSummary& shard) {
        print_written(shard, context);
        if (watch_) watch_->metrics().add_shard(shard.bytes);
      };
      options.on_sample = [&](std::uint64_t done, std::uint64_t all) {
        if (!watch_) return;
        watch_->metrics().expect(all);
        watch_->metrics().at(done);
      };
      std::unique_ptr<SampleSource> source;
      trainer::all_do(processes_->cluster(), [&] {
        if (!metrics_.listen.empty())
          watch_.emplace(metrics_,
                         WatchedJob{.command = name(), .topology = processes_->topology()},
                         context.log);
        source = source_.open(context.log);
        if (source->size() == 0) throw Error(ErrorCode::kCorrupt, "the source has no sample");
        if (pictures_.wanted()) source = recoded_source(std::move(source), pictures_);
      });
      write_set(*source, options, context, processes_->cluster());
    });
  }

 private:
  WriteSetOptions set_options() const {
    return {.pattern = pattern_,
            .folds = folds_,
            .maxcount = static_cast<std::uint64_t>(maxcount_),
            .maxsize = parse_bytes("--maxsize", maxsize_),
            .index = !no_index_,
            .shuffle = shuffle_,
            .force = force_,
            .threads = threads_,
            .source_options = source_.text(),
            .pictures = pictures_.stored()};
  }

  std::optional<RunProcesses> processes_;  ///< until an error has been printed
  std::string pattern_;
  SourceOptions source_;
  PictureRecoding pictures_;
  MetricsOptions metrics_;
  std::optional<JobWatch> watch_;
  std::int64_t maxcount_ = 100'000;
  std::string maxsize_ = "3e9";
  std::uint32_t folds_ = 0;
  std::optional<std::uint64_t> shuffle_;
  bool no_index_ = false;
  bool force_ = false;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_create_command() { return std::make_unique<CreateCommand>(); }

}  // namespace millrace::tools
