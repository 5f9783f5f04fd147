#include "pipeline/detail/field_decoder.h"

#include <fmt/format.h>

#include <charconv>
#include <cstring>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/json.h"
#include "decode/scalar.h"
#include "io/base/error.h"

namespace millrace::pipeline::detail {
namespace {

/// The fields of one sample are few and their suffixes short: a linear look is the fastest one.
class Suffixes {
 public:
  explicit Suffixes(const std::string& list) : list_(list) {
    std::string_view rest = list;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(';'), rest.size());
      if (end > 0) suffixes_.emplace_back(rest.substr(0, end));
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    if (suffixes_.empty()) {
      throw Error(ErrorCode::kInvalidArgument, "a field needs at least one suffix");
    }
  }

  const wds::Field& find(const wds::Sample& sample) const {
    for (const std::string& suffix : suffixes_) {
      if (const wds::Field* field = sample.find(suffix)) return *field;
    }
    throw Error(ErrorCode::kCorrupt, "the sample has none of the members " + list_);
  }

 private:
  std::string list_;
  std::vector<std::string> suffixes_;
};

/// Gives faults of `decode` the member they lie in.
template <typename Decode>
void decode_member(const wds::Sample& sample, const wds::Field& field, const Decode& decode) {
  try {
    decode(field.data);
  } catch (Error& error) {
    error.annotate({.member = sample.key + "." + field.suffix, .offset = field.offset});
    throw;
  }
}

class Base : public FieldDecoder {
 public:
  Base(std::string name, decode::ArraySpec output)
      : name_(std::move(name)), output_(std::move(output)) {}
  const std::string& name() const override { return name_; }
  const decode::ArraySpec& output() const override { return output_; }

 private:
  std::string name_;
  decode::ArraySpec output_;
};

class ImageFieldDecoder final : public Base {
 public:
  explicit ImageFieldDecoder(const ImageField& field)
      : ImageFieldDecoder(field, make_decoder(field)) {}

  void decode(const wds::Sample& sample, const decode::SampleId& id,
              std::span<std::byte> slot) const override {
    const wds::Field& field = suffixes_.find(sample);
    decode_member(sample, field, [&](const io::Bytes& data) { decoder_.decode(data, id, slot); });
  }

 private:
  ImageFieldDecoder(const ImageField& field, decode::ImageDecoder decoder)
      : Base(field.name, decoder.output()),
        suffixes_(field.suffixes),
        decoder_(std::move(decoder)) {}

  static decode::ImageDecoder make_decoder(const ImageField& field) {
    return decode::ImageDecoder({.transforms = field.transforms,
                                 .channels = field.channels,
                                 .dtype = field.dtype,
                                 .layout = field.layout,
                                 .limits = field.limits,
                                 .tolerate_truncated = field.tolerate_truncated});
  }

  Suffixes suffixes_;
  decode::ImageDecoder decoder_;
};

class LabelFieldDecoder final : public Base {
 public:
  explicit LabelFieldDecoder(const LabelField& field)
      : Base(field.name, {decode::DType::kInt64, {}}),
        suffixes_(field.suffixes),
        classes_(field.classes) {}

  void decode(const wds::Sample& sample, const decode::SampleId&,
              std::span<std::byte> slot) const override {
    decode_member(sample, suffixes_.find(sample), [&](const io::Bytes& data) {
      const std::int64_t label = decode::decode_integer(data);
      check(label);
      std::memcpy(slot.data(), &label, sizeof label);
    });
  }

 private:
  void check(std::int64_t label) const {
    if (classes_ == 0 || (label >= 0 && label < classes_)) return;
    throw Error(ErrorCode::kCorrupt,
                fmt::format("label {} is not below the {} classes", label, classes_));
  }

  Suffixes suffixes_;
  std::int64_t classes_;
};

/// Numbers between spaces, newlines or commas.
void parse_numbers(std::string_view text, std::span<float> into) {
  constexpr std::string_view kBetween = " \t\r\n,";
  std::size_t count = 0;
  for (text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size())); !text.empty();
       text.remove_prefix(std::min(text.find_first_not_of(kBetween), text.size())), ++count) {
    float value = 0.0F;
    const auto [end, code] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (code != std::errc{}) throw Error(ErrorCode::kCorrupt, "not a number");
    if (count < into.size()) into[count] = value;
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  }
  if (count != into.size()) {
    throw Error(ErrorCode::kCorrupt, fmt::format("{} numbers, not {}", count, into.size()));
  }
}

class FloatsFieldDecoder final : public Base {
 public:
  explicit FloatsFieldDecoder(const FloatsField& field)
      : Base(field.name, {decode::DType::kFloat32, {field.size}}),
        suffixes_(field.suffixes),
        json_key_(field.json_key) {
    if (field.size <= 0) {
      throw Error(ErrorCode::kInvalidArgument, "a field of numbers needs a size above 0");
    }
  }

  void decode(const wds::Sample& sample, const decode::SampleId&,
              std::span<std::byte> slot) const override {
    const wds::Field& field = suffixes_.find(sample);
    const std::span<float> values{reinterpret_cast<float*>(slot.data()),
                                  slot.size() / sizeof(float)};
    decode_member(sample, field, [&](const io::Bytes& data) {
      if (field.suffix.ends_with("json")) {
        decode::decode_json_numbers(data, json_key_, values);
      } else {
        parse_numbers(data.text(), values);
      }
    });
  }

 private:
  Suffixes suffixes_;
  std::string json_key_;
};

class FunctionFieldDecoder final : public Base {
 public:
  explicit FunctionFieldDecoder(const FunctionField& field)
      : Base(field.name, field.output), function_(field.decode) {
    if (!function_) throw Error(ErrorCode::kInvalidArgument, "a function field has no function");
  }

  void decode(const wds::Sample& sample, const decode::SampleId& id,
              std::span<std::byte> slot) const override {
    function_(sample, id, slot);
  }

 private:
  std::function<void(const wds::Sample&, const decode::SampleId&, std::span<std::byte>)> function_;
};

struct Compile {
  std::unique_ptr<const FieldDecoder> operator()(const ImageField& field) const {
    return std::make_unique<ImageFieldDecoder>(field);
  }
  std::unique_ptr<const FieldDecoder> operator()(const LabelField& field) const {
    return std::make_unique<LabelFieldDecoder>(field);
  }
  std::unique_ptr<const FieldDecoder> operator()(const FloatsField& field) const {
    return std::make_unique<FloatsFieldDecoder>(field);
  }
  std::unique_ptr<const FieldDecoder> operator()(const FunctionField& field) const {
    return std::make_unique<FunctionFieldDecoder>(field);
  }
};

}  // namespace

std::unique_ptr<const FieldDecoder> compile_field(const FieldSpec& spec) {
  return std::visit(Compile{}, spec);
}

}  // namespace millrace::pipeline::detail
