#include "tools/train/class_count.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "decode/class_mask.h"
#include "decode/json.h"
#include "decode/text.h"
#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/text.h"
#include "tools/per_shard.h"
#include "tools/scan.h"
#include "wds/outgrown_index.h"
#include "wds/shard_index.h"

namespace millrace::tools {
namespace {

constexpr std::uint64_t kMebibyte = std::uint64_t{1} << 20;
constexpr std::size_t kAtOnce = 16;
// For all shards together; less over the network, where every byte costs time.
constexpr std::uint64_t kMaxLocalBytes = 256 * kMebibyte;
constexpr std::uint64_t kMaxNetworkBytes = 64 * kMebibyte;

struct Labels {
  std::int64_t highest = -1;
  std::string where = {};  ///< the sample of the highest
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
  bool cut = false;  // there is more that was not read

  void see(std::int64_t label, const std::string& url, const std::string& key) {
    if (label <= highest) return;
    highest = label;
    where = fmt::format("{}, key {}", io::printable_url(url), printable(key));
  }
  void add(const Labels& more) {
    if (more.highest > highest) where = more.where;
    highest = std::max(highest, more.highest);
    samples += more.samples;
    bytes += more.bytes;
    cut = cut || more.cut;
  }
};

// ---- from indexes

/// Maps the size and CRC-32 of a label's text, as in an index, to the label. Texts of the same
/// size have different CRC-32s here: it is one to one up to 32 bits, and a newline does not change
/// that.
class LabelTexts {
 public:
  LabelTexts() {
    for (std::int64_t label = 0; label <= kHighest; ++label) {
      const std::string text = std::to_string(label);
      for (const std::string& form : {text, text + "\n"})
        labels_.emplace(std::pair(form.size(), crc32(std::as_bytes(std::span(form)))), label);
    }
  }

  std::optional<std::int64_t> find(std::uint64_t size, std::uint32_t crc) const {
    const auto found = labels_.find({size, crc});
    if (found == labels_.end()) return {};
    return found->second;
  }

 private:
  static constexpr std::int64_t kHighest = 9999;
  std::map<std::pair<std::uint64_t, std::uint32_t>, std::int64_t> labels_;
};

/// Nullopt for a label that is not the plain text of a small number.
std::optional<Labels> labels_in(const wds::ShardIndex& index, const std::string& url,
                                const LabelTexts& texts) {
  Labels labels{.samples = index.samples.size()};
  for (const wds::IndexedSample& sample : index.samples) {
    for (const wds::IndexedMember& member : sample.members) {
      if (member.suffix != "cls") continue;
      const auto label = texts.find(member.size, member.crc32);
      if (!label) return {};
      labels.see(*label, url, sample.key);
    }
  }
  return labels;
}

std::optional<Labels> index_labels(const ClassCountInput& input, const std::string& url,
                                   const LabelTexts& texts) {
  try {
    wds::StoredSize size(input.opener, url, input.stop);  // while the index comes
    const auto index = wds::find_index(input.opener, url, input.stop);
    if (!index) return {};
    wds::check_size(url, *index, size.get());
    return labels_in(*index, url, texts);
  } catch (const Error& error) {
    // An index that is damaged, or of another shard, is ignored; the shard itself is read.
    if (error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kTruncated) return {};
    throw;
  }
}

/// Nullopt unless all shards have a usable index.
std::optional<Labels> count_by_indexes(const ClassCountInput& input) {
  if (std::any_of(input.shards.begin(), input.shards.end(), io::is_stream_url)) return {};
  const LabelTexts texts;
  std::optional<Labels> all = index_labels(input, input.shards.front(), texts);
  std::atomic<bool> known = all.has_value();
  const auto look = [&](const std::string& url) {
    return known ? index_labels(input, url, texts) : std::nullopt;
  };
  const auto take = [&](const std::optional<Labels>& labels) {
    if (!labels) known = false;
    if (known) all->add(*labels);
  };
  if (known)
    per_shard<std::optional<Labels>>(
        {.shards = input.shards.subspan(1), .threads = kAtOnce, .stop = input.stop}, look, take);
  return known ? all : std::nullopt;
}

// ---- from the samples

/// What to look for in samples.
struct Sought {
  std::string what;                                       ///< "label"
  std::string member;                                     ///< "cls"
  std::function<std::int64_t(const io::Bytes&)> highest;  ///< of one member
};

Labels scan_labels(const ClassCountInput& input, const Sought& sought, const std::string& url,
                   std::uint64_t max_bytes, wds::FaultLedger& ledger) {
  Labels seen;
  const auto look = [&](const wds::Sample& sample) {
    ++seen.samples;
    seen.bytes += sample.num_bytes();
    if (const wds::Field* label = sample.find_any(sought.member)) try {
        seen.see(sought.highest(label->data), *sample.url, sample.key);
      } catch (Error& fault) {
        fault.annotate({.url = *sample.url,
                        .key = sample.key,
                        .member = sample.key + "." + label->suffix,
                        .offset = label->offset});
        if (ledger.report(fault) == wds::OnFault::kStop) return false;
      }
    seen.cut = seen.bytes >= max_bytes;
    return !seen.cut;
  };
  scan({.shards = {&url, 1}, .opener = input.opener, .ledger = ledger, .stop = input.stop}, look);
  return seen;
}

/// Shards spread over the set, in an order that depends only on their number, so that a set sorted
/// by class shows all of its classes.
std::vector<std::string> spread(std::span<const std::string> shards) {
  const std::size_t groups = (shards.size() + kAtOnce - 1) / kAtOnce;
  std::vector<std::string> order;
  for (std::size_t first = 0; first < groups; ++first)
    for (std::size_t i = first; i < shards.size(); i += groups) order.push_back(shards[i]);
  return order;
}

bool has_network(const ClassCountInput& input) {
  return std::any_of(input.shards.begin(), input.shards.end(), io::is_network_url);
}

Labels count_by_scan(const ClassCountInput& input, const Sought& sought, std::uint64_t most) {
  const bool network = has_network(input);
  const std::uint64_t of_each = most / std::min(kAtOnce, input.shards.size());
  wds::FaultLedger ledger(unlogged(input.policy));
  const std::vector<std::string> order = spread(input.shards);
  std::span<const std::string> left(order);
  Labels seen;
  while (!left.empty() && seen.bytes < most) {
    const auto now = left.first(std::min(kAtOnce, left.size()));
    left = left.subspan(now.size());
    per_shard<Labels>(
        {.shards = now, .threads = network ? static_cast<int>(kAtOnce) : 0, .stop = input.stop},
        [&](const std::string& url) { return scan_labels(input, sought, url, of_each, ledger); },
        [&](const Labels& labels) { seen.add(labels); });
  }
  seen.cut = seen.cut || !left.empty();
  return seen;
}

Labels count_by_scan(const ClassCountInput& input, const Sought& sought) {
  return count_by_scan(input, sought, has_network(input) ? kMaxNetworkBytes : kMaxLocalBytes);
}

Sought class_labels() {
  return {.what = "label", .member = "cls", .highest = [](const io::Bytes& text) {
            return decode::decode_integer(text);
          }};
}

/// The number of lines of the label map; 0 without one.
std::int64_t count_names(const ClassCountInput& input) {
  const auto names = input.label_maps.names(input.shards);
  if (!names.empty())
    input.log.info(fmt::format("{}, by {}", counted(names.size(), "class"),
                               io::printable_url(label_map_url(input.shards.front()))));
  return static_cast<std::int64_t>(names.size());
}

/// Outputs for a label that is far beyond the others' number would take gigabytes.
void check_plausible(const Sought& sought, const Labels& seen) {
  constexpr std::uint64_t kAlways = 10'000;
  constexpr std::uint64_t kPerSample = 10;
  const auto classes = static_cast<std::uint64_t>(seen.highest) + 1;
  if (classes <= std::max(kAlways, kPerSample * seen.samples)) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("{} {} ({}) is out of all proportion to {}: give --classes {} if the "
                  "model is to have that many outputs",
                  sought.what, seen.highest, seen.where, counted(seen.samples, "sample"), classes));
}

std::int64_t report(const ClassCountInput& input, const Sought& sought, const Labels& seen) {
  if (seen.highest < 0)
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("no {} ({}) in {} of {}: give --classes", sought.what, sought.member,
                    counted(seen.samples, "sample"), io::printable_url(input.shards.front())));
  check_plausible(sought, seen);
  input.log.info(fmt::format("{}, counted in the {}s of {}{}",
                             counted(static_cast<std::uint64_t>(seen.highest + 1), "class"),
                             sought.what, counted(seen.samples, "sample"),
                             seen.cut ? "; give --classes if there are more" : ""));
  return seen.highest + 1;
}

}  // namespace

std::int64_t count_classes(const ClassCountInput& input) {
  if (const std::int64_t named = count_names(input); named > 0) return named;
  const Sought labels = class_labels();
  const std::optional<Labels> indexed = count_by_indexes(input);
  return report(input, labels, indexed ? *indexed : count_by_scan(input, labels));
}

void check_validation_labels(const ClassCountInput& input, std::int64_t classes) {
  constexpr std::uint64_t kMostBytes = 16 * kMebibyte;
  const std::optional<Labels> indexed = count_by_indexes(input);
  const bool is_read_at_once =
      !has_network(input) && std::ranges::none_of(input.shards, io::is_stream_url);
  if (!indexed && !is_read_at_once) return;
  const Labels seen = indexed ? *indexed : count_by_scan(input, class_labels(), kMostBytes);
  if (seen.highest < classes) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("--val has label {} ({}), and the model {}: give --classes {}, or a "
                  "--val of the same classes",
                  seen.highest, seen.where, counted(static_cast<std::uint64_t>(classes), "output"),
                  seen.highest + 1));
}

std::int64_t count_mask_classes(const ClassCountInput& input, const TaskChoice& task) {
  if (const std::int64_t named = count_names(input); named > 0) return named;
  const decode::ClassMask how = task.class_mask(0);
  const Sought masks{
      .what = "mask", .member = task.what().mask->field, .highest = [&how](const io::Bytes& mask) {
        std::int64_t most = -1;
        for (const std::int64_t label : decode::decode_classes(mask, how).labels)
          if (label != how.ignore) most = std::max(most, label);
        return most;
      }};
  return report(input, masks, count_by_scan(input, masks));
}

namespace {

bool has_member(const ClassCountInput& input, std::span<const std::string> shards,
                const std::string& member) {
  wds::FaultLedger ledger(unlogged(input.policy));
  bool found = false;
  scan({.shards = shards.first(1), .opener = input.opener, .ledger = ledger, .stop = input.stop},
       [&](const wds::Sample& sample) {
         found = sample.find(member) != nullptr;
         return false;
       });
  return found;
}

/// Of the shards and those that complete them, the list with `member`.
std::span<const std::string> list_with(const ClassCountInput& input, const std::string& member) {
  if (input.joins.empty() || has_member(input, input.shards, member)) return input.shards;
  for (const std::vector<std::string>& list : input.joins)
    if (has_member(input, list, member)) return list;
  return input.shards;
}

}  // namespace

std::int64_t count_outputs(const ClassCountInput& input, const TaskChoice& task) {
  const bool multilabel = task.what().has_labels();
  ClassCountInput labelled = input;
  labelled.shards = list_with(input, multilabel              ? "json"
                                     : task.has_class_mask() ? task.what().mask->field
                                                             : "cls");
  if (multilabel) return count_labels(labelled, task.what().label_key);
  return task.has_class_mask() ? count_mask_classes(labelled, task) : count_classes(labelled);
}

std::int64_t count_labels(const ClassCountInput& input, const std::string& key) {
  wds::FaultLedger ledger(unlogged(input.policy));
  std::int64_t labels = 0;
  scan({.shards = input.shards, .opener = input.opener, .ledger = ledger, .stop = input.stop},
       [&](const wds::Sample& sample) {
         if (const wds::Field* field = sample.find("json"))
           labels = static_cast<std::int64_t>(decode::decode_json_numbers(field->data, key).size());
         return false;
       });
  if (labels == 0)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("no \"{}\" in the json of the first sample of {}: give --classes", key,
                            io::printable_url(input.shards.front())));
  input.log.info(counted(static_cast<std::uint64_t>(labels), "label") +
                 ", counted in the first sample");
  return labels;
}

}  // namespace millrace::tools
