// scan_pictures: scan() for commands that look at each sample's label and picture. Both are decoded
// on many threads, a batch of samples at a time, and handed over in the samples' order. What cannot
// be decoded is a fault of its sample, by the ledger's policy.
//
//   scan_pictures<PictureFacts>(
//       {.shards = shards, .opener = opener, .ledger = ledger, .suffixes = "jpg;png"},
//       [](const wds::Field& field, const decode::Image& image) { return facts_of(...); },
//       [&](const wds::Sample& sample, ScannedSample<PictureFacts>& found) { ... });
//
// Order: the shards', and in each shard the samples'. Buffers: 256 samples or 64 MiB of them, and
// the pixels of a picture for each thread. Threads: one at a time.
#pragma once

#include <tbb/parallel_for.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "decode/image.h"
#include "io/base/error.h"
#include "io/opener.h"
#include "tools/task_arena.h"
#include "wds/fault_ledger.h"
#include "wds/sample.h"

namespace millrace::trainer {
class TerminalLine;
}

namespace millrace::tools {

/// What it points to is borrowed.
struct PictureScanInput {
  std::span<const std::string> shards;
  std::shared_ptr<const io::Opener> opener;
  wds::FaultLedger& ledger;
  std::stop_token stop = {};
  /// The pictures' suffixes, "jpg;png"; a sample's first match counts.
  std::string suffixes = {};
  bool tolerate_truncated = false;
  std::uint64_t limit = 0;                    ///< samples to read; 0: all
  int threads = 0;                            ///< 0: one per core
  trainer::TerminalLine* terminal = nullptr;  ///< null: none
};

template <typename Facts>
struct ScannedSample {
  std::optional<std::int64_t> label = {};
  std::optional<Facts> picture = {};  ///< of a sample that has one
  std::optional<Error> fault = {};    ///< then it is broken, and nothing else counts
};

/// Reads the samples in batches until `each` returns false; the terminal tells how many. Throws: as
/// scan().
void scan_batches(const PictureScanInput& input,
                  const std::function<bool(std::span<const wds::Sample>)>& each);

/// Decodes what a sample has of the two: the label into `label`, the picture for `look`. Returns
/// what is wrong with either, and where.
std::optional<Error> decode_sample(
    const wds::Sample& sample, const PictureScanInput& input, std::optional<std::int64_t>& label,
    const std::function<void(const wds::Field&, const decode::Image&)>& look);

/// `look` makes Facts of a field and its picture, on many threads; `take` is then called for every
/// sample, before its fault is reported. Throws: as the policy and scan() do; Cancelled.
template <typename Facts, typename Look, typename Take>
void scan_pictures(const PictureScanInput& input, const Look& look, const Take& take) {
  TaskArena threads(input.threads);
  const auto scanned = [&](const wds::Sample& sample) {
    ScannedSample<Facts> found;
    found.fault = decode_sample(sample, input, found.label,
                                [&](const wds::Field& field, const decode::Image& image) {
                                  found.picture = look(field, image);
                                });
    return found;
  };
  scan_batches(input, [&](std::span<const wds::Sample> batch) {
    std::vector<ScannedSample<Facts>> found(batch.size());
    threads.execute([&] {
      tbb::parallel_for(std::size_t{0}, batch.size(),
                        [&](std::size_t i) { found[i] = scanned(batch[i]); });
    });
    for (std::size_t i = 0; i < found.size(); ++i) {
      take(batch[i], found[i]);
      if (found[i].fault && input.ledger.report(*found[i].fault) == wds::OnFault::kStop)
        return false;
    }
    return true;
  });
}

}  // namespace millrace::tools
