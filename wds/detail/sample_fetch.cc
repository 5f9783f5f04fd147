#include "wds/detail/sample_fetch.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "io/base/error.h"

namespace millrace::wds::detail {
namespace {

// Reading and dropping this much costs less than a new request.
constexpr std::uint64_t kWideGap = std::uint64_t{4} * 1024 * 1024;

/// One shard, read forward from one wanted sample to the next.
class Fetcher {
 public:
  Fetcher(std::string url, const io::Opener& opener, const ShardOptions& options)
      : url_(std::move(url)), opener_(opener), options_(options) {
    // Faulty samples are not among those wanted, so their faults must not stop this pass.
    options_.lenient = true;
  }

  Sample at(std::uint64_t offset) {
    if (!reader_ || offset > reader_->position() + kWideGap) {
      options_.offset = offset;
      reader_.emplace(opener_, url_, options_);
    }
    for (Sample sample; next(sample);) {
      if (sample.offset == offset) return sample;
      if (sample.offset > offset) break;
    }
    throw Error(ErrorCode::kCorrupt, "no sample where the saved position says: the shard changed",
                {.url = io::printable_url(url_), .offset = offset});
  }

 private:
  bool next(Sample& sample) {
    for (;;) {
      try {
        return reader_->next(sample);
      } catch (const Error&) {
        if (!reader_->can_continue()) throw;
      }
    }
  }

  std::string url_;
  const io::Opener& opener_;
  ShardOptions options_;
  std::optional<ShardReader> reader_;
};

}  // namespace

std::vector<BufferedSample> fetch_samples(
    const std::vector<StreamPosition::SampleRef>& refs,
    const std::function<std::string(std::uint32_t shard)>& url_of, const io::Opener& opener,
    const ShardOptions& options) {
  std::vector<std::size_t> order(refs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&refs](std::size_t a, std::size_t b) {
    return std::pair(refs[a].shard, refs[a].offset) < std::pair(refs[b].shard, refs[b].offset);
  });
  std::vector<BufferedSample> samples(refs.size());
  std::optional<Fetcher> fetcher;
  std::optional<std::uint32_t> open_shard;
  for (const std::size_t i : order) {
    if (open_shard != refs[i].shard) {
      open_shard = refs[i].shard;
      fetcher.emplace(url_of(refs[i].shard), opener, options);
    }
    samples[i] = {fetcher->at(refs[i].offset), refs[i].shard};
  }
  return samples;
}

}  // namespace millrace::wds::detail
