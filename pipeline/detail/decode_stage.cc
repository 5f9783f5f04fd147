#include "pipeline/detail/decode_stage.h"

#include <algorithm>
#include <array>
#include <exception>
#include <new>
#include <utility>

#include "io/opener.h"

namespace millrace::pipeline::detail {
namespace {

/// A decoder's fault, with the sample's place.
Error located(Error error, const wds::Sample& sample) {
  error.annotate({.key = sample.key, .stage = "decode"});
  for (const wds::Field& field : sample.fields)
    if (field.url && error.where().member == sample.key + "." + field.suffix)
      error.annotate({.url = *field.url, .offset = field.offset});
  if (sample.url) error.annotate({.url = *sample.url, .offset = sample.offset});
  return error;
}

/// Which samples are decoded, into which slots.
void trace_decode(const DecodeBlock& block, TraceSpan& span) {
  if (!span || block.samples.empty()) return;
  const wds::Sample& first = block.samples.front().sample;
  if (first.url) span.arg("shard", io::printable_url(*first.url));
  span.arg("first_key", first.key);
  span.arg("last_key", block.samples.back().sample.key);
  span.arg("first_slot", block.first_slot);
  span.arg("samples", block.samples.size());
  span.arg("bytes", block.num_bytes);
}

}  // namespace

void DecodeStage::decode(DecodeBlock& block) const {
  StageWork work(meters_.decode, meters_.trace, "pipeline", "decode");
  const Stopwatch<ThreadClock> processor(meters_.decode_processor_ns);
  trace_decode(block, work.span());
  std::int64_t slot = block.first_slot;
  for (SlotSample& sample : block.samples) {
    if (stopped_.load(std::memory_order_relaxed)) break;
    decode_sample(sample, *block.round, slot++);
  }
  meters_.decode.count(block.samples.size(), block.num_bytes);
  encoded_.subtract(block.num_bytes);
  block.samples.clear();
}

void DecodeStage::decode_sample(SlotSample& sample, OpenRound& round, std::int64_t slot) const {
  try {
    if (fill_fields(sample, round.place_of(slot)) == decode::Tidiness::kUntidy)
      meters_.untidy.fetch_add(1, std::memory_order_relaxed);
    std::vector<io::Bytes> ragged = ragged_values(sample.sample);
    round.fill(slot, std::move(sample.sample.key), std::move(ragged));
  } catch (const Error& error) {
    round.fault(slot, located(error, sample.sample));
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& other) {
    round.fault(slot, located(Error(ErrorCode::kCorrupt, other.what()), sample.sample));
  } catch (...) {
    round.fault(slot, located(Error(ErrorCode::kCorrupt,
                                    "a function of the program threw what is no std::exception"),
                              sample.sample));
  }
}

std::vector<io::Bytes> DecodeStage::ragged_values(const wds::Sample& sample) const {
  std::vector<io::Bytes> values;
  values.reserve(ragged_.size());
  for (const RaggedDecoder& decoder : ragged_) values.push_back(decoder.decode(sample));
  return values;
}

decode::Tidiness DecodeStage::fill_fields(const SlotSample& sample,
                                          const OpenRound::Place& place) const {
  auto tidiness = decode::Tidiness::kTidy;
  decode::SampleId id = sample.id;
  id.sample = decode::sample_number(sample.sample.key);
  std::array<std::span<std::byte>, BatchLayout::kMaxFields> slots;
  std::size_t field = 0;
  for (const auto& decoder : decoders_) {
    const std::size_t count = decoder->outputs().size();
    for (std::size_t i = 0; i < count; ++i)
      slots[i] = layout_.slot(place.buffer, field++, place.row);
    tidiness =
        std::max(tidiness, decoder->decode(sample.sample, id, std::span(slots).first(count)));
  }
  return tidiness;
}

}  // namespace millrace::pipeline::detail
