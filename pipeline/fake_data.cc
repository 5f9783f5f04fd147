#include "pipeline/fake_data.h"

#include <fmt/format.h>

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/rng.h"
#include "pipeline/detail/field_decoder.h"
#include "pipeline/sample_source.h"

namespace millrace::pipeline {
namespace {

using decode::DType;

/// Samples that have a key and nothing else.
class EmptySamples final : public SampleSource {
 public:
  explicit EmptySamples(std::int64_t samples) : samples_(samples) {}

  std::string name() const override { return fmt::format("fake data, {} samples", samples_); }
  std::optional<std::int64_t> num_samples() const override { return samples_; }
  std::unique_ptr<Stream> open(const Request& request) const override;

 private:
  std::int64_t samples_;
};

class EmptyStream final : public SampleSource::Stream {
 public:
  EmptyStream(const SampleSource::Request& request, std::uint64_t end)
      : prefix_(std::to_string(request.stream) + "-"),
        next_(request.start ? request.start->samples_out : 0),
        end_(end) {}

  bool next(wds::SampleBlock& block) override {
    for (; next_ < end_ && !block.full(); ++next_)
      block.add({.key = prefix_ + std::to_string(next_)});
    return !block.samples.empty();
  }

  wds::StreamPosition position() const override { return {.samples_out = next_}; }

 private:
  std::string prefix_;
  std::uint64_t next_;
  std::uint64_t end_;
};

std::unique_ptr<SampleSource::Stream> EmptySamples::open(const Request& request) const {
  const std::uint64_t own = stream_share(samples_, request.num_streams, request.stream);
  const bool is_cut = own > 0 && request.max_samples > 0;
  return std::make_unique<EmptyStream>(request, is_cut ? request.max_samples : own);
}

void write_value(DType dtype, float value, std::byte* to) {
  const auto whole = static_cast<std::int64_t>(255.0F * value);
  const auto byte = static_cast<std::uint8_t>(whole);
  const auto wide = static_cast<std::uint16_t>(whole);
  const std::uint16_t half =
      dtype == DType::kFloat16 ? decode::to_float16(value) : decode::to_bfloat16(value);
  switch (dtype) {
    case DType::kUInt8:
      std::memcpy(to, &byte, sizeof byte);
      return;
    case DType::kUInt16:
      std::memcpy(to, &wide, sizeof wide);
      return;
    case DType::kInt64:
      std::memcpy(to, &whole, sizeof whole);
      return;
    case DType::kFloat32:
      std::memcpy(to, &value, sizeof value);
      return;
    case DType::kBFloat16:
    case DType::kFloat16:
      std::memcpy(to, &half, sizeof half);
      return;
  }
}

/// Values from 0 to 1, or from 0 to 255; class numbers for a mask.
std::vector<std::byte> random_picture(const decode::ArraySpec& spec, std::uint64_t seed,
                                      std::int64_t classes) {
  KeyedRng rng({.seed = seed, .purpose = Purpose::kSynthetic});
  std::vector<std::byte> picture(spec.num_bytes());
  if (spec.dtype == DType::kInt64) {
    for (std::size_t at = 0; at < picture.size(); at += sizeof(std::int64_t)) {
      const auto label = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(classes)));
      std::memcpy(picture.data() + at, &label, sizeof label);
    }
    return picture;
  }
  const std::size_t size = decode::dtype_size(spec.dtype);
  for (std::size_t at = 0; at < picture.size(); at += size) {
    write_value(spec.dtype, rng.uniform(), picture.data() + at);
  }
  return picture;
}

void draw_label(const decode::SampleId& id, std::int64_t classes, std::span<std::byte> slot) {
  KeyedRng rng = id.rng(Purpose::kSynthetic);
  const auto label = static_cast<std::int64_t>(rng.below(static_cast<std::uint64_t>(classes)));
  std::memcpy(slot.data(), &label, sizeof label);
}

void draw_targets(const decode::SampleId& id, std::span<std::byte> slot) {
  KeyedRng rng = id.rng(Purpose::kSynthetic);
  for (std::size_t at = 0; at < slot.size(); at += sizeof(float)) {
    const float value = rng.uniform() < 0.5F ? 0.0F : 1.0F;
    std::memcpy(slot.data() + at, &value, sizeof value);
  }
}

FunctionField fake_field(const detail::FieldDecoder::Output& output, std::uint64_t seed,
                         std::int64_t classes) {
  FunctionField field;
  field.name = output.name;
  field.output = output.spec;
  if (output.spec.dtype == DType::kInt64 && output.spec.shape.empty()) {
    field.decode = [classes](const auto&, const decode::SampleId& id, std::span<std::byte> slot) {
      draw_label(id, classes, slot);
    };
  } else if (output.spec.dtype == DType::kFloat32 && output.spec.shape.size() == 1) {
    field.decode = [](const auto&, const decode::SampleId& id, std::span<std::byte> slot) {
      draw_targets(id, slot);
    };
  } else {
    field.decode = [picture = random_picture(output.spec, seed, classes)](
                       const auto&, const auto&, std::span<std::byte> slot) {
      std::memcpy(slot.data(), picture.data(), slot.size());
    };
  }
  return field;
}

std::vector<FieldSpec> fake_fields(const PipelineOptions& options, std::int64_t classes) {
  std::vector<FieldSpec> fields;
  for (std::size_t i = 0; i < options.fields.size(); ++i) {
    const auto decoder = detail::compile_field(options.fields, i);
    if (!decoder) {  // its values are empty
      RawField raw = std::get<RawField>(options.fields[i]);
      raw.missing = "";
      fields.emplace_back(std::move(raw));
      continue;
    }
    for (const auto& output : decoder->outputs()) {
      fields.emplace_back(fake_field(output, options.shuffle.seed, classes));
    }
  }
  return fields;
}

}  // namespace

PipelineOptions with_fake_data(PipelineOptions options, const FakeDataOptions& fake) {
  require(fake.samples > 0 && fake.classes > 0,
          "fake data: the number of samples per epoch and of classes must be above 0");
  options.fields = fake_fields(options, fake.classes);
  options.source = std::make_shared<const EmptySamples>(fake.samples);
  options.shards = {};
  options.shuffle = {.seed = options.shuffle.seed};
  options.epochs.resampled = false;
  options.epochs.passes = 0;
  options.indexed = false;
  return options;
}

}  // namespace millrace::pipeline
