#include "wds/detail/shuffle_buffer.h"

#include <algorithm>
#include <utility>

#include "io/base/error.h"
#include "wds/shuffle_draws.h"

namespace millrace::wds::detail {
namespace {

// Fields left out count too, or the order would depend on the choice of fields.
std::size_t bytes_of(const Sample& sample) {
  return sample.num_bytes() + static_cast<std::size_t>(sample.passed_bytes);
}

}  // namespace

ShuffleBuffer::ShuffleBuffer(const StreamSpec& spec)
    : key_{.seed = spec.shuffle.seed,
           .epoch = spec.epoch,
           .stream = static_cast<std::uint32_t>(spec.stream),
           .purpose = kSampleShuffle},
      options_(spec.shuffle) {
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
  held_bytes_ -= bytes_of(picked.sample);
  return place;
}

void ShuffleBuffer::restore(std::vector<BufferedSample> held, std::uint64_t samples_in,
                            std::uint64_t samples_out) {
  held_ = std::move(held);
  held_bytes_ = 0;
  refs_.clear();
  for (const BufferedSample& one : held_) {
    held_bytes_ += bytes_of(one.sample);
    refs_.push_back({one.shard, one.sample.offset});
  }
  if (webdataset_) webdataset_->replay(samples_in, samples_out);
}

bool ShuffleBuffer::append(const std::function<bool(BufferedSample&)>& read) {
  BufferedSample one;
  if (!read(one)) return false;
  held_bytes_ += bytes_of(one.sample);
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
