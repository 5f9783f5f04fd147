#include "pipeline/detail/field_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "decode/json.h"
#include "decode/npy.h"
#include "decode/numbers.h"
#include "decode/scalar.h"

namespace millrace::pipeline::detail {
namespace {

class LabelDecoder final : public FieldDecoder {
 public:
  explicit LabelDecoder(const LabelField& field)
      : FieldDecoder({{field.name, {decode::DType::kInt64, {}}}}),
        suffixes_(field.suffixes),
        classes_(field.classes) {}

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId&,
                          Slots slots) const override {
    decode_member(sample, suffixes_.find(sample), [&](const io::Bytes& data) {
      const std::int64_t label = decode::decode_integer(data);
      check(label);
      std::memcpy(slots[0].data(), &label, sizeof label);
    });
    return decode::Tidiness::kTidy;
  }

 private:
  void check(std::int64_t label) const {
    if (classes_ == 0 || (label >= 0 && label < classes_)) return;
    throw Error(ErrorCode::kCorrupt,
                fmt::format("label {} is not one of the {} classes", label, classes_));
  }

  Suffixes suffixes_;
  std::int64_t classes_;
};

class FloatsDecoder final : public FieldDecoder {
 public:
  explicit FloatsDecoder(const FloatsField& field)
      : FieldDecoder({{field.name, {decode::DType::kFloat32, {field.size}}}}),
        suffixes_(field.suffixes),
        json_key_(field.json_key) {
    if (field.size <= 0) {
      throw Error(ErrorCode::kInvalidArgument, "a field of numbers needs a size above 0");
    }
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId&,
                          Slots slots) const override {
    const wds::Field& field = suffixes_.find(sample);
    const std::span<float> values{reinterpret_cast<float*>(slots[0].data()),
                                  slots[0].size() / sizeof(float)};
    decode_member(sample, field, [&](const io::Bytes& data) {
      if (field.suffix.ends_with("json"))
        return decode::decode_json_numbers(data, json_key_, values);
      decode::decode_numbers(data, values);
    });
    return decode::Tidiness::kTidy;
  }

 private:
  Suffixes suffixes_;
  std::string json_key_;
};

class NpyDecoder final : public FieldDecoder {
 public:
  explicit NpyDecoder(const ArrayField& field)
      : FieldDecoder({{field.name, field.output}}), suffixes_(field.suffixes) {}

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId&,
                          Slots slots) const override {
    decode_member(sample, suffixes_.find(sample), [&](const io::Bytes& data) {
      decode::copy_npy(decode::parse_npy(data), outputs()[0].spec, slots[0]);
    });
    return decode::Tidiness::kTidy;
  }

 private:
  Suffixes suffixes_;
};

class FunctionDecoder final : public FieldDecoder {
 public:
  explicit FunctionDecoder(const FunctionField& field)
      : FieldDecoder({{field.name, field.output}}), function_(field.decode) {
    if (!function_) throw Error(ErrorCode::kInvalidArgument, "a function field has no function");
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId& id,
                          Slots slots) const override {
    function_(sample, id, slots[0]);
    return decode::Tidiness::kTidy;
  }

 private:
  std::function<void(const wds::Sample&, const decode::SampleId&, std::span<std::byte>)> function_;
};

struct Compile {
  using Result = std::unique_ptr<const FieldDecoder>;
  Result operator()(const ImageField& field) const { return compile_image(field); }
  Result operator()(const PairedImagesField& field) const { return compile_paired_images(field); }
  Result operator()(const LabelField& field) const { return std::make_unique<LabelDecoder>(field); }
  Result operator()(const FloatsField& field) const {
    return std::make_unique<FloatsDecoder>(field);
  }
  Result operator()(const ArrayField& field) const { return std::make_unique<NpyDecoder>(field); }
  Result operator()(const FunctionField& field) const {
    return std::make_unique<FunctionDecoder>(field);
  }
};

/// Adds the suffixes of one field; false when that may be all there are.
class AddSuffixes {
 public:
  explicit AddSuffixes(std::vector<std::string>& wanted) : wanted_(wanted) {}

  bool operator()(const FunctionField&) const { return false; }
  bool operator()(const PairedImagesField& field) const {
    return std::all_of(field.members.begin(), field.members.end(), *this);
  }
  bool operator()(const ImageField& field) const { return add(suffixes_of(field)); }
  template <typename Field>
  bool operator()(const Field& field) const {
    return add(field.suffixes);
  }

 private:
  bool add(const std::string& list) const {
    const Suffixes suffixes(list);
    wanted_.insert(wanted_.end(), suffixes.all().begin(), suffixes.all().end());
    return true;
  }

  std::vector<std::string>& wanted_;
};

}  // namespace

std::vector<std::string> wanted_suffixes(const std::vector<FieldSpec>& fields) {
  std::vector<std::string> wanted;
  for (const FieldSpec& field : fields) {
    if (!std::visit(AddSuffixes(wanted), field)) return {};
  }
  return wanted;
}

Suffixes::Suffixes(const std::string& list) : list_(list) {
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

// The members of a sample are few and their suffixes short: looking at each is the fastest way.
const wds::Field& Suffixes::find(const wds::Sample& sample) const {
  for (const std::string& suffix : suffixes_) {
    if (const wds::Field* field = sample.find(suffix)) return *field;
  }
  throw Error(ErrorCode::kCorrupt, "the sample has none of the members " + list_);
}

std::unique_ptr<const FieldDecoder> compile_field(const FieldSpec& spec) {
  return std::visit(Compile{}, spec);
}

}  // namespace millrace::pipeline::detail
