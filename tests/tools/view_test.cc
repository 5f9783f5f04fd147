// view and stats: pictures and statistics of samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "decode/image.h"
#include "tests/support/tar_builder.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

std::string ppm_file(int width, int height, const std::string& pixel) {
  std::string image = "P6 " + std::to_string(width) + " " + std::to_string(height) + " 255\n";
  for (int i = 0; i < width * height; ++i) image += pixel;
  return image;
}

std::string pgm(int width, int height, char level) {
  return "P5 " + std::to_string(width) + " " + std::to_string(height) + " 255\n" +
         std::string(static_cast<std::size_t>(width * height), level);
}

decode::Image read_png(const std::string& path) {
  const std::string png = read_file(path);
  const auto bytes = std::as_bytes(std::span(png));
  return decode::decode_image(io::Bytes::take(std::vector<std::byte>(bytes.begin(), bytes.end())),
                              {.channels = 3});
}

std::vector<int> pixel(const decode::Image& image, int x, int y) {
  const auto row = image.row(y);
  const auto at = static_cast<std::size_t>(3 * x);
  return {row[at], row[at + 1], row[at + 2]};
}

class View : public ::testing::Test {
 protected:
  nlohmann::json view(std::vector<std::string> words, int status = 0) {
    words.insert(words.begin(), {"view", "--json"});
    words.insert(words.end(), {"-o", dir_ / "out.png", "--force"});
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, status) << result.err;
    const auto lines = json_lines(result.out);
    return lines.empty() ? nlohmann::json() : lines.front();
  }
  decode::Image sheet() const { return read_png(dir_ / "out.png"); }

  TempDir dir_;
};

TEST_F(View, ShowsColoursAndLabels) {
  const std::string red("\xC8\x10\x20", 3);
  write_file(dir_ / "x-000000.tar", TarBuilder()
                                        .file("a.ppm", ppm_file(32, 32, red))
                                        .file("a.cls", "1")
                                        .file("b.pgm", pgm(32, 32, 100))
                                        .file("b.cls", "0")
                                        .end()
                                        .bytes());
  write_file(dir_ / "x-classes.txt", "zero\none\n");
  const auto line = view({dir_ / "x-000000.tar", "--size", "32"});
  EXPECT_EQ(line["labels"], (nlohmann::json{"one", "zero"}));
  const decode::Image image = sheet();
  EXPECT_EQ(image.width, 4 + 2 * (96 + 4));
  EXPECT_EQ(pixel(image, 4 + 48, 4 + 48), (std::vector<int>{0xC8, 0x10, 0x20}));
  EXPECT_EQ(pixel(image, 4 + 100 + 48, 4 + 48), (std::vector<int>{100, 100, 100}));
  int ink = 0;
  for (int y = 100; y < image.height; ++y)
    for (int x = 0; x < 100; ++x) ink += pixel(image, x, y)[0] > 200 ? 1 : 0;
  EXPECT_GT(ink, 20) << "the label";
  view({dir_ / "x-000000.tar", "--raw"});
  EXPECT_EQ(pixel(sheet(), 52, 52), (std::vector<int>{0xC8, 0x10, 0x20}));
}

TEST_F(View, DrawsBoxesWhereTheTransformsMoveThem) {
  write_file(dir_ / "x.tar",
             TarBuilder()
                 .file("a.json", R"({"boxes": [[100, 20, 100, 60]], "labels": [0], "width": 400})"
                                 R"(, "crowd": [0]})")
                 .file("a.ppm", ppm_file(200, 100, "abc"))
                 .end()
                 .bytes());
  EXPECT_TRUE(view({dir_ / "x.tar", "--boxes", "json", "--raw"}, 1).is_null()) << "no height";
  write_file(dir_ / "x.tar", TarBuilder()
                                 .file("a.json", R"({"boxes": [[50, 10, 50, 30]], "labels": [0]})")
                                 .file("a.ppm", ppm_file(200, 100, "abc"))
                                 .end()
                                 .bytes());
  const std::vector<int> inside = {'a', 'b', 'c'};
  // The box reaches from (50, 10) to (100, 40); mirrored in 100 x 100 of the middle, from (50, 10).
  const std::vector<std::pair<std::vector<std::string>, int>> ways = {
      {{"--raw"}, 50}, {{"--size", "100", "--augment", "ccrop(100), hflip(1)"}, 50}};
  for (const auto& [options, left] : ways) {
    std::vector<std::string> words = {dir_ / "x.tar", "--boxes", "json"};
    words.insert(words.end(), options.begin(), options.end());
    view(words);
    const decode::Image image = sheet();
    EXPECT_EQ(pixel(image, 4 + left - 1, 4 + 20), inside);
    EXPECT_NE(pixel(image, 4 + left, 4 + 20), inside);
    EXPECT_EQ(pixel(image, 4 + left + 1, 4 + 20), inside);
    EXPECT_NE(pixel(image, 4 + left + 20, 4 + 39), inside);
    EXPECT_EQ(pixel(image, 4 + left + 20, 4 + 40), inside);
  }
}

TEST_F(View, AugmentsBySeedAndEvaluatesWithout) {
  const std::string shards = make_set(dir_, 9, 9);
  const auto seen = [&](std::vector<std::string> more) {
    more.insert(more.begin(), shards);
    more.insert(more.end(), {"--size", "32", "--augment", "rrc-flip"});
    view(more);
    return read_file(dir_ / "out.png");
  };
  const std::string one = seen({"--seed", "1"});
  EXPECT_EQ(seen({"--seed", "1"}), one);
  EXPECT_NE(seen({"--seed", "2"}), one);
  EXPECT_EQ(seen({"--seed", "1", "--eval"}), seen({"--seed", "2", "--eval"}));
}

TEST_F(View, TheNamesOfListsAreWhatTheyWere) {
  const std::string shards = make_set(dir_, 9, 9);
  const auto seen = [&](const std::string& size, const std::string& augment) {
    view({shards, "--seed", "1", "--size", size, "--augment", augment});
    return read_file(dir_ / "out.png");
  };
  for (const std::string size : {"32", "24x40"}) {
    EXPECT_EQ(seen(size, "flip"), seen(size, "hflip")) << size;
    EXPECT_EQ(seen(size, "rrc-flip"), seen(size, "rrc, hflip")) << size;
    EXPECT_NE(seen(size, "rrc, hflip"), seen(size, "rrc")) << size;
  }
  EXPECT_EQ(seen("32", "crop-flip"), seen("32", "RandomCrop(32, padding=4), hflip(0.5)"));
  EXPECT_EQ(seen("32", "crop_flip"), seen("32", "rcrop(padding=4), hflip"));
  EXPECT_NE(seen("32", "hflip"), seen("32", "hflip, jitter(0.9)"));
}

TEST_F(View, TransformsMayHoldOthers) {
  const std::string shards = make_set(dir_, 4, 4);
  const auto seen = [&](const std::string& augment) {
    view({shards, "--seed", "1", "--size", "32", "--augment", augment});
    return read_file(dir_ / "out.png");
  };
  EXPECT_EQ(seen("choice([rrc, rcrop(padding=8)])"),
            seen("choice([rrc(32), rcrop(32, padding=8)])"))
      << "a size that is left out is --size, in lists too";
  EXPECT_EQ(seen("rrc, hflip, randaugment(2, 9), erase(0.25)"),
            seen("RandomResizedCrop(32), hflip, rand_augment, erase(0.25)"));
  EXPECT_NE(seen("rrc, hflip, randaugment(2, 9)"), seen("rrc, hflip"));
  EXPECT_EQ(seen("pad(4, padding_mode=reflect), rcrop"),
            seen("pad(4, padding_mode=reflect), rcrop(32)"));
  EXPECT_EQ(seen("apply([rotate(30), hflip(1)], 0)"), seen("none"));
}

TEST_F(View, MultiCropDrawsEachViewOfASample) {
  const std::string shards = make_set(dir_, 2, 2);
  const auto seen = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {shards, "--seed", "1", "--columns", "1"});
    view(more);
    return read_file(dir_ / "out.png");
  };
  const std::string one = seen({"--size", "32", "--augment", "rrc, hflip"});
  EXPECT_EQ(seen({"--multi-crop", "views(1, 32, [rrc, hflip])"}), one)
      << "view 0 draws as a picture";
  EXPECT_EQ(seen({"--multi-crop", "views(1, 32)", "--augment", "rrc, hflip"}), one);
  EXPECT_NE(seen({"--multi-crop", "views(1, 32)"}), one) << "nothing is drawn";
  seen({"--multi-crop", "views(2, 128, [rrc(area=0.4..1), hflip]), views(3, 96, [rrc])"});
  const decode::Image both = sheet();
  EXPECT_EQ(both.width, 4 + (2 * 128 + 3 * 96 + 4) + 4);
  const auto differ = [&](int from, int to) {
    int pixels = 0;
    for (int i = 0; i < 90; ++i)
      pixels += pixel(both, 4 + from + i, 40) != pixel(both, 4 + to + i, 40) ? 1 : 0;
    return pixels;
  };
  EXPECT_GT(differ(0, 129), 0) << "views of one call are independent";
  EXPECT_GT(differ(258, 258 + 97), 0);
}

TEST_F(View, RefusesViewsThatCannotBe) {
  const std::string shards = make_set(dir_, 1, 1);
  const auto refusal = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"view", shards, "-o", dir_ / "no.png", "--multi-crop"});
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 2) << words.back();
    return result.err;
  };
  EXPECT_THAT(refusal({"views(2)"}), HasSubstr("--multi-crop: 'views(2)', column 1: views"));
  EXPECT_THAT(refusal({"veiws(2, 96)"}), HasSubstr("did you mean views?"));
  EXPECT_THAT(refusal({"views(300, 96)"}), HasSubstr("1 to 256"));
  EXPECT_THAT(refusal({"views(200, 8), views(100, 8)"}), HasSubstr("300 views; at most 256"));
  EXPECT_THAT(refusal({"views(2, 96, [hflop])"}), HasSubstr("did you mean hflip?"));
  EXPECT_THAT(refusal({"views(2, 96, [rrc(48)])"}), HasSubstr("pictures of another size"));
  EXPECT_THAT(refusal({"views(2, 96)", "--raw"}), HasSubstr("--raw"));
  EXPECT_THAT(refusal({"views(2, 96)", "--fields", "png,mask.png"}), HasSubstr("one field"));
  const ProcessResult trains = millrace(
      {"bench", shards, "--stage", "train", "--multi-crop", "views(2, 96)", "--seconds", "0.1"});
  EXPECT_EQ(trains.status, 2);
  EXPECT_THAT(trains.err, HasSubstr("--multi-crop is for --stage decode"));
}

TEST_F(View, BenchMeasuresViews) {
  const std::string shards = make_set(dir_, 4, 4);
  write_file(dir_ / "crops.toml",
             "multi-crop = \"views(2, 24, [rrc(area=0.4..1), hflip]), views(3, 8x16)\"\n");
  const ProcessResult result = millrace({"bench", shards, "--config", dir_ / "crops.toml", "--json",
                                         "--seconds", "0.1", "--batch-size", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  const nlohmann::json line = json_lines(result.out).back();
  EXPECT_EQ(line["views"].dump(), "[[24,24,3],[24,24,3],[8,16,3],[8,16,3],[8,16,3]]");
  EXPECT_GT(line["samples_per_s"], 0);
}

TEST_F(View, PicturesAreResizedAsInterpolationSays) {
  const std::string shards = make_set(dir_, 2, 2);
  const auto seen = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {shards, "--size", "40"});
    view(more);
    return read_file(dir_ / "out.png");
  };
  EXPECT_EQ(seen({}), seen({"--interpolation", "bilinear"}));
  EXPECT_NE(seen({}), seen({"--interpolation", "bicubic"}));
  EXPECT_NE(seen({"--eval"}), seen({"--eval", "--interpolation", "lanczos"}));
  EXPECT_EQ(seen({"--augment", "rrc(interpolation=bicubic)"}),
            seen({"--augment", "rrc", "--interpolation", "bicubic"}));
  EXPECT_EQ(seen({"--augment", "rrc(interpolation=bilinear)", "--interpolation", "nearest"}),
            seen({"--augment", "rrc"}));
  const ProcessResult wrong =
      millrace({"view", shards, "-o", dir_ / "no.png", "--size", "40", "--interpolation", "cubic"});
  EXPECT_EQ(wrong.status, 2);
  EXPECT_THAT(wrong.err, HasSubstr("bicubic"));
}

TEST_F(View, RefusesTransformsThatCannotWork) {
  const std::string shards = make_set(dir_, 1, 1);
  const auto refusal = [&](const std::string& augment) {
    const ProcessResult result =
        millrace({"view", shards, "-o", dir_ / "no.png", "--size", "32", "--augment", augment});
    EXPECT_EQ(result.status, 2) << augment;
    return result.err;
  };
  EXPECT_THAT(refusal("hflop"), HasSubstr("--augment: 'hflop', column 1: there is no transform "
                                          "'hflop'; did you mean hflip?"));
  EXPECT_THAT(refusal("hflip, rcrop(pading=4)"),
              HasSubstr("column 14: rcrop has no 'pading'; did you mean padding?"));
  EXPECT_THAT(refusal("rcrop(24)"), HasSubstr("--augment rcrop(24): pictures of another size than "
                                              "--size 32"));
  EXPECT_THAT(refusal("resize(40), rcrop"), HasSubstr("--fit and --eval-resize decide"));
  EXPECT_THAT(refusal("normalize"), HasSubstr("--mean and --std normalise"));
  EXPECT_THAT(refusal("jitter(0.1), rcrop"), HasSubstr("crops and resizes come before"));
  EXPECT_THAT(refusal("pad(4), hflip"),
              HasSubstr("--augment leaves pictures of 40, not of --size 32: add rcrop"));
  EXPECT_THAT(refusal("apply([pad(4)])"), HasSubstr("the picture's size depends on what is drawn"));
  EXPECT_THAT(refusal("randagument(2, 9)"), HasSubstr("did you mean randaugment?"));
  EXPECT_THAT(refusal("autoaugment(imagenett)"), HasSubstr("did you mean imagenet?"));
  EXPECT_THAT(refusal("rotate(10), apply([inwert])"),
              HasSubstr("column 20: there is no transform"));
}

/// A picture of that width and height, its middle third white, the others black.
std::string striped(int width, int height) {
  std::string image = "P5 " + std::to_string(width) + " " + std::to_string(height) + " 255\n";
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) image += x * 3 / width == 1 ? '\xFF' : '\0';
  return image;
}

/// The white pixels of a row in the middle of the first sample, whose picture is `side` wide.
int white_in(const decode::Image& sheet, int side) {
  int white = 0;
  for (int x = 0; x < side; ++x) white += pixel(sheet, 4 + x, 4 + side / 2)[0] > 127 ? 1 : 0;
  return white;
}

TEST_F(View, TrainingAndEvaluationShowPicturesAtOneScale) {
  write_file(dir_ / "x.tar", TarBuilder().file("a.pgm", striped(288, 192)).end().bytes());
  const auto white = [&](const std::string& fit, const std::string& augment, bool evaluation) {
    std::vector<std::string> words = {dir_ / "x.tar", "--size", "96", "--augment", augment};
    if (!fit.empty()) words.insert(words.end(), {"--fit", fit});
    if (evaluation) words.emplace_back("--eval");
    view(words);
    return white_in(sheet(), 96);
  };
  for (const std::string augment : {"none", "flip", "crop-flip"}) {
    for (const bool evaluation : {false, true}) {
      // A random window may cut into the stripe.
      const bool cut = augment == "crop-flip" && !evaluation;
      EXPECT_NEAR(white("", augment, evaluation), cut ? 42 : 48, cut ? 8 : 2)
          << "the proportions stay: " << augment;
      EXPECT_NEAR(white("squeeze", augment, evaluation), 32, 2) << augment;
      EXPECT_NEAR(white("contain", augment, evaluation), 32, cut ? 5 : 2) << augment;
    }
  }
  EXPECT_EQ(white("none", "none", true), 96) << "the middle of it as stored is white";
  EXPECT_NEAR(white("", "rrc-flip", true), 96 * 48 / 84, 2) << "from 8/7 of the size";
}

TEST_F(View, EvaluationsResizeMayBeGiven) {
  write_file(dir_ / "x.tar", TarBuilder().file("a.pgm", striped(288, 192)).end().bytes());
  view({dir_ / "x.tar", "--size", "96", "--eval", "--eval-resize", "128"});
  EXPECT_NEAR(white_in(sheet(), 96), 64, 2);
  for (const std::vector<std::string>& refused :
       std::vector<std::vector<std::string>>{{"--eval-resize", "64"},
                                             {"--eval-resize", "128", "--fit", "none"},
                                             {"--fit", "none", "--augment", "rrc-flip"},
                                             {"--eval-resize", "128", "--fit", "contain"},
                                             {"--fit", "cover", "--fields", "pgm,mask.pgm"}}) {
    std::vector<std::string> words = {dir_ / "x.tar", "--size", "96"};
    words.insert(words.end(), refused.begin(), refused.end());
    view(words, 2);
  }
}

TEST_F(View, ContainedPicturesAreCentredAndTheirMasksWithThem) {
  const std::string wide = striped(288, 192);
  write_file(dir_ / "x.tar",
             TarBuilder().file("a.pgm", wide).file("a.depth.pgm", wide).end().bytes());
  view({dir_ / "x.tar", "--size", "96", "--fields", "pgm,depth.pgm"});
  const decode::Image image = sheet();
  for (const int left : {4, 4 + 97}) {
    std::vector<int> levels;
    for (const int y : {4 + 8, 4 + 17, 4 + 48, 4 + 78, 4 + 88})
      levels.push_back(pixel(image, left + 48, y)[0]);
    EXPECT_EQ(levels, (std::vector<int>{0, 255, 255, 255, 0})) << "64 rows of 96, in the middle";
  }
}

TEST_F(View, APictureIsWrittenAsItsSuffixSays) {
  const std::string shards = make_set(dir_, 1, 1);
  const auto begin_of = [&](const std::string& name) {
    EXPECT_EQ(millrace({"view", shards, "-o", dir_ / name}).status, 0);
    return read_file(dir_ / name).substr(0, 4);
  };
  EXPECT_EQ(begin_of("x.jpg").substr(0, 3), "\xFF\xD8\xFF");
  EXPECT_EQ(begin_of("x.PNG"), "\x89PNG");
  EXPECT_EQ(begin_of("x.ppm").substr(0, 2), "P6");
  const auto refused = millrace({"view", shards, "-o", dir_ / "x.gif"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("x.gif: pictures are written as .png, .jpg or .ppm"));
}

TEST_F(View, NormalisedValuesAreShownAroundMidGrey) {
  write_file(dir_ / "x.tar", TarBuilder().file("a.pgm", pgm(8, 8, 51)).end().bytes());
  view({dir_ / "x.tar", "--size", "96", "--channels", "1", "--mean", "0.2", "--std", "0.1"});
  EXPECT_NEAR(pixel(sheet(), 50, 50)[0], 127.5, 0.5);
}

TEST_F(View, MasksStandBesideTheirImage) {
  write_file(dir_ / "x.tar", TarBuilder()
                                 .file("a.pgm", pgm(96, 96, 50))
                                 .file("a.mask.pgm", pgm(96, 96, 2))
                                 .file("b.pgm", pgm(96, 96, 50))
                                 .end()
                                 .bytes());
  view({dir_ / "x.tar", "--raw", "--fields", "pgm,mask.pgm"}, 1);
  view({dir_ / "x.tar", "--size", "96", "--augment", "crop-flip", "--fields", "pgm,mask.pgm",
        "--on-fault", "skip"});
  const auto colour = pixel(sheet(), 4 + 96 + 4 + 48, 52);
  EXPECT_GT(std::max({colour[0], colour[1], colour[2]}), 150) << "class 2 has a colour";
}

TEST_F(View, AnExistingPictureStays) {
  const std::string shards = make_set(dir_, 1, 1);
  write_file(dir_ / "kept.png", "mine");
  const auto result = millrace({"view", shards, "-o", dir_ / "kept.png"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("--force"));
  EXPECT_EQ(read_file(dir_ / "kept.png"), "mine");
}

TEST(Stats, CountsClassesSizesAndPixelsExactly) {
  const TempDir dir;
  write_file(dir / "x-000000.tar",
             TarBuilder()
                 .file("a.pgm", pgm(2, 3, 0))
                 .file("a.cls", "1")
                 .file("b.ppm", ppm_file(2, 3, std::string("\xFF\x00\x00", 3)))
                 .file("b.cls", "1")
                 .file("c.cls", "0")
                 .end()
                 .bytes());
  write_file(dir / "x-classes.txt", "no\nyes\n");
  const auto result = millrace({"stats", "--json", dir / "x-000000.tar"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto stats = json_lines(result.out).front();
  EXPECT_EQ(stats["samples"], 3);
  EXPECT_EQ(stats["images"], 2);
  EXPECT_EQ(stats["classes"][1], (nlohmann::json{{"label", 1}, {"name", "yes"}, {"samples", 2}}));
  EXPECT_EQ(stats["height"], (nlohmann::json{{"min", 3}, {"median", 3.0}, {"max", 3}}));
  EXPECT_EQ(stats["mean"], (nlohmann::json{0.5, 0.0, 0.0}));
  EXPECT_EQ(stats["std"], (nlohmann::json{0.5, 0.0, 0.0}));
  EXPECT_EQ(json_lines(millrace({"stats", "--json", dir / "x-000000.tar", "--limit", "1"}).out)
                .front()["samples"],
            1);
}

constexpr const char* kNumpyStats = R"(
import sys, io, json, tarfile, numpy, PIL.Image
pixels = []
with tarfile.open(sys.argv[1]) as tar:
    for m in tar:
        if m.name.endswith('.png'):
            image = PIL.Image.open(io.BytesIO(tar.extractfile(m).read())).convert('RGB')
            pixels.append(numpy.asarray(image, dtype=numpy.float64).reshape(-1, 3) / 255)
pixels = numpy.concatenate(pixels)
print(json.dumps([list(pixels.mean(0)), list(pixels.std(0))]))
)";

TEST(Stats, AgreeWithNumpy) {
  if (run_process({"/usr/bin/python3", "-c", "import numpy, PIL.Image"}).status != 0)
    GTEST_SKIP() << "/usr/bin/python3 has no numpy or PIL";
  const TempDir dir;
  make_set(dir, 300, 300);
  const auto theirs =
      json_lines(run_process({"/usr/bin/python3", "-c", kNumpyStats, dir / "set-000000.tar"}).out);
  ASSERT_EQ(theirs.size(), 1U);
  const auto ours = json_lines(millrace({"stats", "--json", dir / "set-000000.tar"}).out).front();
  for (std::size_t c = 0; c < 3; ++c) {
    EXPECT_NEAR(ours["mean"][c].get<double>(), theirs[0][0][c].get<double>(), 1e-12);
    EXPECT_NEAR(ours["std"][c].get<double>(), theirs[0][1][c].get<double>(), 1e-12);
  }
}

TEST(Stats, ADamagedImageIsAFaultByThePolicy) {
  const TempDir dir;
  write_file(dir / "x.tar",
             TarBuilder().file("a.png", "nothing").file("b.pgm", pgm(1, 1, 9)).end().bytes());
  const auto failed = millrace({"stats", dir / "x.tar"});
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, HasSubstr("a.png"));
  const auto skipped = millrace({"stats", "--json", dir / "x.tar", "--on-fault", "skip"});
  EXPECT_EQ(json_lines(skipped.out).front()["samples"], 1);
}

}  // namespace
}  // namespace millrace::testing
