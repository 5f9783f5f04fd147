#include "pipeline/detail/decode_stage.h"

#include <exception>
#include <new>
#include <utility>

#include "io/opener.h"
#include "pipeline/detail/open_batch.h"

namespace millrace::pipeline::detail {
namespace {

/// What a sample's decoder threw, with where it happened.
Error located(Error error, const wds::Sample& sample) {
  error.annotate({.key = sample.key, .stage = "decode"});
  if (sample.url)
    error.annotate({.url = io::printable_url(*sample.url), .offset = sample.offset});
  return error;
}

}  // namespace

void DecodeStage::decode(DecodeBlock& block) const {
  const Stopwatch busy(meters_.decode.busy_ns);
  for (SlotSample& item : block.samples) {
    if (stopped_.load(std::memory_order_relaxed)) break;
    decode_sample(*block.batch, item);
  }
  meters_.decode.count(block.samples.size(), block.num_bytes);
  encoded_.subtract(block.num_bytes);
  block.samples.clear();
}

void DecodeStage::decode_sample(OpenBatch& batch, SlotSample& item) const {
  wds::Sample& sample = item.sample;
  const decode::SampleId id{
      .seed = seed_, .epoch = batch.epoch(), .stream = item.stream, .index = item.index};
  try {
    if (layout_.decode(sample, id, batch.buffer(), item.slot) == decode::Tidiness::kUntidy)
      meters_.untidy.fetch_add(1, std::memory_order_relaxed);
    batch.fill(item.slot, std::move(sample.key));
  } catch (const Error& error) {
    batch.fault(item.slot, located(error, sample));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& other) {
    batch.fault(item.slot, located(Error(ErrorCode::kCorrupt, other.what()), sample));
  }
}

}  // namespace millrace::pipeline::detail
