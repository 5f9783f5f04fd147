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

std::string_view beginning(std::string_view text, std::size_t most) {
  const std::string_view cut = text.substr(0, most);
  return cut.substr(0, utf8_prefix(cut));
}

template <typename Value, typename Convert>
void write_bytes(std::string_view text, std::span<std::byte> slot, const Convert& convert) {
  std::vector<Value> values(slot.size() / sizeof(Value));
  std::ranges::transform(beginning(text, values.size()), values.begin(), [&](char byte) {
    return static_cast<Value>(convert(static_cast<std::uint8_t>(byte)));
  });
  std::memcpy(slot.data(), values.data(), slot.size());
}

void write_caption(std::string_view text, decode::DType dtype, std::span<std::byte> slot) {
  if (dtype == decode::DType::kBFloat16)
    return write_bytes<std::uint16_t>(text, slot,
                                      [](std::uint8_t byte) { return decode::to_bfloat16(byte); });
  if (dtype == decode::DType::kUInt8)
    return write_bytes<std::uint8_t>(text, slot, [](std::uint8_t byte) { return byte; });
  write_bytes<float>(text, slot, [](std::uint8_t byte) { return byte; });
}

}  // namespace

pipeline::FunctionField caption_field(const TextTarget& of, decode::DType dtype) {
  return {.name = kCaptionField,
          .output = {.dtype = dtype, .shape = {of.tower.length}},
          .decode = [of, dtype](const wds::Sample& sample, const decode::SampleId&,
                                std::span<std::byte> slot) {
            read_caption(sample, of,
                         [&](std::string_view text) { write_caption(text, dtype, slot); });
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
