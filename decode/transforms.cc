#include "decode/transforms.h"

#include <algorithm>
#include <iterator>

#include "decode/transforms/aug_mix.h"
#include "decode/transforms/auto_augment.h"
#include "decode/transforms/center_crop.h"
#include "decode/transforms/color_jitter.h"
#include "decode/transforms/compositions.h"
#include "decode/transforms/gaussian_blur.h"
#include "decode/transforms/histograms.h"
#include "decode/transforms/letterbox.h"
#include "decode/transforms/lighting.h"
#include "decode/transforms/normalize.h"
#include "decode/transforms/pad.h"
#include "decode/transforms/rand_augment.h"
#include "decode/transforms/random_adjust_sharpness.h"
#include "decode/transforms/random_affine.h"
#include "decode/transforms/random_crop.h"
#include "decode/transforms/random_erasing.h"
#include "decode/transforms/random_grayscale.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "decode/transforms/random_invert.h"
#include "decode/transforms/random_perspective.h"
#include "decode/transforms/random_posterize.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/random_rotation.h"
#include "decode/transforms/random_solarize.h"
#include "decode/transforms/random_vertical_flip.h"
#include "decode/transforms/resize.h"
#include "io/component/choice_type.h"

namespace millrace::decode {

const TransformTable& standard_transforms() {
  static const TransformTable table = TransformTable("transform")
                                          .add<AugMix>()
                                          .add<AutoAugment>()
                                          .add<CenterCrop>()
                                          .add<ColorJitter>()
                                          .add<GaussianBlur>()
                                          .add<Letterbox>()
                                          .add<Lighting>()
                                          .add<Normalize>()
                                          .add<Pad>()
                                          .add<RandAugment>()
                                          .add<RandomAdjustSharpness>()
                                          .add<RandomAffine>()
                                          .add<RandomApply>()
                                          .add<RandomAutocontrast>()
                                          .add<RandomChoice>()
                                          .add<RandomCrop>()
                                          .add<RandomEqualize>()
                                          .add<RandomErasing>()
                                          .add<RandomGrayscale>()
                                          .add<RandomHorizontalFlip>()
                                          .add<RandomInvert>()
                                          .add<RandomPerspective>()
                                          .add<RandomPosterize>()
                                          .add<RandomResizedCrop>()
                                          .add<RandomRotation>()
                                          .add<RandomSolarize>()
                                          .add<RandomVerticalFlip>()
                                          .add<Resize>()
                                          .add<ResizeCover>()
                                          .add<ResizeShort>()
                                          .add<TrivialAugmentWide>();
  return table;
}

const ValueType& value_type(const std::vector<Transform>&) {
  static const ChoicesType<TransformStep> type(&standard_transforms, "Transform");
  return type;
}

TransformKind kind_of(const Transform& transform) {
  const auto step = transform.make();
  if (dynamic_cast<const GeometryStep*>(step.get()) != nullptr) return TransformKind::kGeometry;
  if (dynamic_cast<const PixelStep*>(step.get()) != nullptr) return TransformKind::kPixels;
  return TransformKind::kScale;
}

std::vector<Transform> of_kind(const std::vector<Transform>& transforms, TransformKind kind) {
  std::vector<Transform> found;
  std::ranges::copy_if(transforms, std::back_inserter(found),
                       [kind](const Transform& one) { return kind_of(one) == kind; });
  return found;
}

void apply_levels(Pixels& pixels, const LevelStep::Levels& levels) {
  if (pixels.channels != 4) {
    for (std::uint8_t& level : pixels.levels) level = levels[level];
    return;
  }
  for (std::size_t i = 0; i + 3 < pixels.levels.size(); i += 4)
    for (std::uint8_t& level : pixels.levels.subspan(i, 3)) level = levels[level];
}

void LevelStep::change(Pixels& pixels, KeyedRng& rng) const { apply_levels(pixels, levels(rng)); }

}  // namespace millrace::decode
