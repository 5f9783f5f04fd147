#include "wds/detail/shuffle_buffer.h"

#include <algorithm>
#include <utility>

#include "io/base/error.h"
#include "wds/shuffle_draws.h"

namespace millrace::wds::detail {
namespace {

// Of the payloads in the buffers of all streams, and of one where there are many.
constexpr std::size_t kMemoryBytes = std::size_t{512} << 20;
constexpr std::size_t kLeastMemoryBytes = std::size_t{32} << 20;

// A mix divides a buffer's bytes between its sets, and so its memory. Who asks for more than the
// usual buffer has the memory for it.
std::size_t memory_of(const StreamSpec& spec) {
  if (spec.shuffle.buffer_bytes > ShuffleOptions().buffer_bytes)
    return static_cast<std::size_t>(spec.shuffle.buffer_bytes);
  const auto streams =
      static_cast<std::size_t>(std::max(1, spec.num_streams / std::max(1, spec.processes)));
  const auto half = static_cast<std::size_t>(spec.shuffle.buffer_bytes / 2);
  return std::max(kLeastMemoryBytes, std::min(kMemoryBytes / streams, half));
}

// Fields left out count too, or the order would depend on the choice of fields.
std::size_t bytes_of(const BufferedSample& one) {
  return one.sample.num_bytes() + static_cast<std::size_t>(one.sample.passed_bytes) +
         (one.aside ? one.aside->num_bytes : 0);
}

}  // namespace

ShuffleBuffer::ShuffleBuffer(const StreamSpec& spec) : ShuffleBuffer(spec, memory_of(spec)) {}

ShuffleBuffer::ShuffleBuffer(const StreamSpec& spec, std::size_t memory_bytes)
    : key_{.seed = spec.shuffle.seed,
           .epoch = spec.epoch,
           .stream = static_cast<std::uint32_t>(spec.stream),
           .purpose = kSampleShuffle},
      options_(spec.shuffle),
      memory_bytes_(memory_bytes) {
  begin_pass();
}

void ShuffleBuffer::begin_pass() {
  if (options_.order == Order::kWebDataset && options_.buffer_samples > 0) {
    webdataset_.emplace(options_.buffer_samples, options_.initial_samples,
                        options_.seed + (options_.detshuffle ? key_.epoch : 0));
  }
}

std::optional<std::size_t> ShuffleBuffer::next(const std::function<bool(BufferedSample&)>& read,
                                               std::uint64_t index, BufferedSample& picked) {
  gather(read);
  if (held_.empty()) return {};
  const std::size_t place = pick(index);
  picked = std::move(held_[place]);
  if (place + 1 < held_.size()) held_[place] = std::move(held_.back());
  held_.pop_back();
  refs_[place] = refs_.back();
  refs_.pop_back();
  held_bytes_ -= bytes_of(picked);
  bytes_in_memory_ -= picked.sample.num_bytes();
  return place;
}

void ShuffleBuffer::restore(std::vector<BufferedSample> held, std::uint64_t samples_in,
                            std::uint64_t samples_out) {
  held_ = std::move(held);
  held_bytes_ = bytes_in_memory_ = 0;
  refs_.clear();
  for (const BufferedSample& one : held_) {
    held_bytes_ += bytes_of(one);
    bytes_in_memory_ += one.sample.num_bytes();
    refs_.push_back({one.shard, one.sample.offset});
  }
  if (webdataset_) webdataset_->replay(samples_in, samples_out);
}

bool ShuffleBuffer::append(const std::function<bool(BufferedSample&)>& read) {
  BufferedSample one;
  if (!read(one)) return false;
  held_bytes_ += bytes_of(one);
  if (one.can_be_read_again && bytes_in_memory_ + one.sample.num_bytes() > memory_bytes_)
    one.aside = set_aside(one.sample);
  bytes_in_memory_ += one.sample.num_bytes();
  refs_.push_back({one.shard, one.sample.offset});
  held_.push_back(std::move(one));
  return true;
}

void ShuffleBuffer::gather(const std::function<bool(BufferedSample&)>& read) {
  if (webdataset_) {
    webdataset_->gather([&] { return append(read); },
                        [&] { return static_cast<std::int64_t>(held_.size()); });
    if (held_bytes_ <= options_.buffer_bytes) return;
    throw Error(ErrorCode::kExhausted,
                "a shuffle buffer of " + std::to_string(options_.buffer_samples) +
                    " samples in WebDataset's order holds more than its limit of " +
                    std::to_string(options_.buffer_bytes) + " bytes");
  }
  const auto wanted = static_cast<std::size_t>(std::max<std::int64_t>(1, options_.buffer_samples));
  fill(read, wanted, options_.buffer_bytes);
}

void ShuffleBuffer::fill(const std::function<bool(BufferedSample&)>& read, std::size_t samples,
                         std::size_t bytes) {
  while (held_.size() < samples && (held_.empty() || held_bytes_ < bytes) && append(read)) continue;
}

void ShuffleBuffer::prefill(const std::function<bool(BufferedSample&)>& read, std::size_t samples,
                            std::size_t bytes) {
  const auto limit = static_cast<std::size_t>(std::max<std::int64_t>(0, options_.buffer_samples));
  if (webdataset_ || limit < 2) return;
  fill(read, std::min(limit, samples), std::min(options_.buffer_bytes, bytes));
}

std::size_t ShuffleBuffer::pick(std::uint64_t index) {
  if (webdataset_) return webdataset_->pick(held_.size());
  return drawn_place(key_, index, held_.size());
}

}  // namespace millrace::wds::detail
