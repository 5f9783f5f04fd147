#include "tools/verify/shard_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <unordered_set>
#include <variant>

#include "decode/default_decoding.h"
#include "decode/image.h"
#include "io/base/error.h"
#include "wds/hashing_opener.h"
#include "wds/shard_index.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxFieldSets = 1'000;

std::string joined_suffixes(const wds::Sample& sample) {
  std::vector<std::string> suffixes;
  for (const wds::Field& field : sample.fields) suffixes.push_back(field.suffix);
  std::sort(suffixes.begin(), suffixes.end());
  std::string joined;
  for (const std::string& suffix : suffixes) joined += (joined.empty() ? "" : ",") + suffix;
  return joined;
}

class ShardCheck {
 public:
  ShardCheck(std::string url, const CheckInput& input)
      : url_(std::move(url)),
        input_(input),
        options_(input.shard),
        listed_(input.manifests.of(url_)),
        hashing_(input.opener) {
    report_.url = io::printable_url(url_);
  }

  ShardReport run() {
    find_index();
    open();
    while (reader_ && read_one()) {
    }
    compare_whole();
    return finish();
  }

 private:
  struct Picture {
    std::string suffix;
    decode::ImageSize size;
  };

  void find_index() {
    try {
      bool again = false;
      options_.index = wds::find_index(input_.opener, url_, input_.shard.stop, &again);
      report_.refetched = again ? 1 : 0;
      if (!options_.index && input_.require_index)
        throw Error(ErrorCode::kNotFound, "shard has no index", {.url = report_.url});
    } catch (const Error& fault) {
      ledger_.report(fault, 0);
    }
    report_.indexed = options_.index != nullptr;
    report_.in_manifest = listed_ != nullptr;
    if (listed_ != nullptr && listed_->pictures != wds::StoredPictures())
      report_.stored[{listed_->pictures.jpeg, listed_->pictures.image}] = 1;
  }

  // Hashing costs as much as reading: only if there is something to compare with.
  bool hashed() const {
    if (options_.index && !options_.index->sha256.empty()) return true;
    return listed_ != nullptr && (listed_->bytes || !listed_->sha256.empty());
  }

  void open() {
    try {
      if (hashed())
        reader_.emplace(hashing_, url_, options_);
      else
        reader_.emplace(input_.opener, url_, options_);
    } catch (const Error& fault) {
      ledger_.report_shard(fault, lost_samples());
    }
  }

  /// How many samples the rest of the shard has.
  std::optional<std::uint64_t> lost_samples() const {
    if (options_.index) return reader_ ? reader_->lost_samples() : options_.index->samples.size();
    if (listed_ == nullptr || !listed_->samples) return {};
    return *listed_->samples - std::min(*listed_->samples, ledger_.read());
  }

  bool read_one() {
    wds::Sample sample;
    try {
      if (!reader_->next(sample)) return false;
    } catch (const Error& fault) {
      if (reader_->can_continue())
        ledger_.report(fault, reader_->lost_samples());
      else
        ledger_.report_shard(fault, lost_samples());
      if (fault.code() == ErrorCode::kCorrupt && keys_.contains(fault.where().key))
        ++report_.interleaved;
      return reader_->can_continue();
    }
    account(sample);
    decode(sample);
    return true;
  }

  void account(const wds::Sample& sample) {
    for (const wds::Field& field : sample.fields)
      report_.fields[field.suffix].add(field.data.size());
    const std::string suffixes = joined_suffixes(sample);
    if (report_.field_sets.size() < kMaxFieldSets || report_.field_sets.contains(suffixes)) {
      FieldSet& set = report_.field_sets[suffixes];
      if (set.samples++ == 0) set.first_key = sample.key;
    }
    if (!keys_.insert(sample.key).second) ++report_.interleaved;
    report_.keys.push_back(sample.key);
  }

  /// Decodes all fields; the first one that cannot be decoded is the sample's fault.
  void decode(const wds::Sample& sample) {
    pictures_.clear();
    for (const wds::Field& field : sample.fields) {
      try {
        decode_field(sample, field);
      } catch (Error& fault) {
        fault.annotate({.url = report_.url,
                        .key = sample.key,
                        .member = sample.key + "." + field.suffix,
                        .offset = field.offset});
        ledger_.report(fault);
        return;
      }
    }
    ledger_.count_emitted(1);
    compare_sizes(sample);
  }

  void compare_sizes(const wds::Sample& sample) {
    const auto other = std::ranges::find_if(
        pictures_, [&](const Picture& picture) { return picture.size != pictures_.front().size; });
    if (other == pictures_.end() || report_.unequal_sizes.count++ > 0) return;
    const auto text = [](const Picture& picture) {
      return fmt::format("{} {} x {}", picture.suffix, picture.size.width, picture.size.height);
    };
    report_.unequal_sizes.first =
        fmt::format("{}, {} (width x height) (url {}, key {})", text(pictures_.front()),
                    text(*other), report_.url, sample.key);
  }

  void decode_field(const wds::Sample& sample, const wds::Field& field) {
    const auto value = decode::decode_field(field.suffix, field.data,
                                            {.tolerate_truncated = input_.tolerate_truncated});
    if (const auto* image = std::get_if<decode::Image>(&value)) {
      pictures_.push_back({field.suffix, {.height = image->height, .width = image->width}});
      if (!image->untidy.empty()) note_untidy(sample, field, image->untidy);
    }
    if (field.suffix != "cls") return;
    if (const auto* label = std::get_if<std::int64_t>(&value)) report_.classes.add(*label);
  }

  void note_untidy(const wds::Sample& sample, const wds::Field& field, const std::string& what) {
    if (report_.untidy.count++ > 0) return;
    report_.untidy.first = fmt::format("{} (url {}, member {}.{}, offset {})", what, report_.url,
                                       sample.key, field.suffix, field.offset);
  }

  // A shard that could not be opened has been reported already.
  void compare_whole() {
    if (!reader_ || !(hashed() || listed_ != nullptr)) return;
    if (listed_ == nullptr && !ledger_.entries().empty()) return;  // the index would add nothing
    try {
      const ShardFacts seen = found();
      if (listed_ != nullptr)
        for (Error& fault : differences(*listed_, seen)) report_whole(fault);
      compare_sha256(seen.sha256);
    } catch (Error& fault) {
      report_whole(fault);
    }
  }

  // The SHA-256 also covers the bytes between payloads. For a shard with other faults it adds
  // nothing; a manifest that disagrees with the index disagrees with the shard too.
  void compare_sha256(const std::string& sha256) {
    if (!options_.index || options_.index->sha256.empty() || !ledger_.entries().empty()) return;
    const std::string& said = options_.index->sha256;
    if (said == sha256) return;
    report_whole(
        Error(ErrorCode::kCorrupt, "the shard has SHA-256 " + sha256 + ", its index says " + said));
  }

  void report_whole(Error fault) {
    fault.annotate({.url = report_.url});
    ledger_.report(fault, 0);
  }

  ShardFacts found() {
    ShardFacts found;
    if (reader_->at_end()) found.samples = ledger_.read();
    if (hashed())
      std::tie(found.bytes, found.sha256) = hashing_.finish(input_.opener, url_, input_.shard.stop);
    return found;
  }

  ShardReport finish() {
    if (reader_) look_at_oddities(reader_->warnings());
    if (reader_) report_.refetched += reader_->refetched();
    report_.classes.finish();
    report_.emitted = ledger_.emitted();
    report_.skipped = ledger_.skipped();
    report_.unknown_shards = ledger_.unknown_shards();
    report_.faults = ledger_.entries();
    return std::move(report_);
  }

  /// A link or special file should have been a field: its sample is not as intended.
  void look_at_oddities(const wds::TarWarnings& odd) {
    report_.warnings = odd.missing_end;
    report_.unguarded = !options_.index && (listed_ == nullptr || listed_->sha256.empty()) &&
                        (reader_->compressed() ? odd.unguarded > 0 : true);
    if (odd.ignored_members == 0) return;
    ledger_.report(
        Error(ErrorCode::kUnsupported,
              fmt::format("symbolic links and special files are left out: {}, the first {}",
                          odd.ignored_members, odd.first_ignored),
              {.url = report_.url}),
        0);
  }

  std::string url_;
  const CheckInput& input_;
  wds::ShardOptions options_;
  const wds::ManifestShard* listed_;
  wds::HashingOpener hashing_;
  wds::FaultLedger ledger_{{.on_fault = wds::OnFault::kSkip}};
  std::optional<wds::ShardReader> reader_;
  ShardReport report_;
  std::vector<Picture> pictures_;  ///< of the sample that is decoded
  std::unordered_set<std::string> keys_;
};

}  // namespace

void FieldSizes::add(std::uint64_t size) {
  add({.count = 1, .min = size, .max = size, .total = size});
}

void FieldSizes::add(const FieldSizes& other) {
  count += other.count;
  min = std::min(min, other.min);
  max = std::max(max, other.max);
  total += other.total;
}

void FieldSet::add(const FieldSet& other) {
  if (samples == 0) first_key = other.first_key;
  samples += other.samples;
}

void Finding::add(const Finding& other) {
  if (count == 0) first = other.first;
  count += other.count;
}

namespace {

void add_up(std::uint64_t& sum, std::uint64_t more) { sum += more; }

template <typename Sum>
void add_up(Sum& sum, const Sum& more) {
  sum.add(more);
}

template <typename Key, typename Sum>
void add_up(std::map<Key, Sum>& sums, const std::map<Key, Sum>& more) {
  for (const auto& [key, value] : more) add_up(sums[key], value);
}

}  // namespace

void Findings::add(const Findings& other) {
  visit([&](const char*, auto member) { add_up(this->*member, other.*member); });
}

namespace {

bool is_damage(const wds::FaultLedger::Entry& fault) {
  return fault.code == ErrorCode::kCorrupt || fault.code == ErrorCode::kTruncated ||
         fault.code == ErrorCode::kExhausted;
}

}  // namespace

// What was damaged on the network is intact the second time; what is damaged in storage is not.
ShardReport check_shard(const std::string& url, const CheckInput& input) {
  ShardReport report = ShardCheck(url, input).run();
  if (!io::is_network_url(url) || std::ranges::none_of(report.faults, is_damage)) return report;
  ShardReport again = ShardCheck(url, input).run();
  if (std::ranges::none_of(again.faults, is_damage)) again.refetched += report.refetched + 1;
  return again;
}

}  // namespace millrace::tools
