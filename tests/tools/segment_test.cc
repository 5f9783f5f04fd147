// Segmentation end to end: masks of many classes from every kind of file, rectangular and padded
// sizes, results in the pictures' original sizes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <functional>
#include <set>

#include "decode/class_mask.h"
#include "decode/encode.h"
#include "io/opener.h"
#include "tests/tools/support.h"
#include "wds/shard_reader.h"
#include "wds/shard_writer.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

decode::Image image_of(const std::string& path) {
  return decode::decode_image(io::Bytes::copy_of(read_file(path)), {.channels = 3});
}

/// Synthetic streets in one shard; returns its path.
std::string make_streets(const TempDir& dir, int count, const std::string& size,
                         const std::string& name = "street") {
  const ProcessResult made =
      millrace({"create", dir / (name + "-%06d.tar"), "--synthetic", "segments", "--count",
                std::to_string(count), "--size", size});
  EXPECT_EQ(made.status, 0) << made.err;
  return dir / (name + "-000000.tar");
}

using Encode = std::function<io::Bytes(const decode::ClassImage&)>;

/// The shard with its masks re-encoded, without a label map.
std::string with_masks(const TempDir& dir, const std::string& shard, const std::string& name,
                       const Encode& encode) {
  wds::ShardWriter writer({.pattern = dir / (name + "-%06d.tar")});
  for (const wds::Sample& sample : read_samples(shard)) {
    const auto mask = decode::decode_classes(sample.find("mask.png")->data, {});
    writer.write({.key = sample.key,
                  .fields = {{"png", sample.find("png")->data}, {"mask.png", encode(mask)}}});
  }
  writer.finish();
  return dir / (name + "-000000.tar");
}

decode::RgbColour colour_of(std::int64_t label) {
  return {static_cast<std::uint8_t>(10 * label), 7, static_cast<std::uint8_t>(200 - label)};
}

io::Bytes in_colours(const decode::ClassImage& mask) {
  std::vector<std::byte> pixels;
  for (const std::int64_t label : mask.labels)
    for (const std::uint8_t level : label == 255 ? decode::RgbColour{} : colour_of(label))
      pixels.push_back(std::byte{level});
  return decode::encode_png({mask.height, mask.width, 3, io::Bytes::take(std::move(pixels))});
}

std::string colour_table() {
  std::string table = "name,r,g,b\n";
  for (std::int64_t label = 0; label < 11; ++label) {
    const auto [r, g, b] = colour_of(label);
    table += "class" + std::to_string(label) + "," + std::to_string(r) + "," + std::to_string(g) +
             "," + std::to_string(b) + "\n";
  }
  return table + "Void,0,0,0\n";
}

std::vector<std::string> segment(std::vector<std::string> more) {
  more.insert(more.begin(),
              {"train", "--model", "unet(width=16)", "--task", "segment", "--optimizer", "adam",
               "--lr", "0.01", "--batch-size", "4", "--precision", "fp32", "--json"});
  return more;
}

/// The loss of the first step: it depends only on the pixels, the masks and the seed.
double first_loss(const std::string& shard, std::vector<std::string> more) {
  more.insert(more.end(), {"--train", shard, "--size", "32", "--classes", "11", "--fast-dev-run",
                           "--log-steps", "1", "--shuffle", "0"});
  const ProcessResult result = millrace(segment(std::move(more)));
  EXPECT_EQ(result.status, 0) << result.err;
  return result.status == 0 ? json_lines(result.out).front()["loss"].get<double>() : -1.0;
}

TEST(Segment, EveryKindOfMaskIsTheSameMask) {
  const TempDir dir;
  const std::string palette = make_streets(dir, 4, "40x56");
  const double expected = first_loss(palette, {});
  EXPECT_GT(expected, 0.5);
  const std::string grey = with_masks(
      dir, palette, "grey", [](const auto& mask) { return decode::encode_mask_png(mask); });
  EXPECT_EQ(first_loss(grey, {}), expected);
  const std::string wide = with_masks(dir, palette, "wide", [](auto mask) {
    std::ranges::replace(mask.labels, 255, 40000);  // 16 bits
    return decode::encode_mask_png(mask);
  });
  EXPECT_EQ(first_loss(wide, {"--ignore-index", "40000"}), expected);
  write_file(dir / "table.csv", colour_table());
  const std::string colours = with_masks(dir, palette, "colours", in_colours);
  EXPECT_EQ(first_loss(colours, {"--mask-colors", dir / "table.csv"}), expected);
  EXPECT_EQ(first_loss(palette, {"--task.colors", "camvid"}), expected) << "CamVid's own colours";
}

TEST(Segment, LearnsAndIsMeasuredAlikeOnAnyNumberOfDevices) {
  const TempDir dir;
  const std::string shard = make_streets(dir, 32, "32x64");
  const ProcessResult trained =
      millrace(segment({"--train", shard, "--val", shard, "--size", "32x64", "--epochs", "6",
                        "--run-dir", dir / "run"}));
  ASSERT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(
      trained.err,
      AllOf(HasSubstr("11 classes, by"), HasSubstr("11 classes per pixel, 32x64x3 images"),
            HasSubstr("miou="), HasSubstr("pixel_accuracy="), HasSubstr("IoU by class: Sky=")));
  const auto events = json_lines(trained.out);
  EXPECT_EQ(events.back()["monitor"], "val_miou");
  std::vector<nlohmann::json> epochs;
  for (const auto& event : events)
    if (event["event"] == "epoch") epochs.push_back(event);
  EXPECT_LT(epochs.back()["train_loss"], 0.7 * epochs.front()["train_loss"].get<double>());
  EXPECT_GT(epochs.back()["val_pixel_accuracy"], 0.5);
  EXPECT_TRUE(epochs.back().contains("val_iou/Road"));
  std::vector<nlohmann::json> scores;
  for (const std::string devices : {"1", "2"}) {
    const ProcessResult scored =
        millrace({"eval", shard, "--checkpoint", dir / "run/checkpoints/last", "--json",
                  "--devices", devices, "--precision", "fp32", "--batch-size", "4"});
    ASSERT_EQ(scored.status, 0) << scored.err;
    scores.push_back(json_lines(scored.out).front());
  }
  for (const auto& [name, value] : scores[0].items())
    if (name.find("iou") != std::string::npos || name.find("accuracy") != std::string::npos) {
      EXPECT_EQ(value, scores[1][name]) << name;
    }
  double sum = 0;
  int classes = 0;
  for (const auto& [name, value] : scores[0].items()) {
    if (!name.starts_with("val_iou/")) continue;
    sum += value.get<double>();
    ++classes;
  }
  EXPECT_NEAR(sum / classes, scores[0]["val_miou"].get<double>(), 1e-12);
  const ProcessResult text =
      millrace({"eval", shard, "--checkpoint", dir / "run/checkpoints/best"});
  EXPECT_THAT(text.out, AllOf(ContainsRegex(" miou [0-9.]+ %"), HasSubstr("\nIoU by class: Sky=")));
}

/// A checkpoint of a model that sees 40 x 72, which 32 does not divide.
class Padded : public ::testing::Test {
 protected:
  void SetUp() override {
    shard_ = make_streets(dir_, 9, "50x90");
    const ProcessResult trained = millrace(
        segment({"--train", shard_, "--val", shard_, "--size", "40x72", "--augment", "hflip",
                 "--mask-loss", "ce+dice", "--label-smoothing", "0.1", "--run-dir", dir_ / "run"}));
    ASSERT_EQ(trained.status, 0) << trained.err;
    EXPECT_THAT(trained.err, HasSubstr("40x72x3 images padded to 64x96"));
  }
  std::string checkpoint() const { return dir_ / "run/checkpoints/last"; }

  TempDir dir_;
  std::string shard_;
};

TEST_F(Padded, PredictWritesMasksInThePicturesOwnSizes) {
  // Only the pictures, in two sizes.
  make_streets(dir_, 2, "90x40", "tall");
  wds::ShardWriter writer({.pattern = dir_ / "plain-%06d.tar"});
  std::vector<decode::ImageSize> sizes;
  for (const std::string& name : {shard_, dir_ / "tall-000000.tar"}) {
    for (const wds::Sample& sample : read_samples(name)) {
      const io::Bytes image = sample.find("png")->data;
      writer.write(
          {.key = std::to_string(sizes.size()) + "-" + sample.key, .fields = {{"png", image}}});
      sizes.push_back(decode::image_size(image));
    }
  }
  writer.finish();
  const auto predict = [&](const std::string& out, const std::string& devices) {
    const ProcessResult result = millrace(
        {"predict", dir_ / "plain-000000.tar", "--checkpoint", checkpoint(), "--batch-size", "2",
         "--devices", devices, "--precision", "fp32", "--shards", dir_ / (out + "-%06d.tar")});
    ASSERT_EQ(result.status, 0) << result.err;
  };
  predict("one", "1");
  predict("two", "2");
  const auto samples = read_samples(dir_ / "one-000000.tar");
  ASSERT_EQ(samples.size(), 11U);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    EXPECT_THAT(samples[i].key, ::testing::StartsWith(std::to_string(i) + "-"));
    const io::Bytes png = samples[i].find("mask.png")->data;
    EXPECT_EQ(decode::image_size(png), sizes[i]);
    const auto mask = decode::decode_classes(png, {.classes = 11});
    EXPECT_EQ(decode::decode_classes(png, {}).labels, mask.labels);
  }
  EXPECT_EQ(read_file(dir_ / "one-000000.tar"), read_file(dir_ / "two-000000.tar"));
}

TEST_F(Padded, PicturesHaveKeysALegendAndASeededChoice) {
  const auto draw = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"eval",
                                      shard_,
                                      "--checkpoint=" + checkpoint(),
                                      "--pictures=" + (dir_ / "sheet.png"),
                                      "--num-pictures=3",
                                      "--precision=fp32",
                                      "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return read_file(dir_ / "sheet.png");
  };
  const std::string first = draw({});
  const decode::Image sheet = image_of(dir_ / "sheet.png");
  // Three samples side by side, each image | mask | predicted of 40 x 72.
  EXPECT_EQ(sheet.width, 4 + 3 * (3 * 72 + 2 + 4));
  EXPECT_GT(sheet.height, 4 + 20 + 40 + 20 + 4) << "captions, pictures, keys, legend";
  std::set<std::vector<std::uint8_t>> colours;
  for (int y = 0; y < sheet.height; ++y)
    for (int x = 0; x < sheet.width; ++x) {
      const auto row = sheet.row(y).subspan(static_cast<std::size_t>(3 * x), 3);
      colours.insert({row.begin(), row.end()});
    }
  EXPECT_TRUE(colours.contains({255, 255, 255})) << "what is ignored";
  EXPECT_EQ(draw({"--shuffle", "1"}), draw({"--shuffle", "1"}));
  EXPECT_NE(draw({"--shuffle", "1"}), draw({"--shuffle", "3"}));
  EXPECT_EQ(millrace({"eval", shard_, "--checkpoint", checkpoint(), "--shuffle", "1"}).status, 2);
}

TEST(Segment, ANumberBeyondTheClassesNamesItsSampleAndPixel) {
  const TempDir dir;
  const std::string shard = make_streets(dir, 4, "32");
  const std::vector<std::string> words =
      segment({"--train", shard, "--size", "32", "--classes", "3", "--fast-dev-run"});
  const ProcessResult failed = millrace(words);
  EXPECT_EQ(failed.status, 1);
  EXPECT_THAT(failed.err, AllOf(HasSubstr("there are 3 classes, and 255 is ignored"),
                                HasSubstr("row "), HasSubstr("0000000")));
  const std::string high = with_masks(dir, shard, "high", [](auto mask) {
    mask.labels[33] = 12;
    return decode::encode_mask_png(mask);
  });
  const ProcessResult counted =
      millrace(segment({"--train", high, "--size", "32", "--fast-dev-run"}));
  EXPECT_EQ(counted.status, 0) << counted.err;
  EXPECT_THAT(counted.err, HasSubstr("13 classes, counted in the masks of 4 samples"));
}

TEST(Segment, UsageErrorsNameWhatIsAccepted) {
  const auto refused = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"train", "--fake-data", "4", "--fast-dev-run"});
    const ProcessResult result = millrace(more);
    EXPECT_EQ(result.status, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(refused({"--model", "resnet18", "--task", "segment"}), HasSubstr("--model unet"));
  EXPECT_THAT(refused({"--model", "unet", "--size", "360x"}), HasSubstr("HEIGHTxWIDTH"));
  EXPECT_THAT(refused({"--model", "unet", "--task", "segment", "--mask-loss", "bce"}),
              HasSubstr("mask_loss"));
  const TempDir dir;
  write_file(dir / "table", "# colours\n1 2 3 Sky\n1 2 300 Road\n");
  EXPECT_THAT(refused({"--model", "unet", "--mask-colors", dir / "table"}), HasSubstr("line 3"));
  EXPECT_THAT(refused({"--model", "unet", "--mask-colors", "camvid", "--classes", "5"}),
              HasSubstr("more classes than --classes 5"));
}

TEST(Dense, MasksAndDepthsStandAloneOrTogether) {
  const TempDir dir;
  const std::string scenes = make_scene_set(dir, 4, 32);
  for (const auto& [task, measured, missing] :
       std::vector<std::array<std::string, 3>>{{"mask", "val_iou", "val_rmse"},
                                               {"depth", "val_rmse", "val_iou"},
                                               {"segment-depth", "val_miou", "val_iou"}}) {
    const ProcessResult result = millrace({"train", "--model", "unet(width=16)", "--task", task,
                                           "--size", "24x32", "--train", scenes, "--val", scenes,
                                           "--batch-size", "4", "--json", "--run-dir", dir / task});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("24x32x3 images padded to 32x32"));
    const auto events = json_lines(result.out);
    const auto& epoch = events[events.size() - 2];
    EXPECT_TRUE(epoch.contains(measured)) << epoch;
    EXPECT_FALSE(epoch.contains(missing)) << epoch;
    const ProcessResult predicted =
        millrace({"predict", scenes, "--checkpoint", dir / (task + "/checkpoints/last"),
                  "--batch-size", "2", "--shards", dir / (task + "-%06d.tar")});
    ASSERT_EQ(predicted.status, 0) << predicted.err;
    const wds::Sample sample = read_samples(dir / (task + "-000000.tar")).front();
    EXPECT_EQ(sample.find("mask.png") != nullptr, task != "depth");
    EXPECT_EQ(sample.find("depth.png") != nullptr, task != "mask");
  }
}

TEST(RectangularSizes, FitEveryModelCommandAndTransform) {
  const TempDir dir;
  const std::string shards = make_set(dir, 8, 8);
  for (const std::string augment :
       {"none", "flip", "crop-flip", "rrc-flip", "rcrop(padding=1), jitter(0.2)"}) {
    const std::string model = augment == "none" ? "resnet18(stem=3x3)" : "lenet";
    const ProcessResult result = millrace(
        {"train", "--model", model, "--size", "14x18", "--channels", "3", "--augment", augment,
         "--train", shards, "--val", shards, "--batch-size", "4", "--run-dir", dir / augment});
    ASSERT_EQ(result.status, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("14x18x3 images"));
  }
  EXPECT_EQ(millrace({"eval", shards, "--checkpoint", dir / "rrc-flip/checkpoints/last"}).status,
            0);
  EXPECT_EQ(millrace({"bench", shards, "--size", "20x12", "--seconds", "0.1"}).status, 0);
  const ProcessResult viewed =
      millrace({"view", shards, "-o", dir / "v.png", "--size", "96x150", "--count", "1", "--json"});
  ASSERT_EQ(viewed.status, 0) << viewed.err;
  EXPECT_EQ(json_lines(viewed.out).front()["width"], 4 + 150 + 4);
}

TEST(ViewMasks, ShowsMasksOfAnyDepthByClassWithALegend) {
  const TempDir dir;
  const std::string palette = make_streets(dir, 1, "96x120");
  const auto view = [&](const std::string& shard, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"view",   shard,    "-o",       dir / "v.png", "--force",
                                      "--size", "96x120", "--fields", "png,mask.png"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return image_of(dir / "v.png");
  };
  const decode::Image named = view(palette, {});
  const std::string wide = with_masks(dir, palette, "wide", [](auto mask) {
    mask.labels[0] = 300;  // 16 bits
    return decode::encode_mask_png(mask);
  });
  const decode::Image plain = view(wide, {});
  EXPECT_EQ(plain.width, named.width);
  EXPECT_LT(plain.height, named.height) << "a legend where the classes have names";
  int differing = 0;
  for (int y = 0; y < 96; ++y)
    for (int x = 126; x < 245; ++x)
      differing += named.row(y + 4)[static_cast<std::size_t>(3 * x)] !=
                           plain.row(y + 4)[static_cast<std::size_t>(3 * x)]
                       ? 1
                       : 0;
  EXPECT_LE(differing, 1) << "classes have the colours of their numbers";
  EXPECT_EQ(view(palette, {"--raw"}).width, named.width);
}

TEST(CreateSegments, AreStreetsOfElevenClassesAndSomeOfNone) {
  const TempDir dir;
  const std::string shard = make_streets(dir, 20, "36x48");
  EXPECT_THAT(read_file(dir / "street-classes.txt"),
              ::testing::StartsWith("Sky\nBuilding\nPole\n"));
  std::set<std::int64_t> seen;
  for (const wds::Sample& sample : read_samples(shard)) {
    const auto mask = decode::decode_classes(sample.find("mask.png")->data, {.classes = 11});
    EXPECT_EQ(decode::image_size(sample.find("png")->data),
              (decode::ImageSize{.height = 36, .width = 48}));
    EXPECT_EQ(mask.height, 36);
    seen.insert(mask.labels.begin(), mask.labels.end());
  }
  EXPECT_EQ(seen, (std::set<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 255}));
  EXPECT_THAT(
      millrace({"create", dir / "x-%06d.tar", "--synthetic", "segments", "--size", "4x80"}).err,
      Not(::testing::IsEmpty()));
}

}  // namespace
}  // namespace millrace::testing
