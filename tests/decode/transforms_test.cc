// The table of transforms, and what holds for each of them and for a program's own.
#include "decode/transforms.h"

#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "decode/encode.h"
#include "decode/image_decoder.h"
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
#include "io/component/component_json.h"
#include "io/component/component_text.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/support/num_members.h"

namespace millrace {
namespace transforms_test {

using decode::GeometryStep;
using decode::Image;
using decode::Pixels;
using decode::Transform;
using decode::TransformStep;
using testing::decoded;
using testing::plain_decoder;

/// Moves every level by one, upwards or by a table.
class OneMore final : public decode::LevelStep {
 public:
  Levels levels(KeyedRng& /*rng*/) const override {
    Levels table;
    for (std::size_t i = 0; i < table.size(); ++i)
      table[i] = static_cast<std::uint8_t>(std::min<std::size_t>(i + 1, 255));
    return table;
  }
};

struct Brighter {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<TransformStep> make() const { return std::make_unique<OneMore>(); }
};
const ComponentName Brighter::kName = {"brighter", "Brighter", "One level more"};

/// Draws a level for the whole picture.
struct Flood {
  int most = 255;

  static const ComponentName kName;
  void fields(FieldList& field) {
    field("most", most, {.min = 1, .max = 255}, "The largest level");
  }
  std::unique_ptr<TransformStep> make() const;
};
const ComponentName Flood::kName = {"flood", "Flood", "Every pixel at one random level"};

class FloodStep final : public decode::PixelStep {
 public:
  explicit FloodStep(int most) : most_(most) {}
  void change(Pixels& pixels, KeyedRng& rng) const override {
    const auto level = static_cast<std::uint8_t>(rng.below(static_cast<std::uint64_t>(most_) + 1));
    std::ranges::fill(pixels.levels, level);
  }

 private:
  int most_;
};
std::unique_ptr<TransformStep> Flood::make() const { return std::make_unique<FloodStep>(most); }

/// The left half.
struct LeftHalf {
  static const ComponentName kName;
  void fields(FieldList& /*field*/) {}
  std::unique_ptr<TransformStep> make() const;
};
const ComponentName LeftHalf::kName = {"left", "LeftHalf", "The left half"};

class LeftStep final : public GeometryStep {
 public:
  void choose(decode::Geometry& geometry, KeyedRng& /*rng*/) const override {
    geometry.crop({0, 0, geometry.width() / 2, geometry.height()});
  }
};
std::unique_ptr<TransformStep> LeftHalf::make() const { return std::make_unique<LeftStep>(); }

decode::TransformTable own_table() {
  decode::TransformTable table = decode::standard_transforms();
  table.add<Brighter>().add<Flood>().add<LeftHalf>();
  return table;
}

std::vector<std::uint8_t> seen(const std::string& calls, const Image& image,
                               const decode::SampleId& id = {}) {
  return decoded(plain_decoder(parse(calls, own_table()), image.channels),
                 decode::encode_pnm(image), id);
}

TEST(Transforms, ListEveryMember) {
  const auto listed = [](const auto& transform) {
    return value_type(transform).fields(&transform).size();
  };
  EXPECT_EQ(listed(decode::CenterCrop()), num_members<decode::CenterCrop>());
  EXPECT_EQ(listed(decode::AugMix()), num_members<decode::AugMix>());
  EXPECT_EQ(listed(decode::AutoAugment()), num_members<decode::AutoAugment>());
  EXPECT_EQ(listed(decode::RandAugment()), num_members<decode::RandAugment>());
  EXPECT_EQ(listed(decode::RandomApply()), num_members<decode::RandomApply>());
  EXPECT_EQ(listed(decode::RandomChoice()), num_members<decode::RandomChoice>());
  EXPECT_EQ(listed(decode::TrivialAugmentWide()), num_members<decode::TrivialAugmentWide>());
  EXPECT_EQ(listed(decode::Pad()), num_members<decode::Pad>());
  EXPECT_EQ(listed(decode::RandomAffine()), num_members<decode::RandomAffine>());
  EXPECT_EQ(listed(decode::RandomPerspective()), num_members<decode::RandomPerspective>());
  EXPECT_EQ(listed(decode::RandomRotation()), num_members<decode::RandomRotation>());
  EXPECT_EQ(listed(decode::GaussianBlur()), num_members<decode::GaussianBlur>());
  EXPECT_EQ(listed(decode::Lighting()), num_members<decode::Lighting>());
  EXPECT_EQ(listed(decode::RandomAdjustSharpness()), num_members<decode::RandomAdjustSharpness>());
  EXPECT_EQ(listed(decode::RandomAutocontrast()), num_members<decode::RandomAutocontrast>());
  EXPECT_EQ(listed(decode::RandomEqualize()), num_members<decode::RandomEqualize>());
  EXPECT_EQ(listed(decode::ColorJitter()), num_members<decode::ColorJitter>());
  EXPECT_EQ(listed(decode::Letterbox()), num_members<decode::Letterbox>());
  EXPECT_EQ(listed(decode::Normalize()), num_members<decode::Normalize>());
  EXPECT_EQ(listed(decode::RandomCrop()), num_members<decode::RandomCrop>());
  EXPECT_EQ(listed(decode::RandomErasing()), num_members<decode::RandomErasing>());
  EXPECT_EQ(listed(decode::RandomHorizontalFlip()), num_members<decode::RandomHorizontalFlip>());
  EXPECT_EQ(listed(decode::RandomResizedCrop()), num_members<decode::RandomResizedCrop>());
  EXPECT_EQ(listed(decode::RandomGrayscale()), num_members<decode::RandomGrayscale>());
  EXPECT_EQ(listed(decode::RandomInvert()), num_members<decode::RandomInvert>());
  EXPECT_EQ(listed(decode::RandomPosterize()), num_members<decode::RandomPosterize>());
  EXPECT_EQ(listed(decode::RandomSolarize()), num_members<decode::RandomSolarize>());
  EXPECT_EQ(listed(decode::RandomVerticalFlip()), num_members<decode::RandomVerticalFlip>());
  EXPECT_EQ(listed(decode::Resize()), num_members<decode::Resize>());
  EXPECT_EQ(listed(decode::ResizeCover()), num_members<decode::ResizeCover>());
  EXPECT_EQ(listed(decode::ResizeShort()), num_members<decode::ResizeShort>());
}

TEST(Transforms, AreTheSameFromTextAndStructs) {
  const std::vector<Transform> structs = {
      decode::RandomResizedCrop{.size = {96, 128}, .area = {0.2, 1}},
      decode::RandomHorizontalFlip{0.25}, decode::ColorJitter{0.4, 0.3},
      decode::Normalize{{0.5F}, {0.25F}}};
  const std::string calls =
      "rrc(96x128, area=0.2..1), hflip(0.25), jitter(0.4, 0.3), normalize([0.5], [0.25])";
  EXPECT_EQ(parse(calls, decode::standard_transforms()), structs);
  EXPECT_EQ(text(structs[0]), "rrc([96, 128], area=0.2..1)");
  for (const std::string same : {"rotate(15)", "rotate(-10..30)", "pad(4)", "pad([4, 8])",
                                 "pad([1, 2, 3, 4], padding_mode=edge)", "affine(0, [0.1, 0.2])"})
    EXPECT_EQ(text(parse(same, decode::standard_transforms())[0]), same);
  EXPECT_EQ(parse("resize(256), resize(40x60), ccrop(224)", decode::standard_transforms()),
            (std::vector<Transform>{decode::Resize{256}, decode::Resize{{40, 60}},
                                    decode::CenterCrop{224}}));
  for (const Transform& one : structs) {
    EXPECT_EQ(
        Transform(component_of(written_json(json_text(one), "it"), decode::standard_transforms())),
        one)
        << "what a checkpoint records";
  }
}

TEST(Transforms, RefuseBadValuesAndSayWhatIsWrong) {
  const auto mistake = [](const std::string& calls) -> std::string {
    try {
      static_cast<void>(parse(calls, decode::standard_transforms()));
      return {};
    } catch (const Mistake& error) {
      return error.message();
    }
  };
  EXPECT_EQ(mistake("rcrop(0)"), "size must be 1 to 65535 px");
  EXPECT_EQ(mistake("rcrop(32x0)"), "size: its sides are 1 or more");
  EXPECT_EQ(mistake("rcrop(32x70000)"), "size must be 1 to 65535 px");
  EXPECT_EQ(mistake("rcrop"), "rcrop needs size");
  EXPECT_EQ(mistake("rcrop(32, 32)"), "rcrop takes at most 1 without a name")
      << "torchvision's second argument is padding, not the width";
  EXPECT_EQ(mistake("rcrop(32, pading=4)"), "rcrop has no 'pading'; did you mean padding?");
  EXPECT_EQ(mistake("hflip(2)"), "p must be 0 to 1");
  EXPECT_EQ(mistake("rrc(wide)"), "size: must be a size: 224, or height and width: 96x128");
  EXPECT_EQ(mistake("hflop"), "there is no transform 'hflop'; did you mean hflip?");
  EXPECT_EQ(mistake("blur(4)"), "blur: kernel_size must be odd");
  EXPECT_EQ(mistake("blur"), "blur needs kernel_size");
  EXPECT_EQ(mistake("rotate"), "rotate needs degrees");
  EXPECT_EQ(mistake("rotate(400)"), "degrees must be -360 to 360 degrees");
  EXPECT_EQ(mistake("rotate(-10)"), "degrees: is from -x to x degrees: 0 or more");
  EXPECT_EQ(mistake("rotate(10, interpolation=bicubik)"),
            "interpolation: there is no 'bicubik'; did you mean bicubic?");
  EXPECT_EQ(mistake("rotate(10, interpolation=lanczos)"),
            "rotate: interpolation lanczos is for resizes; there are bilinear, bicubic, nearest, "
            "random");
  EXPECT_EQ(mistake("rotate(10, fill=[1, 2])"),
            "rotate: fill is one level, or red, green and blue");
  EXPECT_EQ(mistake("pad(4, padding_mode=mirror)"),
            "padding_mode: there is no 'mirror'; there are constant, edge, reflect, symmetric");
  EXPECT_EQ(mistake("pad([1, 2, 3])"), "padding: must be a number, or 2 or 4 in a list");
  EXPECT_EQ(mistake("affine(3, scale=0..1)"), "scale must be above 0");
  EXPECT_EQ(mistake("jitter(hue=0.6)"), "hue must be 0 to 0.5");
  EXPECT_THROW(static_cast<void>(Transform(decode::CenterCrop{}).make()), Error);
  EXPECT_THROW(static_cast<void>(Transform(decode::Normalize{.std = {0}}).make()), Error);
}

TEST(Transforms, OfAProgramRunBesideTheStandardOnes) {
  const Image image = testing::photo(6, 10, 1);
  std::vector<std::uint8_t> wanted = testing::window_of(image, 0, 0, 6, 5);
  EXPECT_EQ(seen("left, ccrop(6x5)", image), wanted);
  for (std::uint8_t& level : wanted) level = static_cast<std::uint8_t>(std::min(level + 2, 255));
  EXPECT_EQ(seen("left, ccrop(6x5), brighter, brighter", image), wanted) << "two tables run as one";
  std::ranges::fill(wanted, wanted[0]);
  const auto flooded = seen("left, ccrop(6x5), flood, brighter", image, {.index = 3});
  EXPECT_EQ(std::vector<std::uint8_t>(flooded.size(), flooded[0]), flooded);
  EXPECT_EQ(static_cast<int>(flooded[0]),
            1 + static_cast<int>(seen("left, ccrop(6x5), brighter, flood", image, {.index = 3})[0]))
      << "in their order, with the same draw";
}

TEST(Transforms, OfOneWordDrawOneAfterAnother) {
  const Image image = testing::photo(2, 2, 1);
  int same = 0;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const auto one = seen("ccrop(2), flood", image, {.seed = 1, .index = index});
    EXPECT_EQ(one, seen("ccrop(2), flood", image, {.seed = 1, .index = index}));
    EXPECT_EQ(one, seen("rrc(2), hflip, flood", image, {.seed = 1, .index = index}))
        << "whatever other transforms draw";
    same += one == seen("ccrop(2), flood, flood", image, {.seed = 1, .index = index}) ? 1 : 0;
  }
  EXPECT_LT(same, 10);
}

TEST(Transforms, OfLevelsChangeAsOftenAsTheySay) {
  const Image image = testing::photo(2, 2, 1);
  for (const std::string word : {"invert", "solarize", "posterize", "grayscale", "autocontrast"}) {
    int changed = 0;
    for (std::uint64_t index = 0; index < 400; ++index)
      changed +=
          seen("ccrop(2)", image) == seen("ccrop(2), " + word + "(p=0.25)", image, {.index = index})
              ? 0
              : 1;
    EXPECT_NEAR(changed, 100, 35) << word;
  }
}

TEST(Transforms, AlphaKeepsItsLevel) {
  const Image image{1, 1, 3, io::Bytes::copy_of(std::string_view("\x10\x20\x30"))};
  const auto decoder = plain_decoder(parse("ccrop(1), brighter", own_table()), 4);
  EXPECT_EQ(decoded(decoder, decode::encode_pnm(image)),
            (std::vector<std::uint8_t>{0x11, 0x21, 0x31, 255}));
}

TEST(Transforms, ErasingHasALevelForAllChannelsOrOneForEach) {
  const Image grey{2, 2, 1, io::Bytes::copy_of(std::string_view("\x10\x20\x30\x40"))};
  EXPECT_EQ(seen("ccrop(2), erase(0)", grey), (std::vector<std::uint8_t>{0x10, 0x20, 0x30, 0x40}));
  const auto refuses = [](const std::string& call, int channels) {
    return testing::fault_of([&] {
             plain_decoder(parse("ccrop(2), " + call, own_table()), channels);
           }) == ErrorCode::kInvalidArgument;
  };
  EXPECT_FALSE(refuses("erase(value=[1, 2, 3])", 3));
  EXPECT_TRUE(refuses("erase(value=[1, 2, 3])", 1));
  EXPECT_TRUE(refuses("erase(value=[])", 3));
  EXPECT_TRUE(refuses("erase(value=[256])", 3));
}

TEST(Transforms, LightingShiftsEachColourByOneNumber) {
  const Image image = testing::photo(20, 20, 3);
  const auto before = testing::pixels_of(image);
  std::vector<double> reds;
  for (std::uint64_t index = 0; index < 300; ++index) {
    const auto after = seen("ccrop(20), lighting(0.2)", image, {.index = index});
    std::array<std::set<int>, 3> shifts;
    for (std::size_t i = 0; i < after.size(); ++i)
      if (after[i] > 0 && after[i] < 255) shifts[i % 3].insert(after[i] - before[i]);
    for (const auto& of_colour : shifts) ASSERT_EQ(of_colour.size(), 1U) << index;
    reds.push_back(*shifts[0].begin());
    EXPECT_NEAR(*shifts[1].begin(), reds.back(), 12) << "mostly grey light";
  }
  double squares = 0;
  for (const double red : reds) squares += red * red;
  EXPECT_NEAR(std::sqrt(squares / 300), 255 * 0.2 * 0.5675 * 0.2175, 1);
  EXPECT_THROW(plain_decoder(parse("ccrop(2), lighting", own_table()), 1), Error);
}

TEST(Transforms, HueTurnsAtRandomAndLeavesTheOthersDraws) {
  const Image image = testing::photo(20, 20, 3);
  const auto still = seen("ccrop(20), jitter(0.4, 0.3, 0.2)", image, {.index = 5});
  EXPECT_EQ(seen("ccrop(20), jitter(0.4, 0.3, 0.2, 0)", image, {.index = 5}), still);
  std::set<std::vector<std::uint8_t>> turned;
  for (std::uint64_t index = 0; index < 20; ++index)
    turned.insert(seen("ccrop(20), jitter(hue=0.5)", image, {.index = index}));
  EXPECT_GT(turned.size(), 15U);
}

TEST(Transforms, StandInTheOrderOfTheirKinds) {
  const auto refusal = [](const std::string& calls) -> std::string {
    try {
      decode::ImageDecoder decoder({.transforms = parse(calls, own_table())});
      return {};
    } catch (const Error& error) {
      return error.message();
    }
  };
  EXPECT_EQ(refusal("rrc(8), flood, brighter, hflip, normalize, hflip"), "");
  EXPECT_EQ(refusal("flood, rrc(8)"),
            "rrc(8): crops and resizes come before transforms of levels, and Normalize comes last");
  EXPECT_EQ(refusal("normalize, rrc(8)"),
            "rrc(8): crops and resizes come before transforms of levels, and Normalize comes last");
  EXPECT_EQ(refusal("rrc(8), normalize, flood"),
            "flood: transforms of levels come before Normalize");
  EXPECT_EQ(refusal("rrc(8), normalize, normalize"), "normalize: Normalize may be given once");
  EXPECT_EQ(kind_of(decode::ColorJitter()), decode::TransformKind::kPixels);
}

}  // namespace transforms_test
}  // namespace millrace
