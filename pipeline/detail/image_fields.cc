#include <utility>
#include <vector>

#include "decode/image_decoder.h"
#include "decode/paired_decoder.h"
#include "pipeline/detail/field_decoder.h"

namespace millrace::pipeline::detail {
namespace {

decode::ImageDecoderOptions decoder_options(const ImageField& field) {
  return {.transforms = field.transforms,
          .channels = field.channels,
          .dtype = field.dtype,
          .layout = field.layout,
          .interpolation = field.interpolation,
          .palette_indices = field.palette_indices,
          .classes = field.classes,
          .apply_orientation = field.apply_orientation,
          .limits = field.limits,
          .tolerate_truncated = field.tolerate_truncated,
          .codecs = field.codecs};
}

class ImageDecoderField final : public FieldDecoder {
 public:
  ImageDecoderField(const ImageField& field, decode::ImageDecoder decoder)
      : FieldDecoder({{field.name, decoder.output()}}),
        suffixes_(suffixes_of(field)),
        decoder_(std::move(decoder)) {}

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId& id,
                          Slots slots) const override {
    return decode_member(sample, suffixes_.find(sample), [&](const io::Bytes& data) {
      return decoder_.decode(data, id, slots[0]);
    });
  }

 private:
  Suffixes suffixes_;
  decode::ImageDecoder decoder_;
};

decode::PairedDecoder paired_decoder(const PairedImagesField& field) {
  if (field.members.empty()) {
    throw Error(ErrorCode::kInvalidArgument, "paired images need at least one member");
  }
  std::vector<decode::ImageDecoderOptions> members;
  for (const ImageField& member : field.members) members.push_back(decoder_options(member));
  return {field.geometry, std::move(members)};
}

class PairedDecoderField final : public FieldDecoder {
 public:
  PairedDecoderField(const PairedImagesField& field, decode::PairedDecoder decoder)
      : FieldDecoder(outputs_of(field, decoder)), decoder_(std::move(decoder)) {
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
    return decoder_.decode(images, id);
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
};

}  // namespace

std::string suffixes_of(const ImageField& field) {
  if (!field.suffixes.empty()) return field.suffixes;
  return (field.codecs ? field.codecs : decode::standard_codecs())->suffixes();
}

std::unique_ptr<const FieldDecoder> compile_image(const ImageField& field) {
  return std::make_unique<ImageDecoderField>(field, decode::ImageDecoder(decoder_options(field)));
}

std::unique_ptr<const FieldDecoder> compile_paired_images(const PairedImagesField& field) {
  return std::make_unique<PairedDecoderField>(field, paired_decoder(field));
}

}  // namespace millrace::pipeline::detail
