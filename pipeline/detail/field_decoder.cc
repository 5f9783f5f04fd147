#include "pipeline/detail/field_decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "decode/image_decoder.h"
#include "decode/json.h"
#include "decode/npy.h"
#include "decode/paired_decoder.h"
#include "decode/text.h"
#include "decode/views_decoder.h"
#include "io/base/hash.h"
#include "pipeline/detail/boxes_decoder.h"
#include "pipeline/detail/clip_decoder.h"
#include "pipeline/detail/text_decoder.h"

namespace millrace::pipeline::detail {
namespace {

std::string number_text(double value) { return fmt::format("{:g}", value); }

/// Fills `slot` with a value. Throws: InvalidArgument if the type does not have it.
void fill_with(double value, decode::DType dtype, std::span<std::byte> slot) {
  const auto fill = [&](auto one) {
    for (std::size_t at = 0; at < slot.size(); at += sizeof one)
      std::memcpy(slot.data() + at, &one, sizeof one);
  };
  switch (dtype) {
    case decode::DType::kUInt8:
      return fill(static_cast<std::uint8_t>(value));
    case decode::DType::kUInt16:
      return fill(static_cast<std::uint16_t>(value));
    case decode::DType::kInt64:
      return fill(static_cast<std::int64_t>(value));
    case decode::DType::kFloat32:
      return fill(static_cast<float>(value));
    case decode::DType::kBFloat16:
      return fill(decode::to_bfloat16(static_cast<float>(value)));
    case decode::DType::kFloat16:
      return fill(decode::to_float16(static_cast<float>(value)));
  }
}

/// Throws: InvalidArgument for a value that an array of `dtype` cannot hold.
void check_missing(std::optional<double> value, decode::DType dtype, const std::string& name) {
  if (!value) return;
  if (dtype == decode::DType::kFloat32 || dtype == decode::DType::kBFloat16 ||
      dtype == decode::DType::kFloat16) {
    const double most =
        dtype == decode::DType::kFloat16 ? 65504.0 : std::numeric_limits<float>::max();
    return require(!std::isfinite(*value) || std::abs(*value) <= most,
                   fmt::format("field {}: {} for what is missing does not fit into {}", name,
                               number_text(*value), decode::dtype_name(dtype)));
  }
  constexpr double kMostExact = 9007199254740992.0;  // 2^53
  const double most = dtype == decode::DType::kUInt8    ? 255.0
                      : dtype == decode::DType::kUInt16 ? 65535.0
                                                        : kMostExact;
  const double least = dtype == decode::DType::kInt64 ? -kMostExact : 0.0;
  require(*value >= least && *value <= most && std::trunc(*value) == *value,
          fmt::format("field {}: {} for what is missing does not fit into {}", name,
                      number_text(*value), decode::dtype_name(dtype)));
}

bool is_json(const wds::Field& field) { return field.suffix.ends_with("json"); }

/// Of numbers, which are JSON in members of that suffix alone.
bool lacks_number(const wds::Sample& sample, const Suffixes& suffixes,
                  const std::string& json_key) {
  const wds::Field* field = suffixes.find_any(sample);
  return field == nullptr || (is_json(*field) && decode::lacks_json_value(field->data, json_key));
}

class LabelDecoder final : public FieldDecoder {
 public:
  explicit LabelDecoder(const LabelField& field)
      : FieldDecoder({{field.name, {decode::DType::kInt64, {}}}}),
        suffixes_(field.suffixes),
        classes_(field.classes),
        json_key_(field.json_key),
        missing_(field.missing) {
    require(classes_ >= 0, fmt::format("field {}: its classes must not be negative", field.name));
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId&,
                          Slots slots) const override {
    const std::int64_t label = label_of(sample);
    std::memcpy(slots[0].data(), &label, sizeof label);
    return decode::Tidiness::kTidy;
  }

 private:
  std::int64_t label_of(const wds::Sample& sample) const {
    if (missing_ && lacks_number(sample, suffixes_, json_key_)) return *missing_;
    const wds::Field& field = suffixes_.find(sample);
    return decode_member(sample, field, [&](const io::Bytes& data) {
      const std::int64_t label = is_json(field) ? decode::decode_json_integer(data, json_key_)
                                                : decode::decode_integer(data);
      check(label);
      return label;
    });
  }
  void check(std::int64_t label) const {
    if (classes_ == 0 || (label >= 0 && label < classes_)) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("label {} is not one of the {} classes", label, classes_));
  }

  Suffixes suffixes_;
  std::int64_t classes_;
  std::string json_key_;
  std::optional<std::int64_t> missing_;
};

class FloatsDecoder final : public FieldDecoder {
 public:
  explicit FloatsDecoder(const FloatsField& field)
      : FieldDecoder({{field.name, {decode::DType::kFloat32, {field.size}}}}),
        suffixes_(field.suffixes),
        json_key_(field.json_key),
        missing_(field.missing) {
    if (field.size <= 0) {
      throw Error(ErrorCode::kInvalidArgument, "a field of numbers needs a size above 0");
    }
    check_missing(missing_, decode::DType::kFloat32, field.name);
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId&,
                          Slots slots) const override {
    if (missing_ && lacks_number(sample, suffixes_, json_key_)) {
      fill_with(*missing_, decode::DType::kFloat32, slots[0]);
      return decode::Tidiness::kTidy;
    }
    const wds::Field& field = suffixes_.find(sample);
    const std::span<float> values{reinterpret_cast<float*>(slots[0].data()),
                                  slots[0].size() / sizeof(float)};
    decode_member(sample, field, [&](const io::Bytes& data) {
      if (is_json(field)) return decode::decode_json_numbers(data, json_key_, values);
      decode::decode_numbers(data, values);
    });
    return decode::Tidiness::kTidy;
  }

 private:
  Suffixes suffixes_;
  std::string json_key_;
  std::optional<double> missing_;
};

class NpyDecoder final : public FieldDecoder {
 public:
  explicit NpyDecoder(const ArrayField& field)
      : FieldDecoder({{field.name, field.output}}),
        suffixes_(field.suffixes),
        missing_(field.missing) {
    check_missing(missing_, field.output.dtype, field.name);
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId&,
                          Slots slots) const override {
    if (missing_ && suffixes_.find_any(sample) == nullptr) {
      fill_with(*missing_, outputs()[0].spec.dtype, slots[0]);
      return decode::Tidiness::kTidy;
    }
    decode_member(sample, suffixes_.find(sample), [&](const io::Bytes& data) {
      decode::copy_npy(decode::parse_npy(data), outputs()[0].spec, slots[0]);
    });
    return decode::Tidiness::kTidy;
  }

 private:
  Suffixes suffixes_;
  std::optional<double> missing_;
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

decode::ImageDecoderOptions decoder_options(const ImageField& field, const Pictures& pictures) {
  return {.transforms = field.transforms,
          .channels = field.channels,
          .dtype = field.dtype,
          .layout = field.layout,
          .interpolation = field.interpolation,
          .padding = field.padding,
          .palette_indices = field.palette_indices,
          .classes = field.classes,
          .values = field.values,
          .apply_orientation = field.apply_orientation,
          .limits = field.limits,
          .tolerate_truncated = field.tolerate_truncated,
          .codecs = field.codecs,
          .cache = pictures.cache,
          .meter = pictures.meter};
}

decode::SampleId with_view(decode::SampleId id, std::uint64_t view) {
  id.view = view;
  return id;
}

class ImageDecoderField final : public FieldDecoder {
 public:
  ImageDecoderField(const ImageField& field, decode::ImageDecoder decoder, std::uint64_t view)
      : FieldDecoder({{field.name, decoder.output()}}),
        suffixes_(suffixes_of(field)),
        decoder_(std::move(decoder)),
        missing_(field.missing),
        view_(view) {
    check_missing(missing_, field.dtype, field.name);
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId& id,
                          Slots slots) const override {
    if (missing_ && suffixes_.find_any(sample) == nullptr) {
      fill_with(*missing_, outputs()[0].spec.dtype, slots[0]);
      return decode::Tidiness::kTidy;
    }
    return decode_member(sample, suffixes_.find(sample), [&](const io::Bytes& data) {
      return decoder_.decode(data, with_view(id, view_), slots[0]);
    });
  }

 private:
  Suffixes suffixes_;
  decode::ImageDecoder decoder_;
  std::optional<double> missing_;
  std::uint64_t view_;
};

/// The numbered views of one member.
class ViewsDecoderField final : public FieldDecoder {
 public:
  ViewsDecoderField(const std::vector<ImageField>& views, decode::ViewsDecoder decoder)
      : FieldDecoder(outputs_of(views, decoder)),
        suffixes_(suffixes_of(views.front())),
        decoder_(std::move(decoder)) {
    for (const ImageField& view : views) {
      check_missing(view.missing, view.dtype, view.name);
      missing_.push_back(view.missing);
      views_.push_back(decode::numbered_view(static_cast<std::uint64_t>(*view.view)));
    }
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId& id,
                          Slots slots) const override {
    if (suffixes_.find_any(sample) == nullptr && std::ranges::all_of(missing_, has_value)) {
      for (std::size_t i = 0; i < slots.size(); ++i)
        fill_with(*missing_[i], outputs()[i].spec.dtype, slots[i]);
      return decode::Tidiness::kTidy;
    }
    std::vector<decode::PictureView> views;
    for (std::size_t i = 0; i < slots.size(); ++i) views.push_back({views_[i], slots[i]});
    return decode_member(sample, suffixes_.find(sample),
                         [&](const io::Bytes& data) { return decoder_.decode(data, id, views); });
  }

 private:
  static bool has_value(const std::optional<double>& missing) { return missing.has_value(); }
  static std::vector<Output> outputs_of(const std::vector<ImageField>& views,
                                        const decode::ViewsDecoder& decoder) {
    std::vector<Output> outputs;
    for (std::size_t i = 0; i < views.size(); ++i)
      outputs.push_back({views[i].name, decoder.output(i)});
    return outputs;
  }

  Suffixes suffixes_;
  decode::ViewsDecoder decoder_;
  std::vector<std::optional<double>> missing_;
  std::vector<std::uint64_t> views_;
};

std::unique_ptr<const FieldDecoder> compile_views(const std::vector<ImageField>& views,
                                                  const Pictures& pictures) {
  std::vector<decode::ImageDecoderOptions> options;
  for (const ImageField& view : views) {
    require(*view.view >= 0, fmt::format("field {}: view {} is below 0", view.name, *view.view));
    options.push_back(decoder_options(view, pictures));
  }
  return std::make_unique<ViewsDecoderField>(views, decode::ViewsDecoder(options));
}

bool are_views_of_one(const ImageField& one, const ImageField& other) {
  return one.view && other.view && suffixes_of(one) == suffixes_of(other) &&
         one.missing.has_value() == other.missing.has_value() &&
         decode::decode_alike(decoder_options(one, {}), decoder_options(other, {}));
}

/// The numbered views that are decoded with `specs[first]`; none if that is done with an earlier
/// one. Requires: it is such a view.
std::vector<ImageField> views_beside(const std::vector<FieldSpec>& specs, std::size_t first) {
  const ImageField& own = std::get<ImageField>(specs[first]);
  std::vector<ImageField> views = {own};
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto* other = std::get_if<ImageField>(&specs[i]);
    if (i == first || other == nullptr || !are_views_of_one(own, *other)) continue;
    if (i < first) return {};
    views.push_back(*other);
  }
  return views;
}

decode::PairedDecoder paired_decoder(const PairedImagesField& field, const Pictures& pictures) {
  if (field.members.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "paired images need at least one member");
  }
  std::vector<decode::ImageDecoderOptions> members;
  for (const ImageField& member : field.members) {
    require(!member.view, "paired images share their views: a member has none of its own");
    require(!member.missing,
            "paired images have no value for a missing member: each must be there");
    members.push_back(decoder_options(member, pictures));
  }
  return {field.geometry, std::move(members)};
}

class PairedDecoderField final : public FieldDecoder {
 public:
  PairedDecoderField(const PairedImagesField& field, decode::PairedDecoder decoder,
                     std::uint64_t view)
      : FieldDecoder(outputs_of(field, decoder)), decoder_(std::move(decoder)), view_(view) {
    for (const ImageField& member : field.members) suffixes_.emplace_back(suffixes_of(member));
  }

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId& id,
                          Slots slots) const override {
    std::vector<decode::PairedImage> images;
    images.reserve(suffixes_.size());
    for (std::size_t i = 0; i < suffixes_.size(); ++i) {
      const wds::Field& field = suffixes_[i].find(sample);
      images.push_back({field.data,
                        slots[i],
                        {.member = sample.key + "." + field.suffix, .offset = field.offset}});
    }
    return decoder_.decode(images, with_view(id, view_));
  }

 private:
  static std::vector<Output> outputs_of(const PairedImagesField& field,
                                        const decode::PairedDecoder& decoder) {
    std::vector<Output> outputs;
    for (std::size_t i = 0; i < field.members.size(); ++i) {
      outputs.push_back({field.members[i].name, decoder.output(i)});
    }
    return outputs;
  }

  std::vector<Suffixes> suffixes_;
  decode::PairedDecoder decoder_;
  std::uint64_t view_;
};

/// The name that a field of pictures is known by; null: it has none.
const std::string* picture_name(const FieldSpec& spec) {
  if (const auto* image = std::get_if<ImageField>(&spec)) return &image->name;
  const auto* paired = std::get_if<PairedImagesField>(&spec);
  return paired == nullptr || paired->members.empty() ? nullptr : &paired->members[0].name;
}

/// SampleId::view of a field's pictures: its number's, or 0 of the first field that has any.
std::uint64_t view_in(const std::vector<FieldSpec>& specs, std::size_t index) {
  const auto* image = std::get_if<ImageField>(&specs[index]);
  if (image != nullptr && image->view)
    return decode::numbered_view(static_cast<std::uint64_t>(*image->view));
  const std::string* name = picture_name(specs[index]);
  const auto has_pictures = [](const FieldSpec& spec) { return picture_name(spec) != nullptr; };
  const auto first = std::find_if(specs.begin(), specs.end(), has_pictures);
  const bool is_first = static_cast<std::size_t>(first - specs.begin()) == index;
  return name == nullptr || is_first ? 0 : view_of(*name);
}

/// The picture of that name in one of the fields, with the transforms that it gets.
std::optional<ImageField> picture_in(const FieldSpec& spec, const std::string& name) {
  if (const auto* image = std::get_if<ImageField>(&spec))
    return image->name == name ? std::optional(*image) : std::nullopt;
  const auto* paired = std::get_if<PairedImagesField>(&spec);
  if (paired == nullptr) return {};
  const auto member = std::ranges::find(paired->members, name, &ImageField::name);
  if (member == paired->members.end()) return {};
  ImageField picture = *member;
  picture.transforms.insert(picture.transforms.begin(), paired->geometry.begin(),
                            paired->geometry.end());
  return picture;
}

/// Throws: InvalidArgument if there is none.
BoxesPicture picture_of(const std::vector<FieldSpec>& specs, const BoxesField& boxes) {
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (auto picture = picture_in(specs[i], boxes.image))
      return {.field = std::move(*picture), .view = view_in(specs, i)};
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("field {}: there is no field {} of pictures for its boxes to follow",
                          boxes.name, boxes.image));
}

struct Compile {
  using Result = std::unique_ptr<const FieldDecoder>;
  const std::vector<FieldSpec>& specs;
  std::uint64_t view;
  const Pictures& pictures;
  Result operator()(const ImageField& field) const {
    return field.view ? compile_views({field}, pictures) : compile_image(field, view, pictures);
  }
  Result operator()(const PairedImagesField& field) const {
    return compile_paired_images(field, view, pictures);
  }
  Result operator()(const LabelField& field) const { return std::make_unique<LabelDecoder>(field); }
  Result operator()(const FloatsField& field) const {
    return std::make_unique<FloatsDecoder>(field);
  }
  Result operator()(const BoxesField& field) const {
    return compile_boxes(field, picture_of(specs, field));
  }
  Result operator()(const TextField& field) const { return compile_text(field); }
  Result operator()(const AudioField& field) const { return compile_audio(field); }
  Result operator()(const VideoField& field) const { return compile_video(field); }
  Result operator()(const ArrayField& field) const { return std::make_unique<NpyDecoder>(field); }
  Result operator()(const RawField&) const { return nullptr; }
  Result operator()(const FunctionField& field) const {
    return std::make_unique<FunctionDecoder>(field);
  }
};

/// Adds the suffixes of one field; false if the field may ask for any.
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

std::uint64_t view_of(const std::string& name) {
  const auto bytes = std::as_bytes(std::span(name));
  return (std::uint64_t{crc32c(bytes)} << 32) | crc32(bytes);
}

std::vector<std::string> wanted_suffixes(const std::vector<FieldSpec>& fields) {
  std::vector<std::string> wanted;
  for (const FieldSpec& field : fields) {
    if (!std::visit(AddSuffixes(wanted), field)) return {};
  }
  return wanted;
}

namespace {

/// As samples have them: in lower case. Throws: InvalidArgument.
std::string member_suffix(std::string_view word) {
  std::string suffix(word);
  for (char& c : suffix) {
    require(c != ' ' && c != '\t' && c != ',',
            "suffixes are separated by ';' alone: '" + suffix + "'");
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return suffix;
}

}  // namespace

Suffixes::Suffixes(const std::string& list) : list_(list) {
  std::string_view rest = list;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    if (end > 0) suffixes_.push_back(member_suffix(rest.substr(0, end)));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  if (suffixes_.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "a field needs at least one suffix");
  }
}

// The members of a sample are few and their suffixes short: a linear search is fastest.
const wds::Field* Suffixes::find_any(const wds::Sample& sample) const {
  for (const std::string& suffix : suffixes_) {
    if (const wds::Field* field = sample.find(suffix)) return field;
  }
  return nullptr;
}

bool Suffixes::lacks(const wds::Sample& sample, const std::string& json_key) const {
  const wds::Field* field = find_any(sample);
  return field == nullptr || (!json_key.empty() && decode::lacks_json_value(field->data, json_key));
}

const wds::Field& Suffixes::find(const wds::Sample& sample) const {
  if (const wds::Field* field = find_any(sample)) return *field;
  throw Error(ErrorCode::kNotFound, "the sample has none of the members " + list_);
}

std::unique_ptr<const FieldDecoder> compile_field(const std::vector<FieldSpec>& specs,
                                                  std::size_t index, const Pictures& pictures) {
  return std::visit(Compile{.specs = specs, .view = view_in(specs, index), .pictures = pictures},
                    specs[index]);
}

FieldDecoders compile_fields(const std::vector<FieldSpec>& specs, const Pictures& pictures) {
  FieldDecoders decoders;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const auto* image = std::get_if<ImageField>(&specs[i]);
    if (image != nullptr && image->view) {
      const auto views = views_beside(specs, i);
      if (!views.empty()) decoders.push_back(compile_views(views, pictures));
    } else if (auto decoder = compile_field(specs, i, pictures)) {
      decoders.push_back(std::move(decoder));
    }
  }
  return decoders;
}

RaggedDecoder::RaggedDecoder(const RawField& field) : field_(field), suffixes_(field.suffixes) {
  require(field.max_bytes > 0, fmt::format("field {}: max_bytes must be above 0", field.name));
  require(
      !field.missing || field.missing->size() <= field.max_bytes,
      fmt::format("field {}: its value for what is missing is longer than max_bytes", field.name));
}

io::Bytes RaggedDecoder::decode(const wds::Sample& sample) const {
  if (field_.missing && suffixes_.lacks(sample, field_.json_key))
    return io::Bytes::copy_of(*field_.missing);
  return decode_member(sample, suffixes_.find(sample),
                       [this](const io::Bytes& data) { return value_of(data); });
}

io::Bytes RaggedDecoder::value_of(const io::Bytes& data) const {
  io::Bytes value = field_.json_key.empty()
                        ? data
                        : io::Bytes::copy_of(decode::decode_json_text(data, field_.json_key));
  if (value.size() > field_.max_bytes)
    throw Error(ErrorCode::kExhausted, fmt::format("{} bytes are more than field {}'s {}",
                                                   value.size(), field_.name, field_.max_bytes));
  if (field_.text) static_cast<void>(decode::decode_text(value));
  return value;
}

RaggedDecoders compile_ragged(const std::vector<FieldSpec>& specs) {
  RaggedDecoders decoders;
  for (const FieldSpec& spec : specs)
    if (const auto* raw = std::get_if<RawField>(&spec)) decoders.emplace_back(*raw);
  return decoders;
}

std::string suffixes_of(const ImageField& field) {
  if (!field.suffixes.empty()) return field.suffixes;
  return (field.codecs ? field.codecs : decode::standard_codecs())->suffixes();
}

std::unique_ptr<const FieldDecoder> compile_image(const ImageField& field, std::uint64_t view,
                                                  const Pictures& pictures) {
  return std::make_unique<ImageDecoderField>(
      field, decode::ImageDecoder(decoder_options(field, pictures)), view);
}

std::unique_ptr<const FieldDecoder> compile_paired_images(const PairedImagesField& field,
                                                          std::uint64_t view,
                                                          const Pictures& pictures) {
  return std::make_unique<PairedDecoderField>(field, paired_decoder(field, pictures), view);
}

}  // namespace millrace::pipeline::detail
