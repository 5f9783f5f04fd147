#include "decode/jpeg_restarts.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "decode/encode.h"
#include "decode/image.h"
#include "decode/image_decoder.h"
#include "decode/transforms/random_resized_crop.h"
#include "decode/transforms/resize.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace {

using decode::add_restarts;
using decode::decode_image;
using decode::Image;
using testing::build_jpeg;
using testing::fault_of;
using testing::JpegShape;
using testing::pixels_of;
using namespace std::string_literals;

/// Fails if `recoded` differs from `file` in a pixel, whole, reduced or in crops.
void expect_same_pixels(const io::Bytes& file, const io::Bytes& recoded, const std::string& name) {
  ASSERT_EQ(pixels_of(decode_image(recoded)), pixels_of(decode_image(file))) << name;
  for (const int size : {7, 17, 40}) {
    const auto small = testing::plain_decoder({decode::Resize{{size, size}}});
    ASSERT_EQ(testing::decoded(small, recoded), testing::decoded(small, file)) << name << size;
  }
  const auto crop = testing::plain_decoder({decode::RandomResizedCrop{.size = 24}});
  for (std::uint64_t i = 0; i < 20; ++i)
    ASSERT_EQ(testing::decoded(crop, recoded, {.index = i}),
              testing::decoded(crop, file, {.index = i}))
        << name << ", crop " << i;
}

/// The interval that the file's DRI segment says; 0 without one.
int interval_of(const io::Bytes& file) {
  const std::string_view text = file.text();
  const std::size_t at = text.find("\xff\xdd\0\x04"s);
  if (at == std::string_view::npos) return 0;
  return static_cast<unsigned char>(text[at + 4]) * 256 + static_cast<unsigned char>(text[at + 5]);
}

bool is_baseline(const io::Bytes& file) {
  return file.text().find("\xff\xc0\0"s) != std::string_view::npos &&
         file.text().find("\xff\xc2\0"s) == std::string_view::npos;
}

TEST(JpegRestarts, KeepEveryPixelOfEveryKind) {
  const std::vector<JpegShape> shapes = {{.sampling = {1, 1}},
                                         {.sampling = {2, 1}},
                                         {.sampling = {2, 2}},
                                         {.sampling = {1, 2}},
                                         {.sampling = {4, 1}},
                                         {.sampling = {2, 2}, .progressive = true},
                                         {.sampling = {1, 1}, .progressive = true, .quality = 40},
                                         {.sampling = {1, 1}, .inks = true},
                                         {.sampling = {2, 2}, .inks = true, .inks_as_ycck = true},
                                         {.sampling = {2, 2}, .restart_rows = 1},
                                         {.sampling = {2, 2}, .restart_interval = 5}};
  for (const auto& [height, width] : {std::pair{61, 83}, {150, 203}, {17, 400}, {300, 9}}) {
    const Image image = testing::photo(height, width, 4);
    for (const JpegShape& shape : shapes) {
      const std::string name =
          std::to_string(width) + " wide, kind " + std::to_string(&shape - shapes.data());
      const io::Bytes file = build_jpeg(image, shape);
      const io::Bytes recoded = add_restarts(file);
      EXPECT_TRUE(is_baseline(recoded)) << name;
      expect_same_pixels(file, recoded, name);
      if (HasFailure()) return;
      EXPECT_EQ(add_restarts(recoded).text(), recoded.text()) << name << ": its result is itself";
    }
    expect_same_pixels(build_jpeg(testing::grey(image), {.sampling = {1, 1}}),
                       add_restarts(build_jpeg(testing::grey(image), {.sampling = {1, 1}})),
                       "grey");
  }
}

TEST(JpegRestarts, StandAboutEvery128PixelsAndDivideTheRow) {
  const auto interval = [](int width, const JpegShape& shape) {
    return interval_of(add_restarts(build_jpeg(testing::photo(40, width, 1), shape)));
  };
  EXPECT_EQ(interval(500, {}), 8) << "of 32 MCUs";
  EXPECT_EQ(interval(448, {}), 7) << "of 28";
  EXPECT_EQ(interval(375, {}), 8) << "of 24";
  EXPECT_EQ(interval(490, {}), 31) << "of 31, a prime number: the row";
  EXPECT_EQ(interval(100, {}), 7) << "of 7: the row";
  EXPECT_EQ(interval(10, {}), 1);
  EXPECT_EQ(interval(500, {.sampling = {1, 1}}), 21) << "of 63 MCUs of 8 pixels";
}

TEST(JpegRestarts, CostAboutOnePercent) {
  const io::Bytes file = decode::encode_jpeg(testing::photo(375, 500, 2));
  const auto before = static_cast<double>(file.size());
  EXPECT_LT(static_cast<double>(add_restarts(file).size()) / before, 1.02);
}

TEST(JpegRestarts, KeepSegmentsAndComments) {
  std::string text(build_jpeg(testing::photo(40, 56, 1), {.progressive = true}).text());
  const std::string exif = "\xff\xe1\0\x0c"s + "Exif\0\0abcd"s;
  const std::string icc = "\xff\xe2\0\x12"s + "ICC_PROFILE\0\1\1xy"s;
  const std::string comment = "\xff\xfe\0\x07hello"s;
  text.insert(20, exif + icc + comment);  // after JFIF's
  const std::string recoded(add_restarts(io::Bytes::copy_of(text)).text());
  EXPECT_EQ(recoded.substr(0, 20 + exif.size() + icc.size() + comment.size()),
            text.substr(0, 20 + exif.size() + icc.size() + comment.size()));
  EXPECT_EQ(recoded.find("JFIF"), recoded.rfind("JFIF")) << "no second one";
}

// Without a JFIF segment the colours follow from Adobe's, or from the components' numbers.
TEST(JpegRestarts, KeepTheColoursOfAFileWithoutJfif) {
  std::string text(build_jpeg(testing::photo(40, 56, 1), {.sampling = {1, 1}}).text());
  text.erase(2, 18);
  const std::string adobe = "\xff\xee\0\x0e"s + "Adobe\0\x64\0\0\0\0\0"s;  // stored as RGB
  for (const std::string& more : {std::string(), adobe}) {
    std::string one = text;
    one.insert(2, more);
    const io::Bytes file = io::Bytes::copy_of(one);
    expect_same_pixels(file, add_restarts(file), "with " + std::to_string(more.size()));
  }
}

TEST(JpegRestarts, AreNotAddedToWhatCannotKeepItsPixels) {
  const Image image = testing::photo(90, 120, 3);
  const io::Bytes file = build_jpeg(image, {});
  const auto fault = [](const io::Bytes& bad) { return fault_of([&] { add_restarts(bad); }); };
  EXPECT_EQ(fault(decode::encode_png(image)), ErrorCode::kUnsupported);
  EXPECT_EQ(fault(io::Bytes()), ErrorCode::kUnsupported);
  EXPECT_EQ(fault(build_jpeg(image, {.arithmetic = true})), ErrorCode::kUnsupported);
  const std::size_t frame = file.text().find("\xff\xc0");
  EXPECT_EQ(fault(testing::flip(file, frame + 4, 8 ^ 12)), ErrorCode::kUnsupported) << "12 bits";
  EXPECT_EQ(fault(testing::cut(file, file.size() / 2)), ErrorCode::kTruncated);
  const std::string half(file.text().substr(0, file.size() / 2));
  EXPECT_EQ(fault(io::Bytes::copy_of(half + "\xff\xd9")), ErrorCode::kCorrupt);
  EXPECT_EQ(fault_of([&] { add_restarts(file, {.limits = {.max_pixels = 90 * 120 - 1}}); }),
            ErrorCode::kExhausted);
  const std::string scans(build_jpeg(image, {.progressive = true}).text());
  const auto without_last =
      io::Bytes::copy_of(scans.substr(0, scans.rfind("\xff\xda")) + "\xff\xd9");
  ASSERT_NO_THROW(decode_image(without_last));
  EXPECT_EQ(fault(without_last), ErrorCode::kUnsupported) << "libjpeg smooths what is missing";
}

TEST(JpegRestarts, AddedToADamagedFileAreAFaultOrKeepItsPixels) {
  for (const bool progressive : {false, true}) {
    const io::Bytes file = build_jpeg(testing::photo(45, 60, 1), {.progressive = progressive});
    for (std::size_t offset = 0; offset < file.size(); offset += 1 + file.size() / 400) {
      for (const unsigned mask : {0x01U, 0x80U, 0xFFU}) {
        const io::Bytes bad = testing::flip(file, offset, mask);
        io::Bytes recoded;
        if (fault_of([&] { recoded = add_restarts(bad); })) continue;
        ASSERT_EQ(pixels_of(decode_image(recoded)), pixels_of(decode_image(bad))) << offset;
      }
    }
  }
}

io::Bytes bytes_in(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return io::Bytes::copy_of(std::string(std::istreambuf_iterator<char>(in), {}));
}

TEST(JpegRestarts, KeepThePixelsOfPhotographs) {
  const char* folder = std::getenv("MILLRACE_TEST_PHOTOS");
  if (folder == nullptr) GTEST_SKIP() << "MILLRACE_TEST_PHOTOS names no folder of JPEGs";
  int files = 0;
  int refused = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    const std::string suffix = entry.path().extension();
    if (suffix != ".jpg" && suffix != ".jpeg" && suffix != ".JPG") continue;
    const io::Bytes file = bytes_in(entry.path());
    io::Bytes recoded;
    ++files;
    if (fault_of([&] { recoded = add_restarts(file); })) {
      ++refused;
      continue;
    }
    expect_same_pixels(file, recoded, entry.path());
    if (HasFailure()) return;
  }
  RecordProperty("files", files);
  EXPECT_LT(refused, files) << "of " << files;
}

}  // namespace
}  // namespace millrace
