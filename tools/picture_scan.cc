#include "tools/picture_scan.h"

#include "decode/codec.h"
#include "decode/text.h"
#include "tools/known_samples.h"
#include "tools/progress.h"
#include "tools/scan.h"

namespace millrace::tools {
namespace {

/// Limits of the samples that are decoded in parallel: number and bytes.
constexpr std::size_t kBatchSamples = 256;
constexpr std::size_t kBatchBytes = std::size_t{64} * 1024 * 1024;

/// 0: unknown.
std::uint64_t expected_samples(const PictureScanInput& input) {
  const std::uint64_t known = known_samples(input.ledger.policy(), input.shards);
  const bool is_cut = input.limit > 0 && (known == 0 || input.limit < known);
  return is_cut ? input.limit : known;
}

}  // namespace

void scan_batches(const PictureScanInput& input,
                  const std::function<bool(std::span<const wds::Sample>)>& each) {
  Progress progress(input.terminal, "samples", expected_samples(input),
                    "reading the first samples");
  const auto followed = progress.follow(input.opener, input.shards, Follow::kUnlessCounted);
  std::vector<wds::Sample> batch;
  std::size_t bytes = 0;
  std::uint64_t taken = 0;
  bool going = true;
  const auto flush = [&] {
    going = each(batch);
    batch.clear();
    bytes = 0;
    progress.at(taken);
  };
  const auto take = [&](const wds::Sample& sample) {
    batch.push_back(sample);
    bytes += sample.num_bytes();
    ++taken;
    if (batch.size() == kBatchSamples || bytes >= kBatchBytes) flush();
    return going && taken != input.limit;
  };
  scan({.shards = input.shards,
        .opener = *followed,
        .ledger = input.ledger,
        .stop = input.stop,
        .indexed = true},
       take);
  if (going) flush();
}

std::optional<Error> decode_sample(
    const wds::Sample& sample, const PictureScanInput& input, std::optional<std::int64_t>& label,
    const std::function<void(const wds::Field&, const decode::Image&)>& look) {
  const wds::Field* field = nullptr;
  try {
    if ((field = sample.find("cls")) != nullptr) label = decode::decode_integer(field->data);
    if ((field = sample.find_any(input.suffixes)) != nullptr)
      look(*field,
           decode::decode_image(field->data, {.tolerate_truncated = input.tolerate_truncated}));
    return {};
  } catch (Error& fault) {
    fault.annotate({.url = io::printable_url(*sample.url),
                    .key = sample.key,
                    .member = sample.key + "." + field->suffix,
                    .offset = field->offset});
    return fault;
  }
}

}  // namespace millrace::tools
