// Policies: RandAugment, TrivialAugmentWide, AutoAugment, AugMix; RandomApply and RandomChoice.
#include "decode/detail/policy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "decode/encode.h"
#include "decode/paired_decoder.h"
#include "decode/transforms.h"
#include "decode/transforms/compositions.h"
#include "decode/transforms/gaussian_blur.h"
#include "decode/transforms/random_horizontal_flip.h"
#include "io/component/component_json.h"
#include "io/component/component_text.h"
#include "tests/decode/oracle.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace policy_test {

using decode::Image;
using decode::Pixels;
using decode::detail::Drawn;
using decode::detail::Operation;
using decode::detail::Strengths;
using testing::decoded;
using testing::Oracle;
using testing::plain_decoder;

/// By the operation's number.
const std::vector<std::string>& names() {
  static const std::vector<std::string> all = {
      "Identity",    "ShearX",       "ShearY",   "TranslateX", "TranslateY", "Rotate",
      "Brightness",  "Color",        "Contrast", "Sharpness",  "Posterize",  "Solarize",
      "SolarizeAdd", "AutoContrast", "Equalize", "Invert"};
  return all;
}

std::string name_of(Operation operation) { return names()[static_cast<std::size_t>(operation)]; }

std::vector<decode::Transform> calls(const std::string& text) {
  return parse(text, decode::standard_transforms());
}

std::vector<std::uint8_t> seen(const std::string& text, const Image& image,
                               const decode::SampleId& id = {}) {
  return decoded(plain_decoder(calls(text), image.channels), decode::encode_pnm(image), id);
}

std::vector<float> floats_of(const std::vector<std::uint8_t>& raw) {
  std::vector<float> values(raw.size() / sizeof(float));
  std::memcpy(values.data(), raw.data(), raw.size());
  return values;
}

struct Space {
  std::string policy;
  std::span<const Strengths> ours;
  int bins = 0;
};

std::vector<Space> spaces() {
  return {{"randaugment", decode::detail::rand_augment_space(), 31},
          {"trivialaugment", decode::detail::trivial_augment_space(), 31},
          {"autoaugment", decode::detail::auto_augment_space(), 10},
          {"augmix", decode::detail::aug_mix_space(), 10}};
}

TEST_F(Oracle, PoliciesHaveTorchvisionsOperationsAndStrengths) {
  constexpr int kHeight = 97;
  constexpr int kWidth = 140;
  for (const Space& space : spaces()) {
    std::vector<std::string> asked;
    for (const Strengths& one : space.ours) asked.push_back('"' + name_of(one.operation) + '"');
    add_case(fmt::format(
        R"({{"op": "spaces", "policy": "{}", "height": {}, "width": {}, "bins": {}, "names": [{}]}})",
        space.policy, kHeight, kWidth, space.bins, fmt::join(asked, ", ")));
  }
  ask();
  int at = 0;
  for (const Space& space : spaces()) {
    const std::vector<float> theirs = floats_of(answer(at++));
    std::size_t place = 0;
    ASSERT_EQ(theirs.size(), space.ours.size() * static_cast<std::size_t>(space.bins + 1) + 1);
    for (const Strengths& one : space.ours) {
      EXPECT_EQ(theirs[place++], one.has_sign ? 1.0F : 0.0F) << name_of(one.operation);
      for (int bin = 0; bin < space.bins; ++bin)
        EXPECT_NEAR(one.magnitude(static_cast<double>(bin) / (space.bins - 1), kHeight, kWidth),
                    theirs[place++], 1e-4)
            << space.policy << " " << name_of(one.operation) << " " << bin;
    }
    EXPECT_EQ(theirs[place], 0.0F) << space.policy << " has more operations";
  }
}

struct Case {
  std::string call;
  std::vector<Drawn> drawn;
  std::vector<std::uint8_t> ours;
};

std::vector<Case> drawn_cases(const Image& image) {
  std::vector<Case> all;
  for (const std::string call :
       {"randaugment(2, 9, interpolation=bilinear, fill=[9, 50, 200])", "randaugment(3, 30)",
        "trivialaugment(interpolation=bicubic)", "autoaugment(imagenet)", "autoaugment(cifar10)",
        "autoaugment(svhn, interpolation=bilinear)",
        "randaugment(2, 9, space=timm, std=0.5, increasing, interpolation=random)",
        "randaugment(2, 10, space=timm, p=1)"}) {
    const auto step = calls(call)[0].make();
    const auto& policy = dynamic_cast<const decode::detail::PolicyStep&>(*step);
    for (std::uint64_t index = 0; index < 25; ++index) {
      auto levels = testing::pixels_of(image);
      Pixels pixels{.levels = levels, .height = image.height, .width = image.width, .channels = 3};
      KeyedRng first({.index = index});
      KeyedRng second({.index = index});
      const auto drawn = policy.draw(pixels, first);
      policy.change(pixels, second);
      all.push_back({call, drawn, levels});
    }
  }
  return all;
}

std::string text_of(const std::vector<Drawn>& all) {
  std::vector<std::string> texts;
  for (const Drawn& one : all) {
    const auto how =
        value_type(one.interpolation).write(&one.interpolation, ValueType::Form::kWhole).text;
    texts.push_back(fmt::format(R"(["{}", {}, "{}"])", name_of(one.operation), one.magnitude, how));
  }
  return fmt::format("[{}]", fmt::join(texts, ", "));
}

TEST_F(Oracle, PoliciesDoWhatTorchvisionsOperationsDo) {
  const Image image = testing::photo(48, 64, 7);
  add_file("a.png", decode::encode_png(image));
  const std::vector<Case> cases = drawn_cases(image);
  for (const Case& one : cases)
    add_case(R"({"op": "operations", "file": "a.png", "operations": )" + text_of(one.drawn) +
             R"(, "fill": )" +
             (one.call.find("fill") == one.call.npos ? "[0, 0, 0]" : "[9, 50, 200]") + "}");
  ask();
  std::set<Operation> done;
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const auto theirs = answer(static_cast<int>(i));
    ASSERT_EQ(theirs.size(), cases[i].ours.size());
    double others = 0;
    bool stretches = false;
    for (std::size_t at = 0; at < theirs.size(); ++at)
      others += std::abs(theirs[at] - cases[i].ours[at]) > 2 ? 1 : 0;
    for (const Drawn& one : cases[i].drawn) {
      done.insert(one.operation);
      // A difference of one level before them may be any after.
      stretches = stretches || one.operation == Operation::kEqualize ||
                  one.operation == Operation::kAutoContrast ||
                  one.operation == Operation::kPosterize || one.operation == Operation::kSolarize ||
                  one.operation == Operation::kSharpness || one.operation == Operation::kContrast;
    }
    EXPECT_LE(others / static_cast<double>(theirs.size()), stretches ? 0.05 : 0.01)
        << cases[i].call << " " << text_of(cases[i].drawn);
  }
  EXPECT_EQ(done.size(), names().size()) << "all operations were drawn";
}

/// How often the pairs of a policy draw each operation at each magnitude, by what torchvision has.
TEST_F(Oracle, AutoAugmentsPairsAreThePapers) {
  constexpr int kDraws = 20000;
  std::vector<std::string> quoted;
  for (const std::string& name : names()) quoted.push_back('"' + name + '"');
  const std::vector<std::string> policies = {"imagenet", "cifar10", "svhn"};
  for (const std::string& policy : policies)
    add_case(fmt::format(R"({{"op": "pairs", "policy": "{}", "names": [{}]}})", policy,
                         fmt::join(quoted, ", ")));
  ask();
  const Pixels pixels{.levels = {}, .height = 100, .width = 100, .channels = 3};
  for (std::size_t i = 0; i < policies.size(); ++i) {
    const std::vector<float> theirs = floats_of(answer(static_cast<int>(i)));
    std::map<std::pair<int, int>, double> expected;  // operation, magnitude in thousandths
    for (std::size_t at = 0; at < theirs.size(); at += 3) {
      const auto operation = static_cast<Operation>(static_cast<int>(theirs[at]));
      const auto strengths =
          std::ranges::find(decode::detail::auto_augment_space(), operation, &Strengths::operation);
      const double magnitude =
          strengths->magnitude(std::max(static_cast<int>(theirs[at + 2]), 0) / 9.0, 100, 100);
      expected[{static_cast<int>(operation), static_cast<int>(std::lround(magnitude * 1000))}] +=
          theirs[at + 1] / 25;
    }
    std::map<std::pair<int, int>, double> found;
    const auto step = calls("autoaugment(" + policies[i] + ")")[0].make();
    const auto& policy = dynamic_cast<const decode::detail::PolicyStep&>(*step);
    for (std::uint64_t index = 0; index < kDraws; ++index) {
      KeyedRng rng({.index = index});
      for (const Drawn& one : policy.draw(pixels, rng))
        found[{static_cast<int>(one.operation),
               static_cast<int>(std::lround(std::abs(one.magnitude) * 1000))}] += 1.0 / kDraws;
    }
    for (const auto& [key, share] : expected)
      EXPECT_NEAR(found.contains(key) ? found.at(key) : 0.0, share, 0.012)
          << policies[i] << " " << names()[std::size_t(key.first)];
    EXPECT_EQ(found.size(),
              std::ranges::count_if(expected, [](const auto& one) { return one.second > 0; }))
        << policies[i];
  }
}

TEST(Policies, DrawAsOftenAsTheySay) {
  const Pixels pixels{.levels = {}, .height = 100, .width = 100, .channels = 3};
  const auto draws = [&](const std::string& call) {
    const auto step = calls(call)[0].make();
    std::vector<std::vector<Drawn>> all;
    for (std::uint64_t index = 0; index < 3000; ++index) {
      KeyedRng rng({.index = index});
      all.push_back(dynamic_cast<const decode::detail::PolicyStep&>(*step).draw(pixels, rng));
    }
    return all;
  };
  std::map<Operation, int> times;
  int negative = 0;
  for (const auto& one : draws("randaugment(2, 9)")) {
    ASSERT_EQ(one.size(), 2U);
    for (const Drawn& drawn : one) {
      ++times[drawn.operation];
      if (drawn.operation != Operation::kRotate) continue;
      EXPECT_NEAR(std::abs(drawn.magnitude), 9, 1e-9);
      negative += drawn.magnitude < 0 ? 1 : 0;
    }
  }
  ASSERT_EQ(times.size(), 14U);
  for (const auto& [operation, count] : times)
    EXPECT_NEAR(count, 6000 / 14, 90) << name_of(operation);
  EXPECT_NEAR(negative, times[Operation::kRotate] / 2, 45);

  std::vector<double> strengths;
  std::size_t done = 0;
  for (const auto& one : draws("randaugment(2, 9, space=timm, std=0.5, increasing)")) {
    done += one.size();
    for (const Drawn& drawn : one)
      if (drawn.operation == Operation::kRotate) strengths.push_back(std::abs(drawn.magnitude) / 3);
  }
  EXPECT_NEAR(static_cast<double>(done), 3000, 150) << "timm does each half the time";
  double sum = 0;
  for (const double strength : strengths) {
    ASSERT_LE(strength, 10 + 1e-9);
    sum += strength;
  }
  EXPECT_NEAR(sum / static_cast<double>(strengths.size()), 9, 0.15);
  EXPECT_GT(*std::ranges::max_element(strengths) - *std::ranges::min_element(strengths), 1);
}

TEST(Policies, AugMixIsAMixtureOfThePictureAndItsChains) {
  const Image image = testing::photo(24, 30, 3);
  const auto plain = seen("ccrop(24x30)", image);
  double smallest = 1e9;
  double largest = 0;
  for (std::uint64_t index = 0; index < 60; ++index) {
    const auto mixed = seen("ccrop(24x30), augmix", image, {.index = index});
    double apart = 0;
    for (std::size_t i = 0; i < plain.size(); ++i) apart += std::abs(mixed[i] - plain[i]);
    apart /= static_cast<double>(plain.size());
    smallest = std::min(smallest, apart);
    largest = std::max(largest, apart);
  }
  EXPECT_LT(smallest, 4) << "mostly the picture";
  EXPECT_GT(largest, 10);
  const Image flat{24, 30, 3, io::Bytes::take(std::vector<std::byte>(2160, std::byte{200}))};
  int changed = 0;
  for (std::uint64_t index = 0; index < 60; ++index) {
    const auto mixed = seen("ccrop(24x30), augmix(all_ops=false, chain_depth=1, severity=1)", flat,
                            {.index = index});
    changed += mixed == seen("ccrop(24x30)", flat) ? 0 : 1;
  }
  EXPECT_LT(changed, 45) << "strength 0 of most operations changes nothing";
}

TEST(Policies, GiveTheSameBitsOnAnyThread) {
  const Image image = testing::photo(60, 90, 3);
  const io::Bytes file = decode::encode_png(image);
  const auto decoder = plain_decoder(
      calls("rrc(32), apply([rotate(30), perspective(p=1)], 0.7), choice([randaugment, augmix, "
            "trivialaugment, autoaugment]), apply([blur(5), grayscale(0.5)])"));
  std::vector<std::vector<std::uint8_t>> alone;
  for (std::uint64_t i = 0; i < 60; ++i) alone.push_back(decoded(decoder, file, {.index = i}));
  std::vector<std::jthread> team;
  for (std::uint64_t t = 0; t < 4; ++t)
    team.emplace_back([&, t] {
      for (std::uint64_t i = 0; i < 60; ++i) {
        const std::uint64_t at = (i * 7 + t) % 60;
        EXPECT_EQ(decoded(decoder, file, {.index = at}), alone[at]);
      }
    });
}

TEST(Policies, TakePicturesOfOneChannelAndOfOnePixel) {
  const std::string all = "randaugment(4, 20), trivialaugment, autoaugment, augmix";
  for (std::uint64_t index = 0; index < 50; ++index) {
    EXPECT_EQ(seen("ccrop(1), " + all, testing::photo(3, 3, 1), {.index = index}).size(), 3U);
    EXPECT_EQ(
        seen("ccrop(9x4), " + all, testing::grey(testing::photo(9, 9, 1)), {.index = index}).size(),
        36U);
    const auto alpha = decoded(plain_decoder(calls("ccrop(5), trivialaugment"), 4),
                               decode::encode_pnm(testing::photo(9, 9, 1)), {.index = index});
    EXPECT_EQ(alpha.size(), 100U);
  }
}

std::string refusal(const std::string& text) {
  try {
    static_cast<void>(plain_decoder(calls(text)));
    return {};
  } catch (const Error& error) {
    return error.message();
  }
}

TEST(Policies, RefuseBadValuesAndSayWhatIsWrong) {
  EXPECT_EQ(refusal("ccrop(8), randaugment(2, 31)"),
            "randaugment: magnitude must be below num_magnitude_bins");
  EXPECT_EQ(refusal("ccrop(8), randaugment(2, 11, space=timm)"),
            "randaugment: magnitude must be 0 to 10 in timm's space");
  EXPECT_EQ(refusal("ccrop(8), randaugment(space=tim)"),
            "space: there is no 'tim'; did you mean timm?");
  EXPECT_EQ(refusal("ccrop(8), autoaugment(cifar)"),
            "policy: there is no 'cifar'; did you mean cifar10?");
  EXPECT_EQ(refusal("ccrop(8), randaugment(interpolation=lanczos)"),
            "randaugment: interpolation lanczos is for resizes; there are bilinear, bicubic, "
            "nearest, random");
  EXPECT_EQ(refusal("ccrop(8), augmix(chain_depth=0)"),
            "augmix: chain_depth is at least 1, or -1: 1 to 3");
  EXPECT_EQ(refusal("randagument"),
            "there is no transform 'randagument'; did you mean randaugment?");
  EXPECT_EQ(refusal("ccrop(8), RandAugment(2, 9), rand_augment, TrivialAugmentWide"), "");
}

TEST(RandomApply, DoesAllOrNone) {
  const Image image = testing::photo(20, 20, 3);
  const auto plain = seen("ccrop(20)", image);
  const auto both = seen("ccrop(20), invert(1), posterize(2, 1)", image);
  int done = 0;
  for (std::uint64_t index = 0; index < 400; ++index) {
    const auto one =
        seen("ccrop(20), apply([invert(1), posterize(2, 1)], 0.25)", image, {.index = index});
    ASSERT_TRUE(one == plain || one == both);
    done += one == both ? 1 : 0;
  }
  EXPECT_NEAR(done, 100, 35);
}

TEST(RandomApply, OfGeometryIsGeometry) {
  const Image image = testing::photo(20, 20, 3);
  const auto turned = seen("ccrop(20), rotate(90..90)", image);
  const auto plain = seen("ccrop(20)", image);
  int done = 0;
  for (std::uint64_t index = 0; index < 200; ++index) {
    const auto one = seen("ccrop(20), apply([rotate(90..90)])", image, {.index = index});
    ASSERT_TRUE(one == plain || one == turned);
    done += one == turned ? 1 : 0;
  }
  EXPECT_NEAR(done, 100, 35);
  EXPECT_EQ(kind_of(calls("apply([rotate(90)])")[0]), decode::TransformKind::kGeometry);
  EXPECT_EQ(kind_of(calls("apply([blur(3)])")[0]), decode::TransformKind::kPixels);
  EXPECT_EQ(refusal("ccrop(8), invert, apply([hflip, vflip(1)])"), "")
      << "flips may be late, so may what holds them";
}

TEST(RandomChoice, TakesOneByItsWeight) {
  const Image image = testing::photo(20, 20, 3);
  std::map<std::vector<std::uint8_t>, int> times;
  for (std::uint64_t index = 0; index < 600; ++index)
    ++times[seen("ccrop(20), choice([invert(1), posterize(2, 1), solarize(9, 1)], p=[3, 1, 2])",
                 image, {.index = index})];
  ASSERT_EQ(times.size(), 3U);
  EXPECT_NEAR(times[seen("ccrop(20), invert(1)", image)], 300, 55);
  EXPECT_NEAR(times[seen("ccrop(20), posterize(2, 1)", image)], 100, 40);
  EXPECT_NEAR(times[seen("ccrop(20), solarize(9, 1)", image)], 200, 50);
  EXPECT_EQ(refusal("choice([rrc(16), rcrop(16), ccrop(16)])"), "") << "all have one size";
}

TEST(RandomChoice, RefusesWhatHasNoOneSizeOrKind) {
  EXPECT_EQ(refusal("choice([rrc(16), rcrop(17)])"),
            "choice: pictures of different sizes, whichever is drawn");
  EXPECT_EQ(refusal("ccrop(9), apply([rcrop(9)])"),
            "apply: pictures of different sizes, whichever is drawn");
  EXPECT_EQ(refusal("ccrop(9), apply([pad(2)])"),
            "apply: the picture's size depends on what is drawn: add a crop of one size to each");
  EXPECT_EQ(refusal("ccrop(9), apply([hflip, invert])"),
            "apply: transforms are all geometry, or all changes of levels");
  EXPECT_EQ(refusal("ccrop(9), apply([normalize])"),
            "apply: transforms are all geometry, or all changes of levels");
  EXPECT_EQ(refusal("ccrop(9), apply"), "apply: transforms must not be empty");
  EXPECT_EQ(refusal("ccrop(9), choice([invert], p=[1, 2])"),
            "choice: p has a number for each transform");
  EXPECT_EQ(refusal("ccrop(9), choice([inwert])"),
            "there is no transform 'inwert'; did you mean invert?");
  EXPECT_EQ(refusal("ccrop(9), apply([blur(4)])"), "blur: kernel_size must be odd");
}

TEST(RandomApply, IsTheSameFromTextJsonAndStructs) {
  const decode::Transform made =
      decode::RandomApply{.transforms = {decode::GaussianBlur{.kernel_size = 23},
                                         decode::RandomApply{{decode::GaussianBlur{3}}}},
                          .probability = 0.8};
  EXPECT_EQ(text(made), "apply([blur(23), apply([blur(3)])], 0.8)");
  EXPECT_EQ(calls(text(made))[0], made);
  EXPECT_EQ(decode::Transform(
                component_of(written_json(json_text(made), "it"), decode::standard_transforms())),
            made);
  const std::string toml =
      R"x({ name = "apply", p = 0.8, transforms = ["blur(23)", "apply([blur(3)])"] })x";
  EXPECT_EQ(decode::Transform(component_of(written_toml(toml), decode::standard_transforms())),
            made);
}

TEST(RandomApply, ReadsWhatItWrites) {
  for (const std::string call : {"apply([blur(3, 1..2), jitter(0.1)], 0.25)",
                                 "apply([rotate(-3..8), affine(2, [0.1], 0.9..1.1)])"}) {
    const decode::Transform made = calls(call)[0];
    EXPECT_EQ(decode::Transform(component_of(written(made), decode::standard_transforms())), made);
  }
}

TEST(Policies, AreNotForOneOfSeveralPicturesThatShareTheirGeometry) {
  const auto refuses = [](const std::string& own) -> std::string {
    try {
      decode::PairedDecoder decoder(
          calls("rrc(8)"), {{.transforms = calls(own)},
                            {.channels = 1, .interpolation = decode::Interpolation::kNearest}});
      return {};
    } catch (const Error& error) {
      return error.message();
    }
  };
  EXPECT_EQ(refuses("jitter(0.1), apply([blur(3)]), normalize"), "");
  EXPECT_EQ(
      refuses("apply([randaugment])"),
      "paired images share their geometry: apply([randaugment]) would move one of them alone");
}

}  // namespace policy_test
}  // namespace millrace
