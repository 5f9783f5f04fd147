#include "tools/create/write_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/rng.h"
#include "io/base/text.h"
#include "io/opener.h"
#include "tools/create/fold_split.h"
#include "tools/create/job_state.h"
#include "tools/create/parallel_write.h"
#include "tools/create/shard_set.h"
#include "tools/label_map.h"
#include "tools/output_place.h"
#include "tools/progress.h"
#include "tools/same_samples.h"
#include "tools/shared_work.h"
#include "wds/sample_stream.h"

namespace millrace::tools {
namespace {

using Indices = std::vector<std::uint64_t>;

Indices sample_order(std::uint64_t count, const std::optional<std::uint64_t>& shuffle_seed) {
  Indices order(count);
  std::iota(order.begin(), order.end(), 0);
  if (shuffle_seed) {
    KeyedRng rng({.seed = *shuffle_seed, .purpose = wds::kSampleShuffle});
    shuffle(std::span(order), rng);
  }
  return order;
}

wds::WriterSample to_writer_sample(wds::Sample sample) {
  wds::WriterSample out{.key = std::move(sample.key), .fields = {}};
  out.fields.reserve(sample.fields.size());
  for (wds::Field& field : sample.fields)
    out.fields.push_back({std::move(field.suffix), std::move(field.data)});
  return out;
}

/// A hash of everything that determines the bytes of the shards.
std::string fingerprint_of(const SampleSource& source, const WriteSetOptions& options) {
  const std::string text = fmt::format(
      "{}\n{}\nfolds {} maxcount {} maxsize {} index {} shuffle {}\n{}\n", MILLRACE_VERSION,
      options.pattern, options.folds, options.maxcount, options.maxsize, options.index,
      options.shuffle ? std::to_string(*options.shuffle) : "no", options.source_options);
  const auto line = [](const char* name, const std::string& value) {
    return value.empty() ? "" : name + (" " + value) + "\n";
  };
  const std::string pictures =
      line("jpeg", options.pictures.jpeg) + line("image", options.pictures.image);
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  hash.update(std::as_bytes(std::span(pictures)));
  source.identify(hash);
  // Labels are places in this list, so another class moves those of files that did not change.
  for (const std::string& name : source.classes()) {
    const std::string named = line("class", name);
    hash.update(std::as_bytes(std::span(named)));
  }
  return hash.hex();
}

/// What an earlier run completed of a set.
struct Done {
  std::uint64_t shards = 0;
  std::uint64_t samples = 0;
};

class SetJob {
 public:
  SetJob(const SampleSource& source, const WriteSetOptions& options, const CommandContext& context,
         trainer::Cluster& cluster)
      : source_(source),
        options_(options),
        context_(context),
        cluster_(cluster),
        topology_(cluster.topology()),
        opener_({.http = {.log = context.log}, .stop = context.stop}),
        patterns_(set_patterns(options.pattern, options.folds)) {
    trainer::all_do(cluster_, [&] { check_names(source_.classes(), label_map_of(0)); });
    if (!is_alone()) check_sources();
    if (options.folds > 0)
      folds_ = split_folds(source, {.folds = options.folds, .seed = options.shuffle.value_or(0)});
  }

  void run() {
    std::optional<JobState> state;  // process 0's, of a set on disk
    try {
      write(open_writers(begin(state)));
      for (std::size_t set = 0; set < writers_.size(); ++set) finish(set);
    } catch (...) {
      writers_.clear();  // waits for a shard that is being published
      if (state && nothing_there()) state->finish();
      throw;
    }
    if (state) state->finish();
    context_.log.info(counted(source_.size(), "sample") + " in " + counted(shards_, "shard") +
                      (options_.closing ? options_.closing() : ""));
  }

 private:
  bool is_alone() const { return topology_.processes == 1; }

  /// Each process finds its inputs itself. Before the first shard: a set that was begun is
  /// continued by process 0's fingerprint alone.
  void check_sources() {
    trainer::all_do(cluster_, [&] { static_cast<void>(fingerprint()); });
    const trainer::Setting found[] = {
        {.name = "samples", .value = std::to_string(source_.size())},
        {.name = "paths, sizes and times", .value = hash_text(fingerprint())}};
    check_same_samples(cluster_, found,
                       "nothing was written: see that all processes read the same files, with the "
                       "same times (copies keep them by cp -p, rsync -t), or start one process");
  }

  const std::string& fingerprint() {
    if (fingerprint_.empty()) fingerprint_ = fingerprint_of(source_, options_);
    return fingerprint_;
  }

  /// The number of shards in each set; process 0 counts them.
  std::vector<Done> begin(std::optional<JobState>& state) {
    const std::string told = trainer::decide(cluster_, [&] {
      io::is_network_url(options_.pattern) ? begin_in_store() : begin_on_disk(state);
      auto json = nlohmann::json::array();
      for (const auto& shards : earlier_) {
        std::uint64_t samples = 0;
        for (const wds::ShardSummary& shard : shards) {
          samples += shard.samples;
          report(shard);
        }
        json.push_back({shards.size(), samples});
      }
      return json.dump();
    });
    std::vector<Done> done;
    for (const auto& set : parse_json<nlohmann::json>(told, "what process 0 found"))
      done.push_back({.shards = set.at(0), .samples = set.at(1)});
    return done;
  }

  // A store has neither locks nor a state of an unfinished set: a set is started from its beginning
  // or refused. One without its manifest, which is written last, was not finished.
  void begin_in_store() {
    for (const std::string& pattern : patterns_)
      options_.force ? delete_shards(opener_, pattern) : refuse_in_store(pattern);
    if (options_.force) delete_more_folds();
    earlier_.resize(patterns_.size());
  }

  void refuse_in_store(const std::string& pattern) const {
    const auto shards = existing_shards(opener_, pattern);
    if (!shards.empty() && options_.index && !output_exists(opener_, manifest_path(pattern)))
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("{} is of a set that was not finished ({}), and a store keeps no state "
                      "to continue it by: --force begins it again",
                      shards.front(), counted(shards.size(), "shard")));
    refuse_existing_shards(opener_, pattern);
  }

  void begin_on_disk(std::optional<JobState>& state) {
    const std::string path = JobState::path_of(options_.pattern);
    make_parent_folders(path);
    start(state.emplace(path));
    for (const std::string& pattern : patterns_) {
      make_parent_folders(pattern);
      earlier_.push_back(take_over_shards(opener_, pattern, options_.index));
    }
  }

  void start(JobState& state) {
    if (state.is_of(fingerprint())) return;
    for (const std::string& pattern : patterns_)
      options_.force ? delete_shards(opener_, pattern) : refuse_existing(pattern, state);
    if (options_.force) delete_more_folds();
    state.begin(fingerprint());
  }

  // Leftovers of a set with more folds would be taken for this one's.
  void delete_more_folds() const {
    if (options_.folds == 0) return;
    for (std::uint32_t fold = options_.folds;; ++fold) {
      const std::string pattern = fold_pattern(options_.pattern, fold);
      if (existing_shards(opener_, pattern).empty()) return;
      delete_shards(opener_, pattern);
    }
  }

  bool nothing_there() const {
    return std::all_of(patterns_.begin(), patterns_.end(), [this](const std::string& pattern) {
      return existing_shards(opener_, pattern).empty();
    });
  }

  // The state of another job lets that job continue; without shards it is useless.
  void refuse_existing(const std::string& pattern, const JobState& state) const {
    const auto shards = existing_shards(opener_, pattern);
    if (shards.empty()) return;
    if (!state.is_of(""))
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is of an unfinished set, of other options or inputs: --force "
                              "replaces it",
                              shards.front()));
    refuse_existing_shards(opener_, pattern);
  }

  /// Returns the samples that this process has still to write, in order.
  Indices open_writers(const std::vector<Done>& done) {
    for (std::size_t set = 0; set < patterns_.size(); ++set)
      writers_.push_back(open_writer(set, done[set]));
    return own_of(samples_behind(done));
  }

  /// A single process writes all shards; of several, each writes its own.
  wds::ShardWriter open_writer(std::size_t set, const Done& done) {
    wds::ShardWriterOptions options{.pattern = patterns_[set],
                                    .maxcount = options_.maxcount,
                                    .maxsize = options_.maxsize,
                                    .index = options_.index,
                                    .opener = &opener_,
                                    .threads = threads_,
                                    .log = context_.log};
    if (options_.force && io::is_network_url(options.pattern))
      options.replace = io::Replace::kAtomically;  // a server may not list all there is
    if (is_alone()) {
      options.manifest = options_.index ? manifest_path(options.pattern) : "";
      options.pictures = options_.pictures;
      options.earlier = std::move(earlier_[set]);
      options.on_shard = [this](const auto& shard) { report(shard); };
    } else {
      options.start_shard = done.shards + static_cast<std::uint64_t>(topology_.process);
      options.shard_step = static_cast<std::uint64_t>(topology_.processes);
    }
    return wds::ShardWriter(std::move(options));
  }

  void report(const wds::ShardSummary& shard) {
    ++shards_;
    if (options_.on_shard) options_.on_shard(shard);
  }

  std::size_t set_of(std::uint64_t index) const { return folds_.empty() ? 0 : folds_[index]; }

  /// The samples in this process's shards.
  Indices own_of(const Indices& left) const {
    if (is_alone()) return left;
    std::vector<std::uint64_t> at(patterns_.size());
    Indices own;
    for (const std::uint64_t index : left) {
      const std::uint64_t shard = at[set_of(index)]++ / options_.maxcount;
      if (shard % static_cast<std::uint64_t>(topology_.processes) ==
          static_cast<std::uint64_t>(topology_.process))
        own.push_back(index);
    }
    return own;
  }

  /// All samples in order, without those of each set that are done.
  Indices samples_behind(const std::vector<Done>& sets) const {
    std::vector<std::uint64_t> there;
    there.reserve(sets.size());
    for (const Done& set : sets) there.push_back(set.samples);
    const std::uint64_t done = std::accumulate(there.begin(), there.end(), std::uint64_t{0});
    if (done > 0)
      context_.log.info(fmt::format("continuing: {} in {} are written", counted(done, "sample"),
                                    counted(shards_, "shard")));
    Indices left;
    for (const std::uint64_t index : sample_order(source_.size(), options_.shuffle)) {
      std::uint64_t& skip = there[set_of(index)];
      if (skip > 0)
        --skip;
      else
        left.push_back(index);
    }
    return left;
  }

  void write(const Indices& left) {
    Progress progress(context_.terminal, "samples", left.size());
    std::uint64_t done = 0;
    const auto put = [&](wds::Sample sample) {
      writers_[set_of(left[done])].write(to_writer_sample(std::move(sample)));
      progress.at(++done);
      if (options_.on_sample) options_.on_sample(done, left.size());
    };
    parallel_write(source_, left, put, {.threads = options_.threads, .stop = context_.stop});
  }

  void finish(std::size_t set) {
    auto shards = writers_[set].finish();
    if (!is_alone()) {
      shards = all_summaries(cluster_, shards);
      if (topology_.process != 0) return;
      for (const wds::ShardSummary& shard : shards) report(shard);
      shards.insert(shards.begin(), earlier_[set].begin(), earlier_[set].end());
      if (options_.index)
        write_set_manifest(opener_, shards, manifest_path(patterns_[set]), options_.pictures);
    }
    if (const auto classes = source_.classes(); !classes.empty())
      write_label_map(opener_, classes, label_map_of(set));
  }

  std::string label_map_of(std::size_t set) const {
    return label_map_url(wds::shard_name(patterns_[set], 0));
  }

  const SampleSource& source_;
  const WriteSetOptions& options_;
  const CommandContext& context_;
  trainer::Cluster& cluster_;
  Topology topology_;
  const io::UrlOpener opener_;
  std::vector<std::string> patterns_;
  std::string fingerprint_;                              ///< empty: not yet computed
  std::vector<std::uint32_t> folds_;                     ///< each sample's; empty without folds
  std::vector<std::vector<wds::ShardSummary>> earlier_;  ///< each set's; process 0's
  const std::shared_ptr<wds::WriterThreads> threads_ = std::make_shared<wds::WriterThreads>();
  std::vector<wds::ShardWriter> writers_;
  std::uint64_t shards_ = 0;
};

}  // namespace

void check_set(const WriteSetOptions& options) {
  check_output(options.pattern);
  const io::UrlOpener opener;
  const bool in_store = io::is_network_url(options.pattern);  // is asked when it is written
  const bool begun = !in_store && JobState::exists(JobState::path_of(options.pattern));
  for (const std::string& pattern : set_patterns(options.pattern, options.folds)) {
    static_cast<void>(wds::shard_name(pattern, 0));
    check_folder_of(pattern);
    if (in_store) continue;
    static_cast<void>(existing_shards(opener, pattern));  // refuses a pattern it cannot find again
    if (!options.force && !begun) refuse_existing_shards(opener, pattern);
  }
}

void write_set(const SampleSource& source, const WriteSetOptions& options,
               const CommandContext& context, trainer::Cluster& cluster) {
  SetJob(source, options, context, cluster).run();
}

}  // namespace millrace::tools
