#include "pipeline/detail/clip_decoder.h"

#include <cstring>

#include "decode/audio.h"
#include "decode/video.h"
#include "io/base/error.h"

namespace millrace::pipeline::detail {
namespace {

template <typename Decoder>
class ClipDecoder final : public FieldDecoder {
 public:
  template <typename Field>
  ClipDecoder(const Field& field, Decoder decoder)
      : FieldDecoder({{field.name, decoder.output()},
                      {field.name + ".length", {decode::DType::kInt64, {}}}}),
        suffixes_(field.suffixes),
        may_lack_(field.may_lack),
        view_(view_of(field.name)),
        decoder_(decoder) {}

  decode::Tidiness decode(const wds::Sample& sample, const decode::SampleId& id,
                          Slots slots) const override {
    const std::int64_t length = length_of(sample, id, slots[0]);
    std::memcpy(slots[1].data(), &length, sizeof length);
    return decode::Tidiness::kTidy;
  }

 private:
  std::int64_t length_of(const wds::Sample& sample, decode::SampleId id,
                         std::span<std::byte> slot) const {
    if (may_lack_ && suffixes_.find_any(sample) == nullptr) {
      std::memset(slot.data(), 0, slot.size());
      return 0;
    }
    id.view = view_;
    return decode_member(sample, suffixes_.find(sample),
                         [&](const io::Bytes& data) { return decoder_.decode(data, id, slot); });
  }

  Suffixes suffixes_;
  bool may_lack_;
  std::uint64_t view_;
  Decoder decoder_;
};

/// Throws: as the Decoder, with the field's name.
template <typename Decoder, typename Field, typename Options>
std::unique_ptr<const FieldDecoder> compile_clip(const Field& field, const Options& options) {
  try {
    return std::make_unique<ClipDecoder<Decoder>>(field, Decoder(options));
  } catch (const Error& error) {
    throw Error(error.code(), "field " + field.name + ": " + error.message());
  }
}

}  // namespace

std::unique_ptr<const FieldDecoder> compile_audio(const AudioField& field) {
  return compile_clip<decode::AudioDecoder>(field, decode::AudioOptions{.seconds = field.seconds,
                                                                        .rate = field.rate,
                                                                        .channels = field.channels,
                                                                        .place = field.place,
                                                                        .limits = field.limits});
}

std::unique_ptr<const FieldDecoder> compile_video(const VideoField& field) {
  return compile_clip<decode::VideoDecoder>(field, decode::VideoOptions{.frames = field.frames,
                                                                        .size = field.size,
                                                                        .rate = field.rate,
                                                                        .place = field.place,
                                                                        .limits = field.limits});
}

}  // namespace millrace::pipeline::detail
