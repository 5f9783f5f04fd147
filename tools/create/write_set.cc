#include "tools/create/write_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "io/base/error.h"
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

namespace millrace::tools {
namespace {

using Indices = std::vector<std::uint64_t>;

Indices sample_order(std::uint64_t count, const std::optional<std::uint64_t>& shuffle_seed) {
  Indices order(count);
  std::iota(order.begin(), order.end(), 0);
  if (shuffle_seed) {
    KeyedRng rng({.seed = *shuffle_seed, .purpose = Purpose::kSampleShuffle});
    shuffle(std::span(order), rng);
  }
  return order;
}

wds::WriterSample to_writer_sample(wds::Sample sample) {
  wds::WriterSample out{.key = std::move(sample.key), .fields = {}};
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
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  source.identify(hash);
  return hash.hex();
}

class SetJob {
 public:
  SetJob(const SampleSource& source, const WriteSetOptions& options, const Context& context)
      : source_(source),
        options_(options),
        context_(context),
        opener_({.http = {.log = context.log}, .stop = context.stop}),
        patterns_(set_patterns(options.pattern, options.folds)) {
    if (options.folds > 0)
      folds_ = split_folds(source, {.folds = options.folds, .seed = options.shuffle.value_or(0)});
  }

  void run() {
    io::is_network_url(options_.pattern) ? run_in_store() : run_on_disk();
    context_.log.info(counted(source_.size(), "sample") + " in " + counted(shards_, "shard"));
  }

 private:
  // A store has neither locks nor a state of an unfinished set: a set is begun anew or refused.
  void run_in_store() {
    for (const std::string& pattern : patterns_)
      options_.force ? delete_shards(opener_, pattern) : refuse_existing_shards(opener_, pattern);
    if (options_.force) delete_more_folds();
    write_all();
  }

  void run_on_disk() {
    const std::string state_path = JobState::path_of(options_.pattern);
    make_parent_folders(state_path);
    JobState state(state_path);
    try {
      start(state);
      write_all();
    } catch (...) {
      if (nothing_there()) state.finish();
      throw;
    }
    state.finish();
  }

  void write_all() {
    write(open_writers());
    for (std::size_t set = 0; set < writers_.size(); ++set) finish(set);
  }

  void start(JobState& state) {
    const std::string fingerprint = fingerprint_of(source_, options_);
    if (state.is_of(fingerprint)) return;
    for (const std::string& pattern : patterns_)
      options_.force ? delete_shards(opener_, pattern) : refuse_existing(pattern, state);
    if (options_.force) delete_more_folds();
    state.begin(fingerprint);
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

  /// Returns the samples that are still to be written, in order.
  Indices open_writers() {
    std::vector<std::uint64_t> there;
    for (const std::string& pattern : patterns_) {
      make_parent_folders(pattern);
      std::vector<wds::ShardSummary> earlier;
      if (!io::is_network_url(pattern))
        earlier = take_over_shards(opener_, pattern, options_.index);
      std::uint64_t samples = 0;
      for (const wds::ShardSummary& shard : earlier) {
        samples += shard.samples;
        report(shard);
      }
      there.push_back(samples);
      writers_.push_back(open_writer(pattern, std::move(earlier)));
    }
    return samples_behind(std::move(there));
  }

  wds::ShardWriter open_writer(const std::string& pattern, std::vector<wds::ShardSummary> earlier) {
    return wds::ShardWriter({.pattern = pattern,
                             .maxcount = options_.maxcount,
                             .maxsize = options_.maxsize,
                             .index = options_.index,
                             .manifest = options_.index ? manifest_path(pattern) : "",
                             .earlier = std::move(earlier),
                             .opener = &opener_,
                             .on_shard = [this](const auto& shard) { report(shard); }});
  }

  void report(const wds::ShardSummary& shard) {
    ++shards_;
    if (options_.on_shard) options_.on_shard(shard);
  }

  std::size_t set_of(std::uint64_t index) const { return folds_.empty() ? 0 : folds_[index]; }

  /// `order` without the first there[set] samples of each set.
  Indices samples_behind(std::vector<std::uint64_t> there) const {
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
    Progress progress("samples", left.size());
    std::uint64_t done = 0;
    const auto put = [&](wds::Sample sample) {
      writers_[set_of(left[done])].write(to_writer_sample(std::move(sample)));
      progress.at(++done);
    };
    parallel_write(source_, left, put, {.threads = options_.threads, .stop = context_.stop});
  }

  void finish(std::size_t set) {
    writers_[set].finish();
    if (const auto classes = source_.classes(); !classes.empty())
      write_label_map(opener_, classes, label_map_url(wds::shard_name(patterns_[set], 0)));
  }

  const SampleSource& source_;
  const WriteSetOptions& options_;
  const Context& context_;
  const io::UrlOpener opener_;
  std::vector<std::string> patterns_;
  std::vector<std::uint32_t> folds_;  ///< each sample's; empty without folds
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

void write_set(const SampleSource& source, const WriteSetOptions& options, const Context& context) {
  SetJob(source, options, context).run();
}

}  // namespace millrace::tools
