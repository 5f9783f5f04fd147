#include "tools/train/class_count.h"

#include <fmt/format.h>

#include <algorithm>

#include "decode/json.h"
#include "decode/scalar.h"
#include "io/base/error.h"
#include "tools/label_map.h"
#include "tools/scan.h"

namespace millrace::tools {
namespace {

constexpr std::uint64_t kMaxScanBytes = std::uint64_t{256} * 1024 * 1024;

struct Scanned {
  std::int64_t highest = -1;
  std::uint64_t samples = 0;
  std::uint64_t bytes = 0;
};

Scanned scan_labels(const ClassCountInput& input) {
  wds::FaultLedger ledger(input.policy);
  Scanned seen;
  const auto look = [&](const wds::Sample& sample) {
    ++seen.samples;
    seen.bytes += sample.num_bytes();
    if (const wds::Field* label = sample.find("cls"))
      seen.highest = std::max(seen.highest, decode::decode_integer(label->data));
    return seen.bytes < kMaxScanBytes;
  };
  scan({.shards = input.shards, .opener = input.opener, .ledger = ledger, .stop = input.stop},
       look);
  return seen;
}

}  // namespace

std::int64_t count_classes(const ClassCountInput& input) {
  const auto names = read_label_map(input.opener, input.shards.front());
  if (!names.empty()) {
    input.log.info(fmt::format("{} classes, by {}", names.size(),
                               io::printable_url(label_map_url(input.shards.front()))));
    return static_cast<std::int64_t>(names.size());
  }
  const Scanned seen = scan_labels(input);
  if (seen.highest < 0)
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("no label (cls) in the first {} samples of {}: give --classes",
                            seen.samples, io::printable_url(input.shards.front())));
  input.log.info(fmt::format(
      "{} classes, counted in the labels of {} samples{}", seen.highest + 1, seen.samples,
      seen.bytes < kMaxScanBytes ? "" : "; give --classes if there are more"));
  return seen.highest + 1;
}

std::int64_t count_labels(const ClassCountInput& input, const std::string& key) {
  wds::FaultLedger ledger(input.policy);
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
  input.log.info(fmt::format("{} labels, counted in the first sample", labels));
  return labels;
}

}  // namespace millrace::tools
