#include "pipeline/detail/text_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string_view>
#include <vector>

#include "decode/json.h"
#include "decode/text.h"
#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::pipeline::detail {
namespace {

std::vector<FieldDecoder::Output> text_outputs(const TextField& field) {
  constexpr std::int64_t kMost = 1 << 24;
  require(field.length > 0 && field.length <= kMost,
          fmt::format("field {}: length must be from 1 to {}", field.name, kMost));
  require(!field.tokenize || !field.tokenizer,
          fmt::format("field {}: tokens are of a function or of a tokenizer", field.name));
  require(field.tokenizer || !(field.marks.begin || field.marks.end),
          fmt::format("field {}: tokens to begin and end with are for a tokenizer", field.name));
  require(!field.tokenizer ||
              static_cast<std::size_t>(field.length) > field.tokenizer->num_added(field.marks),
          fmt::format("field {}: length {} has no room for a token of a text", field.name,
                      field.length));
  const bool has_tokens = field.tokenize || field.tokenizer;
  const auto dtype = has_tokens ? decode::DType::kInt64 : decode::DType::kUInt8;
  require(has_tokens || (field.padding >= 0 && field.padding <= 255),
          fmt::format("field {}: its padding is one of bytes: 0 to 255", field.name));
  return {{field.name, {dtype, {field.length}}},
          {field.name + ".mask", {decode::DType::kUInt8, {field.length}}}};
}

/// Fills `slot` with as many of the values as it holds, then with `padding`; returns how many.
template <typename T, typename Values>
std::size_t fill_values(std::span<std::byte> slot, const Values& values, std::int64_t padding) {
  std::vector<T> filled(slot.size() / sizeof(T), static_cast<T>(padding));
  const std::size_t count = std::min(filled.size(), values.size());
  std::transform(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(count),
                 filled.begin(), [](auto value) { return static_cast<T>(value); });
  std::memcpy(slot.data(), filled.data(), slot.size());
  return count;
}

class TextDecoder final : public FieldDecoder {
 public:
  explicit TextDecoder(const TextField& field)
      : FieldDecoder(text_outputs(field)), field_(field), suffixes_(field.suffixes) {
    require(!field.missing || is_utf8(*field.missing),
            fmt::format("field {}: its text for what is missing is not UTF-8", field.name));
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId&,
                          Slots slots) const override {
    if (field_.missing && suffixes_.lacks(sample, field_.json_key)) {
      write(*field_.missing, slots);
      return decode::Tidiness::kTidy;
    }
    decode_member(sample, suffixes_.find(sample), [&](const io::Bytes& data) {
      if (field_.json_key.empty()) return write(decode::decode_text(data), slots);
      write(decode::decode_json_text(data, field_.json_key), slots);
    });
    return decode::Tidiness::kTidy;
  }

 private:
  void write(std::string_view text, Slots slots) const {
    const auto length = static_cast<std::size_t>(field_.length);
    const std::size_t count = write_values(text, slots[0]);
    std::memset(slots[1].data(), 1, count);
    std::memset(slots[1].data() + count, 0, length - count);
  }

  std::size_t write_values(std::string_view text, std::span<std::byte> slot) const {
    const auto length = static_cast<std::size_t>(field_.length);
    if (field_.tokenizer)
      return fill_values<std::int64_t>(slot, field_.tokenizer->encode(text, length, field_.marks),
                                       field_.padding);
    if (field_.tokenize)
      return fill_values<std::int64_t>(slot, field_.tokenize(text), field_.padding);
    return fill_values<std::uint8_t>(slot, utf8_beginning(text, length), field_.padding);
  }

  TextField field_;
  Suffixes suffixes_;
};

}  // namespace

std::unique_ptr<const FieldDecoder> compile_text(const TextField& field) {
  return std::make_unique<TextDecoder>(field);
}

}  // namespace millrace::pipeline::detail
