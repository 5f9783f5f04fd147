// Samples of one's own, made without any shard, read through a pipeline: the words of a text, each
// with its place and its length. It is shared out over processes, continues from a position, and
// knows how long an epoch is, as shards do.
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/pipeline/epoch_length.h"
#include "millrace/pipeline/pipeline.h"
#include "millrace/pipeline/sample_source.h"

namespace mr = millrace;

/// Stream s of S gives the words s, s + S, s + 2 S ...
class Words final : public mr::pipeline::SampleSource {
 public:
  explicit Words(std::vector<std::string> words) : words_(std::move(words)) {}

  std::string name() const override { return "words"; }
  std::optional<std::int64_t> num_samples() const override {
    return static_cast<std::int64_t>(words_.size());
  }
  std::unique_ptr<Stream> open(const Request& request) const override;

  const std::string& word(std::uint64_t place) const { return words_[place]; }

 private:
  std::vector<std::string> words_;
};

class WordStream final : public mr::pipeline::SampleSource::Stream {
 public:
  WordStream(const Words& words, const mr::pipeline::SampleSource::Request& request)
      : words_(words),
        stream_(static_cast<std::uint64_t>(request.stream)),
        num_streams_(static_cast<std::uint64_t>(request.num_streams)),
        num_own_(
            mr::pipeline::stream_share(*words.num_samples(), request.num_streams, request.stream)),
        end_(num_own_ > 0 && request.max_samples > 0 ? request.max_samples : num_own_),
        next_(request.start ? request.start->samples_out : 0) {}

  bool next(mr::wds::SampleBlock& block) override {
    for (; next_ < end_ && !block.full(); ++next_) {
      const std::uint64_t place = stream_ + next_ % num_own_ * num_streams_;
      const std::string& word = words_.word(place);
      block.add({.key = std::to_string(place),
                 .fields = {{"txt", mr::io::Bytes::copy_of(word)},
                            {"cls", mr::io::Bytes::copy_of(std::to_string(word.size()))}}});
    }
    return !block.samples.empty();
  }

  mr::wds::StreamPosition position() const override { return {.samples_out = next_}; }

 private:
  const Words& words_;
  std::uint64_t stream_;
  std::uint64_t num_streams_;
  std::uint64_t num_own_;
  std::uint64_t end_;
  std::uint64_t next_;
};

std::unique_ptr<mr::pipeline::SampleSource::Stream> Words::open(const Request& request) const {
  return std::make_unique<WordStream>(*this, request);
}

mr::pipeline::Pipeline::Builder builder(const std::shared_ptr<const Words>& words) {
  mr::pipeline::Pipeline::Builder builder;
  builder.source(words)
      .split({.workers = 2})
      .field(mr::pipeline::LabelField{.name = "length"})
      .batch({.size = 2})
      .epochs({.count = 2});
  return builder;
}

std::vector<std::int64_t> lengths(mr::pipeline::Pipeline& pipeline) {
  std::vector<std::int64_t> all;
  do {
    for (mr::pipeline::Batch batch; pipeline.next(batch);) {
      const auto values = batch.field("length").as<std::int64_t>();  // (2)
      for (std::int64_t i = 0; i < batch.num_valid; ++i)
        all.push_back(values[static_cast<std::size_t>(i)]);
    }
  } while (!pipeline.finished());
  return all;
}

int main() {
  const auto words = std::make_shared<const Words>(
      std::vector<std::string>{"the", "wheel", "must", "never", "wait"});
  const std::vector<std::int64_t> epoch = {3, 5, 4, 5, 4};

  auto whole = builder(words).build();
  const auto batches = mr::pipeline::batches_per_epoch(whole.options());
  const std::vector<std::int64_t> all = lengths(whole);

  auto first = builder(words).build();
  mr::pipeline::Batch batch;
  first.next(batch);
  auto rest = builder(words).resume(*batch.position).build();
  const std::vector<std::int64_t> after = lengths(rest);

  std::vector<std::int64_t> twice = epoch;
  twice.insert(twice.end(), epoch.begin(), epoch.end());
  const bool right = batches == 3 && all == twice &&
                     after == std::vector<std::int64_t>(twice.begin() + 2, twice.end());
  std::printf("own source: %zu samples in two epochs, %zu after the first batch\n", all.size(),
              after.size());
  return right ? 0 : 1;
}
