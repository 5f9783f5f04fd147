#include "pipeline/detail/batch_mixer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <utility>
#include <variant>

#include "decode/array.h"
#include "io/base/distributions.h"
#include "io/base/error.h"

namespace millrace::pipeline {

std::string other_label_field(const std::string& label) { return label + ".other"; }
std::string label_share_field(const std::string& label) { return label + ".share"; }

}  // namespace millrace::pipeline

namespace millrace::pipeline::detail {
namespace {

constexpr Purpose kMixing = purpose_of("mixup");

const decode::ArraySpec& spec_of(const std::string& name, const FieldDecoders& decoders) {
  for (const auto& decoder : decoders)
    for (const FieldDecoder::Output& output : decoder->outputs())
      if (output.name == name) return output.spec;
  throw Error(ErrorCode::kInvalidArgument, "MixUp and CutMix: there is no field " + name);
}

/// As the field says, or, of a field of another kind, by its shape.
decode::Layout layout_of(const PipelineOptions& options, const decode::ArraySpec& picture) {
  for (const FieldSpec& field : options.fields)
    if (const auto* image = std::get_if<ImageField>(&field))
      if (image->name == options.mixup.image) return image->layout;
  return picture.shape[2] <= 4 ? decode::Layout::kHWC : decode::Layout::kCHW;
}

/// Row after row of `box` in a picture: (first value, number of values).
template <typename Visit>
void for_each_run(const decode::ArraySpec& picture, decode::Layout layout, const decode::Box& box,
                  Visit visit) {
  const bool planar = layout == decode::Layout::kCHW;
  const auto& shape = picture.shape;
  const std::int64_t planes = planar ? shape[0] : 1;
  const std::int64_t height = planar ? shape[1] : shape[0];
  const std::int64_t width = planar ? shape[2] : shape[1];
  const std::int64_t each = planar ? 1 : shape[2];
  for (std::int64_t plane = 0; plane < planes; ++plane)
    for (std::int64_t y = box.y; y < box.y + box.height; ++y)
      visit(static_cast<std::size_t>(((plane * height + y) * width + box.x) * each),
            static_cast<std::size_t>(box.width * each));
}

float value_of(float value) { return value; }
struct BFloat16 {
  std::uint16_t bits;
};
struct Float16 {
  std::uint16_t bits;
};
float value_of(BFloat16 value) { return decode::from_bfloat16(value.bits); }
float value_of(Float16 value) { return decode::from_float16(value.bits); }
float value_of(std::uint8_t level) { return static_cast<float>(level); }
void put(float value, float& to) { to = value; }
void put(float value, BFloat16& to) { to.bits = decode::to_bfloat16(value); }
void put(float value, Float16& to) { to.bits = decode::to_float16(value); }
void put(float value, std::uint8_t& to) { to = static_cast<std::uint8_t>(std::lround(value)); }

template <typename T>
void blend(std::span<std::byte> own, std::span<const std::byte> other, float share) {
  auto* to = reinterpret_cast<T*>(own.data());
  const auto* from = reinterpret_cast<const T*>(other.data());
  for (std::size_t i = 0; i < own.size() / sizeof(T); ++i)
    put(share * value_of(to[i]) + (1 - share) * value_of(from[i]), to[i]);
}

void blend_pictures(std::span<std::byte> own, std::span<const std::byte> other, float share,
                    decode::DType dtype) {
  if (dtype == decode::DType::kFloat32) return blend<float>(own, other, share);
  if (dtype == decode::DType::kBFloat16) return blend<BFloat16>(own, other, share);
  if (dtype == decode::DType::kFloat16) return blend<Float16>(own, other, share);
  blend<std::uint8_t>(own, other, share);
}

std::vector<std::size_t> valid_slots(const Batch& batch) {
  std::vector<std::size_t> slots;
  for (std::size_t slot = 0; slot < batch.valid.size(); ++slot)
    if (batch.valid[slot] != 0) slots.push_back(slot);
  return slots;
}

}  // namespace

BatchMixer::BatchMixer(const PipelineOptions& options, const FieldDecoders& decoders)
    : options_(options.mixup),
      seed_(options.shuffle.seed),
      batch_size_(options.batch.size),
      distance_(static_cast<std::size_t>(std::max(options.shuffle.copies, 1))) {
  const auto& [mixup, cutmix, probability, image, label] = options_;
  require(mixup >= 0 && cutmix >= 0 && std::isfinite(mixup) && std::isfinite(cutmix),
          "mixup and cutmix must be at least 0");
  require(probability >= 0 && probability <= 1, "the probability of mixing is 0 to 1");
  if (!options_.is_on()) return;
  picture_ = spec_of(image, decoders);
  const decode::DType dtype = picture_.dtype;
  require(picture_.shape.size() == 3 &&
              (dtype == decode::DType::kFloat32 || dtype == decode::DType::kBFloat16 ||
               dtype == decode::DType::kFloat16 || dtype == decode::DType::kUInt8),
          "MixUp and CutMix: field " + image +
              " is not a picture of float32, bfloat16, float16 or uint8");
  const decode::ArraySpec& target = spec_of(label, decoders);
  require(target.dtype == decode::DType::kInt64 && target.num_values() == 1,
          "MixUp and CutMix: field " + label + " is not a label for each sample");
  layout_ = layout_of(options, picture_);
}

std::vector<FieldDecoder::Output> BatchMixer::outputs() const {
  if (!options_.is_on()) return {};
  return {{other_label_field(options_.label), {decode::DType::kInt64, {}}},
          {label_share_field(options_.label), {decode::DType::kFloat32, {}}}};
}

BatchMixer::Drawn BatchMixer::draw_box(double share, KeyedRng& rng) const {
  const bool planar = layout_ == decode::Layout::kCHW;
  const auto height = static_cast<int>(picture_.shape[planar ? 1 : 0]);
  const auto width = static_cast<int>(picture_.shape[planar ? 2 : 1]);
  const int x = static_cast<int>(rng.below(static_cast<std::uint64_t>(width)));
  const int y = static_cast<int>(rng.below(static_cast<std::uint64_t>(height)));
  const double half = 0.5 * std::sqrt(1 - share);
  const int across = static_cast<int>(half * width);
  const int down = static_cast<int>(half * height);
  const int left = std::max(x - across, 0);
  const int top = std::max(y - down, 0);
  const decode::Box box = {left, top, std::min(x + across, width) - left,
                           std::min(y + down, height) - top};
  const double covered = static_cast<double>(box.width) * box.height;
  return {.share = 1 - covered / (static_cast<double>(width) * height), .box = box};
}

BatchMixer::Drawn BatchMixer::draw(const Batch& batch) const {
  // Steps are counted alike on every device.
  const auto& [first, stride] = batch.slots;
  const std::int64_t step = stride > 0 ? first / (stride * batch_size_) : batch.index;
  KeyedRng rng({.seed = seed_,
                .epoch = batch.epoch,
                .index = static_cast<std::uint64_t>(step),
                .purpose = kMixing});
  if (static_cast<double>(rng.uniform()) >= options_.probability) return {};
  const bool either = options_.mixup > 0 && options_.cutmix > 0;
  const bool cuts = either ? rng.below(2) == 1 : options_.cutmix > 0;
  const double alpha = cuts ? options_.cutmix : options_.mixup;
  const double share = random_beta(alpha, alpha, rng);
  return cuts ? draw_box(share, rng) : Drawn{.share = share};
}

void BatchMixer::mix_pictures(const Batch& batch, const std::vector<std::size_t>& slots,
                              const std::vector<std::size_t>& partners, const Drawn& drawn) const {
  const std::span<std::byte> all = batch.field(options_.image).data;
  const std::size_t bytes = picture_.num_bytes();
  const auto picture = [&](std::size_t slot) { return all.subspan(slot * bytes, bytes); };
  // From the last slot on, so that each one's partner is still as it was; but those of the first
  // slots, which are the last ones.
  std::vector<std::vector<std::byte>> kept;
  for (std::size_t i = 0; i < slots.size() && partners[i] >= slots[i]; ++i)
    kept.emplace_back(picture(partners[i]).begin(), picture(partners[i]).end());
  for (std::size_t i = slots.size(); i-- > 0;) {
    const auto own = picture(slots[i]);
    const std::span<const std::byte> other =
        i < kept.size() ? std::span<const std::byte>(kept[i]) : picture(partners[i]);
    if (!drawn.box) {
      blend_pictures(own, other, static_cast<float>(drawn.share), picture_.dtype);
      continue;
    }
    const std::size_t size = decode::dtype_size(picture_.dtype);
    for_each_run(picture_, layout_, *drawn.box, [&](std::size_t begin, std::size_t count) {
      std::memcpy(own.data() + begin * size, other.data() + begin * size, count * size);
    });
  }
}

void BatchMixer::mix(Batch& batch) const {
  if (!options_.is_on()) return;
  const std::vector<std::size_t> slots = valid_slots(batch);
  if (slots.empty()) return;
  const std::size_t distance =
      slots.size() > distance_ ? distance_ : std::min<std::size_t>(slots.size() - 1, 1);
  std::vector<std::size_t> partners;
  for (std::size_t i = 0; i < slots.size(); ++i)
    partners.push_back(slots[(i + slots.size() - distance) % slots.size()]);
  const Drawn drawn = draw(batch);
  const auto labels = batch.field(options_.label).as<std::int64_t>();
  const auto others = batch.field(other_label_field(options_.label)).as<std::int64_t>();
  const auto shares = batch.field(label_share_field(options_.label)).as<float>();
  for (std::size_t i = 0; i < slots.size(); ++i) {
    others[slots[i]] = labels[partners[i]];
    shares[slots[i]] = static_cast<float>(drawn.share);
  }
  if (drawn.share < 1) mix_pictures(batch, slots, partners, drawn);
}

}  // namespace millrace::pipeline::detail
