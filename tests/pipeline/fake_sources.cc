#include "tests/pipeline/fake_sources.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <condition_variable>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/rng.h"

namespace millrace::testing {
namespace {

class FakeStream final : public pipeline::SampleSource::Stream {
 public:
  FakeStream(FakeStreams streams, const pipeline::SampleSource::Request& request)
      : streams_(std::move(streams)),
        stream_(request.stream),
        epoch_(request.epoch),
        stop_(request.stop),
        next_(request.start ? request.start->samples_out : 0),
        end_(request.max_samples > 0 ? request.max_samples
             : streams_.length       ? static_cast<std::uint64_t>(streams_.length(stream_, epoch_))
                                     : 100),
        url_(std::make_shared<const std::string>("fake-" + std::to_string(stream_) + ".tar")) {}

  bool next(wds::SampleBlock& block) override {
    if (next_ == end_) return false;
    if (streams_.before_block) streams_.before_block(stream_, epoch_, next_);
    wait();
    ++*streams_.blocks_read;
    const std::uint64_t stop_at = std::min(end_, next_ + streams_.block_samples);
    for (; next_ < stop_at; ++next_) block.add(make_sample());
    return true;
  }

  wds::StreamPosition position() const override { return {.samples_out = next_}; }

 private:
  void wait() {
    if (streams_.delay_per_block.count() > 0) std::this_thread::sleep_for(streams_.delay_per_block);
    if (streams_.block_at < 0 || next_ < static_cast<std::uint64_t>(streams_.block_at)) return;
    std::mutex mutex;
    std::condition_variable_any never;
    std::unique_lock lock(mutex);
    never.wait(lock, stop_, [] { return false; });
    throw Error(ErrorCode::kCancelled, "read cancelled");
  }

  wds::Sample make_sample() const {
    std::vector<std::byte> payload(streams_.payload_bytes);
    const std::uint64_t number =
        (std::uint64_t{epoch_} << 48) + (static_cast<std::uint64_t>(stream_) << 32) + next_;
    std::memcpy(payload.data(), &number, sizeof number);
    return {.key = fake_key(stream_, epoch_, next_),
            .url = url_,
            .offset = next_ * 1024,
            .fields = {{"bin", io::Bytes::take(std::move(payload)), 512}}};
  }

  FakeStreams streams_;
  int stream_;
  std::uint32_t epoch_;
  std::stop_token stop_;
  std::uint64_t next_;
  std::uint64_t end_;
  std::shared_ptr<const std::string> url_;
};

class FakeSource final : public pipeline::SampleSource {
 public:
  explicit FakeSource(FakeStreams streams) : streams_(std::move(streams)) {}

  std::string name() const override { return "numbered samples"; }
  std::unique_ptr<Stream> open(const Request& request) const override {
    return std::make_unique<FakeStream>(streams_, request);
  }

 private:
  FakeStreams streams_;
};

}  // namespace

std::string fake_key(int stream, std::uint32_t epoch, std::uint64_t index) {
  return std::to_string(stream) + "/" + std::to_string(epoch) + "/" + std::to_string(index);
}

pipeline::FieldSpec number_field(std::function<bool(const std::string& key)> faulty) {
  pipeline::FunctionField field;
  field.name = "number";
  field.output.dtype = decode::DType::kInt64;
  field.output.shape.push_back(2);
  field.decode = [faulty = std::move(faulty)](const wds::Sample& sample, const decode::SampleId& id,
                                              std::span<std::byte> slot) {
    if (faulty && faulty(sample.key)) throw Error(ErrorCode::kCorrupt, "bad " + sample.key);
    std::memcpy(slot.data(), sample.find("bin")->data.data(), 8);
    KeyedRng rng({.seed = id.seed, .epoch = id.epoch, .stream = id.stream, .index = id.index});
    const std::int64_t drawn = rng();
    std::memcpy(slot.data() + 8, &drawn, 8);
  };
  return field;
}

pipeline::PipelineOptions fake_options(int streams, std::int64_t batch_size) {
  pipeline::PipelineOptions options;
  options.split.streams = streams;
  options.shuffle.seed = 7;
  options.fields = {number_field()};
  options.batch.size = batch_size;
  options.resources = {.threads = 2, .io_threads = 2, .prefetch = 2};
  return options;
}

std::shared_ptr<const pipeline::SampleSource> fake_source(const FakeStreams& streams) {
  return std::make_shared<const FakeSource>(streams);
}

pipeline::Pipeline fake_pipeline(pipeline::PipelineOptions options, const FakeStreams& streams) {
  options.source = fake_source(streams);
  return pipeline::Pipeline(std::move(options));
}

std::string describe(const pipeline::Batch& batch) {
  std::string text = std::to_string(batch.epoch) + "." + std::to_string(batch.index) + " " +
                     std::to_string(batch.num_valid) + "/" + std::to_string(batch.size);
  for (std::size_t i = 0; i < batch.keys.size(); ++i) {
    text += batch.valid[i] ? " " + batch.keys[i] : " -" + batch.keys[i];
  }
  if (batch.num_valid == 0) return text;  // the arrays of the batch before it, or zeros
  for (const pipeline::BatchField& field : batch.fields) {
    text += " " + field.name + "=" + std::to_string(crc32(field.data));
  }
  return text;
}

std::vector<std::string> describe_all(pipeline::Pipeline& pipeline) {
  std::vector<std::string> all;
  do {
    for (pipeline::Batch batch; pipeline.next(batch);) all.push_back(describe(batch));
    all.push_back("end");
  } while (!pipeline.finished());
  return all;
}

std::vector<std::string> expect_same_after_any_resume(pipeline::PipelineOptions options) {
  std::vector<std::string> all;
  std::vector<std::string> positions;
  pipeline::Pipeline whole(options);
  while (!whole.finished()) {
    for (pipeline::Batch batch; whole.next(batch);) {
      all.push_back(describe(batch));
      positions.push_back(batch.position->to_json());
    }
    all.push_back("end");
    positions.push_back(whole.position().to_json());
  }
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    options.resume =
        std::make_shared<const pipeline::Position>(pipeline::Position::from_json(positions[i]));
    pipeline::Pipeline resumed(options);
    const std::vector<std::string> after(all.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                         all.end());
    EXPECT_EQ(describe_all(resumed), after) << positions[i];
  }
  return positions;
}

}  // namespace millrace::testing
