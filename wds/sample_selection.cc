#include "wds/sample_selection.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <cmath>
#include <exception>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/rng.h"
#include "io/base/text.h"
#include "io/base/thread_annotations.h"
#include "io/base/threads.h"
#include "io/opener.h"
#include "wds/sample_filter.h"

namespace millrace::wds {
namespace {

constexpr Purpose kSelectionStart = purpose_of("selection start");
constexpr std::size_t kSelectionThreads = 4;
constexpr std::uint64_t kAtOnceSamples = 1024;
constexpr std::size_t kFieldBytes = 4096;
constexpr std::size_t kMaxWeightsBytes = std::size_t{1} << 30U;

std::string balanced_value(const ShuffleOptions& options) {
  return options.balance == "classes" ? "cls" : options.balance;
}

/// A value's name, not a file's.
bool names_value(const std::string& weight) {
  return weight.starts_with("json.") || weight.starts_with("json[") || weight == "json";
}

/// 16 hex digits.
std::string digest_of(std::span<const std::uint64_t> numbers, std::span<const double> ends) {
  constexpr std::size_t kDigits = 16;
  Sha256 hash;
  hash.update(std::as_bytes(numbers));
  hash.update(std::as_bytes(ends));
  return hash.hex().substr(0, kDigits);
}

std::string sha256_of(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text)));
  return hash.hex();
}

struct Weights {
  std::unordered_map<std::string, double> of = {};
  std::string sha256 = {};
};

/// "KEY WEIGHT" per line; the weight is behind the last space or TAB.
Weights read_weights(const io::Opener& opener, const std::string& url) {
  const auto source = opener.open(url);
  const io::Bytes bytes = io::read_all(*source, kMaxWeightsBytes);
  Weights weights{.sha256 = sha256_of(bytes.text())};
  std::uint64_t number = 0;
  for (std::string_view rest = bytes.text(); !rest.empty();) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    line = line.substr(0, line.find_last_not_of(" \t\r") + 1);
    if (line.empty()) continue;
    const std::size_t cut = line.find_last_of(" \t");
    double weight = 0;
    const std::string_view text = cut == line.npos ? line : line.substr(cut + 1);
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), weight);
    if (cut == line.npos || error != std::errc() || stop != text.data() + text.size())
      throw Error(ErrorCode::kCorrupt, fmt::format("line {} is not of the form KEY WEIGHT", number),
                  {.url = url});
    const std::string key(line.substr(0, line.find_last_not_of(" \t", cut) + 1));
    if (!weights.of.emplace(key, weight).second)
      throw Error(ErrorCode::kCorrupt,
                  fmt::format("line {}: a second weight of {}", number, printable(key)),
                  {.url = url});
  }
  return weights;
}

/// What is found of one sample.
struct Chosen {
  bool kept = false;
  std::string group = {};
  double weight = 1;
};

class Chooser {
 public:
  Chooser(const io::Opener& opener, const ShuffleOptions& options) : options_(options) {
    if (!options.where.empty()) filter_.emplace(options.where);
    if (!options.balance.empty()) group_.emplace(balanced_value(options));
    if (names_value(options.weight)) weight_.emplace(options.weight);
    if (!options.weight.empty() && !weight_) weights_ = read_weights(opener, options.weight);
  }

  /// The fields that are read; a suffix that no sample has if there are none, since none means all.
  std::vector<std::string> suffixes() const {
    std::vector<std::string> all;
    if (filter_) all = filter_->suffixes();
    for (const auto* value : {&group_, &weight_})
      if (*value && !(*value)->suffix().empty()) all.push_back((*value)->suffix());
    if (all.empty()) all.emplace_back("__none__");
    return all;
  }

  const std::string& weights_sha256() const { return weights_.sha256; }

  /// What a filter looks for and no sample has is misspelt, or the filter a precaution.
  void warn_of_unseen(const std::string& url, const SelectionRun& run) const {
    const auto names = filter_ ? filter_->unseen() : std::vector<std::string>();
    if (names.empty()) return;
    const std::string list = fmt::format("{}", fmt::join(names, ", "));
    require(!run.has_joins, "no sample has what the filter looks for: " + list +
                                "; fields of joined shards come after the filter");
    if (run.ledger != nullptr)
      run.ledger->warn({.url = url}, "no sample has what the filter looks for", list);
  }

  Chosen choose(const Sample& sample) const {
    Chosen chosen{.kept = !filter_ || (*filter_)(sample)};
    if (!chosen.kept) return chosen;
    if (group_) chosen.group = group_of(sample);
    if (weight_) chosen.weight = weight_->number(sample);
    if (!options_.weight.empty() && !weight_) chosen.weight = listed(sample.key);
    if (!(chosen.weight >= 0) || !std::isfinite(chosen.weight))
      throw Error(ErrorCode::kCorrupt, fmt::format("the weight {}", chosen.weight),
                  {.key = sample.key});
    return chosen;
  }

 private:
  std::string group_of(const Sample& sample) const {
    std::string group = group_->text(sample);
    if (group == "null")
      throw Error(ErrorCode::kCorrupt,
                  "the sample has no " + balanced_value(options_) + " to balance by",
                  {.key = sample.key});
    return group;
  }

  double listed(const std::string& key) const {
    const auto found = weights_.of.find(key);
    if (found == weights_.of.end())
      throw Error(ErrorCode::kCorrupt, options_.weight + " has no weight of the sample",
                  {.key = key});
    return found->second;
  }

  const ShuffleOptions& options_;
  std::optional<SampleFilter> filter_;
  std::optional<SampleValue> group_;
  std::optional<SampleValue> weight_;
  Weights weights_;
};

/// Looks at all samples, some at once.
class Survey {
 public:
  Survey(const io::Opener& opener, std::shared_ptr<const SetContents> set, const Chooser& chooser,
         const SelectionRun& run)
      : chooser_(chooser),
        run_(run),
        access_(opener, std::move(set), shard_options(chooser, run)),
        found_(run.count) {}

  /// By the samples' places behind the first. Throws: as find_selection().
  std::vector<Chosen> find() {
    run_on_threads(kSelectionThreads, [this] {
      try {
        look();
      } catch (...) {
        next_ = run_.count;
        const MutexLock lock(mutex_);
        if (!fault_) fault_ = std::current_exception();
      }
    });
    const MutexLock lock(mutex_);
    if (fault_) std::rethrow_exception(fault_);
    return std::move(found_);
  }

  /// After find(): those that are left out for their damage.
  std::vector<SampleSelection::Damaged> damaged() const {
    const MutexLock lock(mutex_);
    std::vector<SampleSelection::Damaged> all;
    for (const auto& [number, fault] : damaged_) all.push_back({number, fault});
    return all;
  }

 private:
  static ShardOptions shard_options(const Chooser& chooser, const SelectionRun& run) {
    ShardOptions shard{.suffixes = chooser.suffixes()};
    shard.stop = run.stop;
    shard.tar.buffer_bytes = kFieldBytes;  // so that pictures are skipped, not read along
    return shard;
  }

  void look() {
    for (std::uint64_t at = next_.fetch_add(kAtOnceSamples); at < run_.count;
         at = next_.fetch_add(kAtOnceSamples)) {
      std::vector<std::uint64_t> numbers(std::min(kAtOnceSamples, run_.count - at));
      std::iota(numbers.begin(), numbers.end(), run_.first + at);
      access_.samples(numbers,
                      [&](const SampleAccess::Result& result) { take(at + result.place, result); });
    }
  }

  void take(std::uint64_t place, const SampleAccess::Result& result) {
    try {
      if (result.fault != nullptr) throw Error(*result.fault);
      found_[place] = chooser_.choose(result.sample);
    } catch (Error& error) {
      const auto& shards = access_.contents();
      const std::uint64_t number = run_.first + place;
      const SetContents::Shard& shard = shards.shards[shards.shard_of(number)];
      error.annotate({.url = shard.url, .offset = shard.offset_of(number - shard.first)});
      if (!is_left_out(error)) throw;
      const MutexLock lock(mutex_);
      damaged_.emplace(number, error);
    }
  }

  bool is_left_out(const Error& error) const {
    const bool is_of_data = error.code() != ErrorCode::kIo && error.code() != ErrorCode::kCancelled;
    return is_of_data && run_.ledger != nullptr && run_.ledger->policy().on_fault == OnFault::kSkip;
  }

  const Chooser& chooser_;
  const SelectionRun& run_;
  const SampleAccess access_;
  std::vector<Chosen> found_;  // each written by one thread
  std::atomic<std::uint64_t> next_{0};
  mutable Mutex mutex_;
  std::exception_ptr fault_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Error> damaged_ MILLRACE_GUARDED_BY(mutex_);
};

/// In their order, behind all that could be looked at, so that a rate of faults is what it is.
void report_damaged(const std::vector<SampleSelection::Damaged>& damaged, const SelectionRun& run) {
  if (run.ledger == nullptr) return;
  run.ledger->count_emitted(run.count - damaged.size());
  for (const auto& one : damaged) run.ledger->report(one.fault);
}

[[noreturn]] void none_is_kept(const ShuffleOptions& options, const SelectionRun& run,
                               const std::vector<SampleSelection::Damaged>& damaged) {
  std::string text = options.where.empty()
                         ? "none is left of " + counted(run.count, "sample")
                         : fmt::format("where '{}' keeps none of {}", printable(options.where, 200),
                                       counted(run.count, "sample"));
  if (!damaged.empty())
    text +=
        fmt::format(": {} skipped, the first: {}", damaged.size(), damaged.front().fault.what());
  throw Error(damaged.empty() ? ErrorCode::kInvalidArgument : ErrorCode::kNotFound, text);
}

/// Those that are kept, with their shares.
struct Kept {
  std::vector<std::uint64_t> numbers = {};
  std::vector<double> shares = {};
};

/// A sample's set in a mix, and its group there.
using GroupOfSet = std::pair<std::ptrdiff_t, std::string_view>;

GroupOfSet group_of(std::uint64_t number, const std::vector<Chosen>& chosen,
                    const SelectionRun& run) {
  const auto behind = std::ranges::upper_bound(run.borders, number);
  return {behind - run.borders.begin(), chosen[number - run.first].group};
}

/// All groups of a set have the same share. Samples of a group stand beside each other, so that it
/// has its share to within one.
void balance(const std::vector<Chosen>& chosen, const SelectionRun& run, Kept& kept) {
  const auto own = [&](std::uint64_t number) { return group_of(number, chosen, run); };
  std::ranges::stable_sort(kept.numbers, {}, own);
  std::map<GroupOfSet, double> sums;
  for (const std::uint64_t number : kept.numbers) sums[own(number)] += 1;
  for (const std::uint64_t number : kept.numbers) kept.shares.push_back(1 / sums[own(number)]);
}

Kept those_kept(const std::vector<Chosen>& chosen, const ShuffleOptions& options,
                const SelectionRun& run) {
  Kept kept;
  for (std::uint64_t i = 0; i < run.count; ++i) {
    if (!chosen[i].kept) continue;
    kept.numbers.push_back(run.first + i);
    if (!options.weight.empty()) kept.shares.push_back(chosen[i].weight);
  }
  if (!options.balance.empty()) balance(chosen, run, kept);
  return kept;
}

/// What is wrong with it begins with the option's name.
template <typename Expression>
void check_expression(std::string_view name, const std::string& text) {
  try {
    static_cast<void>(Expression(text));
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{} {}", name, error.message()));
  }
}

}  // namespace

void check_selection(const ShuffleOptions& options) {
  if (!options.where.empty()) check_expression<SampleFilter>("where", options.where);
  if (!options.balance.empty()) check_expression<SampleValue>("balance", balanced_value(options));
  if (names_value(options.weight)) check_expression<SampleValue>("weight", options.weight);
  require(options.balance.empty() || options.weight.empty(),
          "balance and weight both say how often samples are drawn: use one of them");
}

bool is_weights_file(const std::string& weight) { return !weight.empty() && !names_value(weight); }

SampleSelection::SampleSelection(Parts parts)
    : numbers_(std::move(parts.numbers)),
      draws_(parts.shares.empty() || parts.draws == 0 ? numbers_.size() : parts.draws),
      filtered_(parts.filtered),
      damaged_(std::move(parts.damaged)),
      weights_sha256_(std::move(parts.weights_sha256)) {
  if (!parts.shares.empty()) divide(parts.shares);
  digest_ = digest_of(numbers_, ends_);
}

/// The draws among the samples.
void SampleSelection::divide(std::span<const double> shares) {
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  if (!(sum > 0)) throw Error(ErrorCode::kCorrupt, "the samples' weights are all 0");
  double end = 0;
  ends_.reserve(shares.size());
  for (const double share : shares) {
    end += share;
    ends_.push_back(end / sum * static_cast<double>(draws_));
  }
}

namespace {

/// Where the samples [first, first + count) are among `numbers`: they ascend, or those of each set
/// stand behind those of the set before.
struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Stretch those_in(std::span<const std::uint64_t> numbers, std::uint64_t first, std::uint64_t count) {
  const auto place = [&](std::uint64_t of) {
    const auto is_before = [of](std::uint64_t number) { return number < of; };
    return static_cast<std::size_t>(std::ranges::partition_point(numbers, is_before) -
                                    numbers.begin());
  };
  return {place(first), place(first + count)};
}

}  // namespace

std::uint64_t SampleSelection::kept_in(std::uint64_t first, std::uint64_t count) const {
  const Stretch own = those_in(numbers_, first, count);
  return own.end - own.begin;
}

std::uint64_t SampleSelection::filtered_in(std::uint64_t first, std::uint64_t count) const {
  const auto is_in = [&](const Damaged& one) {
    return one.number >= first && one.number < first + count;
  };
  return count - kept_in(first, count) -
         static_cast<std::uint64_t>(std::ranges::count_if(damaged_, is_in));
}

std::shared_ptr<const SampleSelection> SampleSelection::part(std::uint64_t first,
                                                             std::uint64_t count,
                                                             std::uint64_t begin,
                                                             std::uint64_t draws) const {
  const Stretch own = those_in(numbers_, first, count);
  Parts parts;
  parts.draws = draws;
  for (std::size_t i = own.begin; i < own.end; ++i) {
    parts.numbers.push_back(numbers_[i] - begin);
    if (has_shares()) parts.shares.push_back(ends_[i] - (i == 0 ? 0.0 : ends_[i - 1]));
  }
  for (const Damaged& one : damaged_)
    if (one.number >= first && one.number < first + count)
      parts.damaged.push_back({one.number - begin, one.fault});
  parts.filtered = filtered_in(first, count);
  return std::make_shared<const SampleSelection>(std::move(parts));
}

std::uint64_t SampleSelection::number(std::uint64_t draw, const PermutationKey& key) const {
  if (ends_.empty()) return numbers_[draw];
  KeyedRng rng(
      {.seed = key.seed, .epoch = key.epoch, .index = key.pass, .purpose = kSelectionStart});
  // Away from both ends, where rounding could take a draw from one class to the next.
  const double start = 1e-6 + (1 - 2e-6) * static_cast<double>(rng.uniform());
  const double at = static_cast<double>(draw) + start;
  const auto behind = std::upper_bound(ends_.begin(), ends_.end(), at);
  const auto index = std::min(static_cast<std::size_t>(behind - ends_.begin()), ends_.size() - 1);
  return numbers_[index];
}

std::shared_ptr<const SampleSelection> find_selection(const io::Opener& opener,
                                                      const std::shared_ptr<const SetContents>& set,
                                                      const ShuffleOptions& options,
                                                      const SelectionRun& run) {
  check_selection(options);
  const Chooser chooser(opener, options);
  Survey survey(opener, set, chooser, run);
  const std::vector<Chosen> chosen = survey.find();
  std::vector<SampleSelection::Damaged> damaged = survey.damaged();
  report_damaged(damaged, run);
  if (run.count > 0) chooser.warn_of_unseen(set->shards.front().url, run);
  Kept kept = those_kept(chosen, options, run);
  if (kept.numbers.empty() && run.count > 0) none_is_kept(options, run, damaged);
  const std::uint64_t filtered = run.count - kept.numbers.size() - damaged.size();
  return std::make_shared<const SampleSelection>(
      SampleSelection::Parts{.numbers = std::move(kept.numbers),
                             .shares = std::move(kept.shares),
                             .draws = run.draws,
                             .filtered = filtered,
                             .damaged = std::move(damaged),
                             .weights_sha256 = chooser.weights_sha256()});
}

}  // namespace millrace::wds
