#include "tools/train/captions.h"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/json.h"
#include "decode/sample_id.h"
#include "decode/text.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "trainer/nn/token_embedding.h"

namespace millrace::tools {
namespace {

/// `read` gets a sample's caption.
template <typename Read>
void read_caption(const wds::Sample& sample, const TextTarget& of, const Read& read) try {
  const wds::Field* field = sample.find(of.field);
  if (field == nullptr) throw Error(ErrorCode::kCorrupt, "the sample has no " + of.field);
  if (of.key.empty()) return read(decode::decode_text(field->data));
  read(decode::decode_json_text(field->data, of.key));
} catch (Error& error) {
  error.annotate({.key = sample.key, .member = sample.key + "." + of.field});
  throw;
}

/// What the tower of texts takes for the caption.
std::vector<std::uint8_t> tower_values(std::string_view text, const TextTarget& of) {
  const auto length = static_cast<std::size_t>(of.tower.length);
  std::vector<std::uint8_t> values(static_cast<std::size_t>(of.tower.num_values()));
  if (!of.tokens) {
    std::ranges::transform(utf8_beginning(text, length), values.begin(),
                           [](char byte) { return static_cast<std::uint8_t>(byte); });
    return values;
  }
  const std::vector<std::int64_t> tokens = of.tokens->encode(text, length, of.marks);
  for (int place = 0; place < of.tower.digits; ++place)
    for (std::size_t i = 0; i < tokens.size(); ++i)
      values[static_cast<std::size_t>(place) * length + i] =
          static_cast<std::uint8_t>(trainer::nn::token_digit(tokens[i], place));
  return values;
}

template <typename Value, typename Convert>
void write_values(std::span<const std::uint8_t> values, std::span<std::byte> slot,
                  const Convert& convert) {
  std::vector<Value> converted(values.size());
  std::ranges::transform(values, converted.begin(), convert);
  std::memcpy(slot.data(), converted.data(), slot.size());
}

void write_caption(std::span<const std::uint8_t> values, decode::DType dtype,
                   std::span<std::byte> slot) {
  if (dtype == decode::DType::kBFloat16)
    return write_values<std::uint16_t>(
        values, slot, [](std::uint8_t value) { return decode::to_bfloat16(value); });
  if (dtype == decode::DType::kUInt8)
    return static_cast<void>(std::memcpy(slot.data(), values.data(), slot.size()));
  write_values<float>(values, slot, [](std::uint8_t value) { return value; });
}

}  // namespace

pipeline::FunctionField caption_field(const TextTarget& of, decode::DType dtype) {
  return {.name = kCaptionField,
          .output = {.dtype = dtype, .shape = {of.tower.num_values()}},
          .decode = [of, dtype](const wds::Sample& sample, const decode::SampleId&,
                                std::span<std::byte> slot) {
            read_caption(sample, of, [&](std::string_view text) {
              write_caption(tower_values(text, of), dtype, slot);
            });
          }};
}

pipeline::FunctionField same_caption_field(const TextTarget& of, std::string name) {
  return {.name = std::move(name),
          .output = {.dtype = decode::DType::kInt64, .shape = {}},
          .decode = [of](const wds::Sample& sample, const decode::SampleId&,
                         std::span<std::byte> slot) {
            read_caption(sample, of, [&](std::string_view text) {
              const std::uint64_t number = decode::sample_number(text);
              std::memcpy(slot.data(), &number, sizeof number);
            });
          }};
}

}  // namespace millrace::tools
