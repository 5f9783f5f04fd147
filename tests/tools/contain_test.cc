// --fit contain end to end: pictures that are not square, for every task that predicts for the
// whole picture.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>

#include "decode/class_mask.h"
#include "decode/encode.h"
#include "tests/decode/pixels_of.h"
#include "tests/tools/support.h"
#include "wds/shard_writer.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

decode::Image grey_picture(int height, int width, const std::function<int(int y, int x)>& level) {
  std::vector<std::byte> pixels;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) pixels.push_back(static_cast<std::byte>(level(y, x)));
  return {height, width, 1, io::Bytes::take(std::move(pixels))};
}

/// Bright rectangles at other places in each picture, and what they are masks of.
class Rectangles {
 public:
  Rectangles(int height, int width, std::uint32_t index)
      : height_(height),
        width_(width),
        top_(static_cast<int>(index * 7 % 11) * height / 20),
        left_(static_cast<int>(index * 5 % 13) * width / 22) {}

  bool inside(int y, int x) const {
    return y >= top_ && y < top_ + height_ / 2 && x >= left_ && x < left_ + width_ / 2;
  }
  io::Bytes png(int set, int unset) const {
    return decode::encode_png(
        grey_picture(height_, width_, [&](int y, int x) { return inside(y, x) ? set : unset; }));
  }
  std::vector<wds::WriterField> fields() const {
    return {{"png", png(220, 30)}, {"mask.png", png(1, 0)}, {"depth.png", png(200, 80)}};
  }

 private:
  int height_;
  int width_;
  int top_;
  int left_;
};

std::string make_rectangles(const TempDir& dir, const std::string& name, int count, int height,
                            int width) {
  wds::ShardWriter writer({.pattern = dir / (name + "-%06d.tar")});
  for (int i = 0; i < count; ++i)
    writer.write({.key = std::to_string(1000 + i),
                  .fields = Rectangles(height, width, static_cast<std::uint32_t>(i)).fields()});
  writer.finish();
  return dir / (name + "-000000.tar");
}

ProcessResult train_unet(const TempDir& dir, const std::string& task, const std::string& shard,
                         const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      "train",   "--model", "unet(width=16)", "--task", task,          "--train", shard,
      "--val",   shard,     "--optimizer",    "adam",   "--lr",        "0.002",   "--json",
      "--size",  "32",      "--batch-size",   "8",      "--precision", "fp32",    "--run-dir",
      dir / task};
  words.insert(words.end(), more.begin(), more.end());
  return millrace(words);
}

/// What was predicted for the shard's samples, of one field.
std::vector<decode::Image> predicted_pictures(const TempDir& dir, const std::string& task,
                                              const std::string& shard, const std::string& field) {
  const ProcessResult result =
      millrace({"predict", shard, "--checkpoint", dir / (task + "/checkpoints/last"), "--force",
                "--precision", "fp32", "--shards", dir / ("out-" + task + "-%06d.tar")});
  EXPECT_EQ(result.status, 0) << result.err;
  std::vector<decode::Image> images;
  for (const wds::Sample& sample : read_samples(dir / ("out-" + task + "-000000.tar"))) {
    const io::Bytes png = sample.find(field)->data;
    if (task != "segment") {
      images.push_back(decode::decode_image(png));
      continue;
    }
    const auto mask = decode::decode_classes(png, {});
    images.push_back(grey_picture(mask.height, mask.width, [&](int y, int x) {
      return static_cast<int>(mask.labels[static_cast<std::size_t>(y * mask.width + x)]);
    }));
  }
  return images;
}

/// The stored pictures of a field.
std::vector<decode::Image> stored_pictures(const std::string& shard, const std::string& field) {
  std::vector<decode::Image> images;
  for (const wds::Sample& sample : read_samples(shard))
    images.push_back(decode::decode_image(sample.find(field)->data));
  return images;
}

/// The shard's pictures of 16 x 32 in the middle of 32 x 32: black, and ignored in the mask.
std::string make_padded(const TempDir& dir, const std::string& shard) {
  wds::ShardWriter writer({.pattern = dir / "padded-%06d.tar"});
  for (const wds::Sample& sample : read_samples(shard)) {
    const auto padded = [&](const std::string& field, int around) {
      const decode::Image image = decode::decode_image(sample.find(field)->data);
      return decode::encode_png(grey_picture(32, 32, [&](int y, int x) {
        if (y < 8 || y >= 24) return around;
        return static_cast<int>(image.row(y - 8)[static_cast<std::size_t>(x)]);
      }));
    };
    writer.write({.key = sample.key,
                  .fields = {{"png", padded("png", 0)}, {"mask.png", padded("mask.png", 255)}}});
  }
  writer.finish();
  return dir / "padded-000000.tar";
}

std::vector<std::uint8_t> middle_rows(const decode::Image& square) {
  std::vector<std::uint8_t> rows;
  for (int y = 8; y < 24; ++y) rows.insert(rows.end(), square.row(y).begin(), square.row(y).end());
  return rows;
}

// Both sets look the same to the model, and what it predicts for one is in the middle of the other.
TEST(Contain, WhatIsPredictedLiesInThePicture) {
  const TempDir dir;
  const std::string shard = make_rectangles(dir, "half", 8, 16, 32);
  const std::string squares = make_padded(dir, shard);
  const std::string tall = make_rectangles(dir, "tall", 2, 51, 23);
  std::set<std::uint8_t> values;
  for (const std::string task : {"segment", "mask-depth"}) {
    const ProcessResult trained = train_unet(dir, task, shard, {"--epochs", "3"});
    ASSERT_EQ(trained.status, 0) << trained.err;
    EXPECT_THAT(trained.err, HasSubstr("filling 50 % of 32x32"));
    const std::string field = task == "segment" ? "mask.png" : "depth.png";
    const auto wide = predicted_pictures(dir, task, shard, field);
    const auto padded = predicted_pictures(dir, task, squares, field);
    for (std::size_t i = 0; i < wide.size(); ++i) {
      EXPECT_EQ(wide[i].height, 16);
      EXPECT_EQ(middle_rows(padded[i]), pixels_of(wide[i])) << task;
      for (const std::uint8_t value : pixels_of(wide[i])) values.insert(value);
    }
    for (const decode::Image& image : predicted_pictures(dir, task, tall, field)) {
      EXPECT_EQ(image.height, 51);
      EXPECT_EQ(image.width, 23);
    }
  }
  EXPECT_GT(values.size(), 1U) << "pictures with something in them";
}

// Pictures of 16 x 32 are not resized, so that what is predicted is what was measured.
TEST(Contain, PaddingIsNotMeasured) {
  const TempDir dir;
  const std::string shard = make_rectangles(dir, "half", 8, 16, 32);
  const ProcessResult trained = train_unet(dir, "mask", shard, {"--epochs", "2"});
  ASSERT_EQ(trained.status, 0) << trained.err;
  double both = 0, wrong = 0, neither = 0;
  const auto masks = predicted_pictures(dir, "mask", shard, "mask.png");
  const auto wanted = stored_pictures(shard, "mask.png");
  for (std::size_t i = 0; i < masks.size(); ++i)
    for (std::size_t at = 0; at < masks[i].pixels.size(); ++at) {
      const bool set = masks[i].pixels.span()[at] != std::byte{0};
      const bool should = wanted[i].pixels.span()[at] != std::byte{0};
      both += set && should ? 1 : 0;
      neither += !set && !should ? 1 : 0;
      wrong += set != should ? 1 : 0;
    }
  const ProcessResult scored =
      millrace({"eval", shard, "--checkpoint", dir / "mask/checkpoints/last", "--precision", "fp32",
                "--json", "--pictures", dir / "sheet.png", "--num-pictures", "2"});
  ASSERT_EQ(scored.status, 0) << scored.err;
  EXPECT_NEAR(json_lines(scored.out).front()["val_iou"].get<double>(),
              (both / (both + wrong) + neither / (neither + wrong)) / 2, 1e-12);
  const auto sheet = decode::decode_image(io::Bytes::copy_of(read_file(dir / "sheet.png")));
  // Pictures of 16 x 32, enlarged three times, without their padding.
  EXPECT_EQ(sheet.width, 4 + 2 * (3 * 97 - 1 + 4));
  EXPECT_LT(sheet.height, 96 + 40);
}

/// The first step's loss.
double loss_of_first_step(const TempDir& dir, const std::string& task, const std::string& shard,
                          const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"--log-steps", "1", "--shuffle", "0", "--epochs", "1"};
  words.insert(words.end(), more.begin(), more.end());
  const ProcessResult result = train_unet(dir, task, shard, words);
  EXPECT_EQ(result.status, 0) << result.err;
  return result.status == 0 ? json_lines(result.out).front()["loss"].get<double>() : -1.0;
}

TEST(Contain, PaddingOfAMaskOfClassesIsAsIfItWereStoredAsIgnored) {
  const TempDir dir;
  const std::string shard = make_rectangles(dir, "half", 8, 16, 32);
  const std::vector<std::string> classes = {"--classes", "2"};
  const double contained = loss_of_first_step(dir, "segment", shard, classes);
  const TempDir other;
  EXPECT_EQ(loss_of_first_step(other, "segment", make_padded(dir, shard), classes), contained);
  // Without an ignored number padding is told apart all the same.
  const TempDir third;
  EXPECT_EQ(loss_of_first_step(third, "segment", shard, {"--classes", "2", "--ignore-index", "-1"}),
            contained);
}

TEST(Contain, SqueezeMayBeChosenAndWhatCutsIsRefused) {
  const TempDir dir;
  const std::string shard = make_rectangles(dir, "half", 8, 16, 32);
  const TempDir squeezed;
  const TempDir contained;
  EXPECT_NE(loss_of_first_step(squeezed, "depth", shard, {"--fit", "squeeze"}),
            loss_of_first_step(contained, "depth", shard, {"--fit", "letterbox"}));
  for (const std::string fit : {"cover", "none"}) {
    const ProcessResult refused = train_unet(dir, "depth", shard, {"--fit", fit});
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("--fit " + fit));
    EXPECT_THAT(refused.err, HasSubstr("--fit contain or squeeze"));
  }
  const ProcessResult refused = millrace({"train", "--train", shard, "--model", "lenet", "--fit",
                                          "contain", "--eval-resize", "40", "--fast-dev-run"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--fit contain shows the whole picture"));
}

}  // namespace
}  // namespace millrace::testing
