#include "wds/reshard.h"

#include <algorithm>
#include <set>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "wds/key_set.h"
#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

constexpr std::size_t kMaxKeys = std::size_t{1} << 26;

class Resharding {
 public:
  explicit Resharding(const ReshardOptions& options)
      : options_(options), writer_(writer_options(options)), keys_(kMaxKeys) {}

  void put(std::span<const Sample> block, const std::stop_token& stop) {
    for (const Sample& sample : block) take(sample);
    if (options_.change && !own_.empty()) options_.change(own_);
    std::size_t next_own = 0;
    for (const Taken& taken : taken_) {
      if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "resharding was stopped");
      if (taken.own) write(own_[next_own++], *taken.from);
      ++result_.written;
      if (options_.on_sample) options_.on_sample(result_.written);
    }
    taken_.clear();
    own_.clear();
  }

  ReshardResult finish() {
    result_.shards = writer_.finish();
    result_.digest = counted_.hex();
    for (const auto& [old, renamed] : options_.rename)
      if (!found_.contains(old)) result_.not_found.push_back(old);
    for (const std::string& selected : options_.select)
      if (!found_.contains(selected)) result_.not_found.push_back(selected);
    return std::move(result_);
  }

 private:
  struct Taken {
    const Sample* from;
    bool own;  ///< this process writes it
  };

  void take(const Sample& sample) {
    WriterSample chosen = choose(sample);
    if (chosen.fields.empty()) {
      ++result_.empty;
    } else if (is_duplicate(sample)) {
      ++result_.duplicates;
    } else {
      add_to_digest(chosen);
      taken_.push_back({.from = &sample, .own = is_own(result_.written + taken_.size())});
      if (taken_.back().own) own_.push_back(std::move(chosen));
    }
  }

  void add_to_digest(const WriterSample& chosen) {
    std::string text = chosen.key;
    for (const WriterField& field : chosen.fields)
      text.append("\n").append(field.suffix).append(" ").append(std::to_string(field.data.size()));
    text.push_back('\0');
    counted_.update(std::as_bytes(std::span(text)));
  }

  WriterSample choose(const Sample& sample) {
    WriterSample chosen{.key = sample.key, .fields = {}};
    for (const Field& field : sample.fields) {
      std::string suffix = renamed(field.suffix);
      if (is_selected(suffix)) chosen.fields.push_back({std::move(suffix), field.data});
    }
    return chosen;
  }

  std::string renamed(const std::string& suffix) {
    const auto found = std::find_if(options_.rename.begin(), options_.rename.end(),
                                    [&](const auto& rule) { return rule.first == suffix; });
    if (found == options_.rename.end()) return suffix;
    found_.insert(suffix);
    return found->second;
  }

  bool is_selected(const std::string& suffix) {
    const auto& select = options_.select;
    if (select.empty()) return true;
    const bool selected = std::find(select.begin(), select.end(), suffix) != select.end();
    if (selected) found_.insert(suffix);
    return selected;
  }

  bool is_duplicate(const Sample& sample) {
    if (!options_.drop_duplicates) return false;
    const bool seen = keys_.insert(sample.key, 0).has_value();
    if (!seen && keys_.full())
      throw Error(ErrorCode::kExhausted, "too many keys to find duplicates among",
                  {.url = *sample.url, .key = sample.key});
    return seen;
  }

  static ShardWriterOptions writer_options(const ReshardOptions& options) {
    ShardWriterOptions own = options.writer;
    own.start_shard += static_cast<std::uint64_t>(options.topology.process);
    own.shard_step = static_cast<std::uint64_t>(options.topology.processes);
    return own;
  }

  /// Whether the sample of this number lies in a shard of this process.
  bool is_own(std::uint64_t number) const {
    const std::uint64_t shard = number / options_.writer.maxcount;
    return shard % static_cast<std::uint64_t>(options_.topology.processes) ==
           static_cast<std::uint64_t>(options_.topology.process);
  }

  void write(const WriterSample& chosen, const Sample& sample) {
    try {
      writer_.write(chosen);
    } catch (Error& error) {
      error.annotate({.url = *sample.url, .key = sample.key});
      throw;
    }
  }

  const ReshardOptions& options_;
  ShardWriter writer_;
  KeySet keys_;
  std::vector<Taken> taken_;       // of the block
  std::vector<WriterSample> own_;  // of those
  std::set<std::string> found_;    // suffixes that options_ names
  Sha256 counted_;
  ReshardResult result_;
};

StreamSpec spec_of(const ReshardOptions& options) {
  StreamSpec spec{.shards = std::make_shared<const std::vector<std::string>>(options.shards)};
  spec.indexed = true;
  if (options.rename.empty()) spec.shard.suffixes = options.select;
  if (!options.shuffle_seed) return spec;
  spec.shuffle = {.shards = true,
                  .buffer_samples = options.buffer_samples,
                  .buffer_bytes = options.buffer_bytes,
                  .seed = *options.shuffle_seed};
  return spec;
}

}  // namespace

ReshardResult reshard(const ReshardOptions& options, const io::Opener& opener, FaultLedger& ledger,
                      const std::stop_token& stop) {
  SampleStream stream(spec_of(options), opener, ledger, stop);
  Resharding resharding(options);
  for (SampleBlock block; stream.next(block);) {
    resharding.put(block.samples, stop);
    ledger.count_emitted(block.samples.size());
  }
  if (ledger.emitted() == 0 && ledger.skipped() > 0) ledger.check_not_empty("what was read");
  return resharding.finish();
}

}  // namespace millrace::wds
