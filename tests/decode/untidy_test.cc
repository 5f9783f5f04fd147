// Files that are odd but intact are decoded and reported as untidy; damaged ones are refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <span>

#include "decode/encode.h"
#include "decode/image.h"
#include "decode/transforms/resize.h"
#include "io/base/hash.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"
#include "tests/decode/png_builder.h"

namespace millrace {
namespace {

using decode::decode_image;
using decode::Image;
using decode::Tidiness;
using testing::build_jpeg;
using testing::fault_of;
using ::testing::HasSubstr;
using testing::pixels_of;
using namespace std::string_literals;

constexpr std::size_t kAfterJfif = 20;

struct Case {
  std::string name;
  std::function<std::string(std::string)> change;
  std::string untidy;
};

std::string inserted(std::string text, std::size_t at, const std::string& bytes) {
  return text.insert(at, bytes);
}

std::size_t scan_of(const std::string& jpeg) { return jpeg.find("\xff\xda"); }

std::string with_adobe(std::string jpeg, char transform) {
  jpeg.erase(2, kAfterJfif - 2);  // a JFIF marker would already define the colours
  return inserted(jpeg, 2, "\xff\xee\0\x0e"s + "Adobe\0\x64\0\0\0\0"s + transform);
}

std::vector<Case> untidy_jpegs() {
  return {{"bytes before a header's marker",
           [](auto t) { return inserted(t, kAfterJfif, "\0\x01junk"s); }, "extraneous bytes"},
          {"a comment of length 0", [](auto t) { return inserted(t, kAfterJfif, "\xff\xfe\0\0"s); },
           "comment"},
          {"a comment of length 1, and its text",
           [](auto t) { return inserted(t, 2, "\xff\xfe\0\x01text"s); }, "extraneous bytes"},
          {"an application segment of length 0",
           [](auto t) { return inserted(t, kAfterJfif, "\xff\xe5\0\0"s); }, "comment"},
          {"a comment shorter than its text",
           [](auto t) { return inserted(t, 2, "\xff\xfe\0\x04too long"s); }, "extraneous bytes"},
          {"an unknown revision of JFIF", [](auto t) { return (t[11] = 9, t); }, "JFIF revision"},
          {"an unknown colour transform of Adobe's", [](auto t) { return with_adobe(t, 9); },
           "Adobe color transform"},
          {"zeros for the spectral selection",
           [](auto t) { return (t[scan_of(t) + 12] = '\0', t); }, "Invalid SOS parameters"}};
}

TEST(Untidy, AJpegWhosePixelsAreAllThereIsDecodedAndNamed) {
  const io::Bytes tidy = build_jpeg(testing::photo(40, 56, 1), {});
  const Image want = decode_image(tidy);
  EXPECT_EQ(want.untidy, "");
  const auto decoder = testing::plain_decoder({decode::Resize{{40, 56}}});
  std::vector<std::byte> slot(decoder.output().num_bytes());
  EXPECT_EQ(decoder.decode(tidy, {}, slot), Tidiness::kTidy);
  for (const Case& one : untidy_jpegs()) {
    SCOPED_TRACE(one.name);
    const auto file = io::Bytes::copy_of(one.change(std::string(tidy.text())));
    ASSERT_EQ(fault_of([&] { decode_image(file); }), std::nullopt);
    const Image image = decode_image(file);
    EXPECT_EQ(pixels_of(image), pixels_of(want));
    EXPECT_THAT(image.untidy, HasSubstr(one.untidy));
    EXPECT_EQ(decoder.decode(file, {}, slot), Tidiness::kUntidy);
  }
  EXPECT_EQ(decoder.decode(tidy, {}, slot), Tidiness::kTidy) << "the next file starts anew";
}

TEST(Untidy, BytesBetweenTheScansOfAJpegAreNotDamage) {
  const io::Bytes tidy = build_jpeg(testing::photo(40, 56, 1), {.progressive = true});
  const std::string text(tidy.text());
  const std::size_t second = text.find("\xff\xda", scan_of(text) + 1);
  const std::size_t tables = text.rfind("\xff\xc4", second);
  const Image image =
      decode_image(io::Bytes::copy_of(inserted(text, tables, std::string(40, '\x12'))));
  EXPECT_EQ(pixels_of(image), pixels_of(decode_image(tidy)));
  EXPECT_THAT(image.untidy, HasSubstr("extraneous bytes before marker 0xc4"));
}

TEST(Untidy, AJpegThatLostPixelsIsDamaged) {
  const Image photo = testing::photo(90, 120, 2);
  const std::string plain(build_jpeg(photo, {}).text());
  const std::string restarts(build_jpeg(photo, {.restart_rows = 1}).text());
  const std::size_t middle = (scan_of(plain) + plain.size()) / 2;
  std::string ones;  // no code is all ones; libjpeg-turbo checks for them only near the end
  for (int i = 0; i < 30; ++i) ones += "\xff\0"s;
  const std::size_t restart = restarts.find("\xff\xd1");
  ASSERT_NE(restart, std::string::npos);
  const std::vector<std::pair<std::string, std::string>> damaged = {
      {"data that ends before its blocks do",
       std::string(plain).erase(middle, plain.size() - 2 - middle)},
      {"codes that there are not", std::string(plain).replace(plain.size() - 62, 60, ones)},
      {"a restart marker out of turn", std::string(restarts).replace(restart, 2, "\xff\xd6")},
      {"data left before a restart marker", inserted(restarts, restart, std::string(40, '\x12'))},
      {"scans that contradict each other",
       std::string(testing::jpeg_with_scans(build_jpeg(photo, {.progressive = true}), 1).text())}};
  for (const auto& [name, text] : damaged) {
    const auto file = io::Bytes::copy_of(text);
    EXPECT_EQ(fault_of([&] { decode_image(file); }), ErrorCode::kCorrupt) << name;
    EXPECT_NE(decode_image(file, {.tolerate_truncated = true}).untidy, "") << name;
  }
}

std::string big_endian(std::uint32_t value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift);
  return bytes;
}

std::string png_chunk(const std::string& type, const std::string& body) {
  const std::string named = type + body;
  return big_endian(static_cast<std::uint32_t>(body.size())) + named +
         big_endian(crc32(std::as_bytes(std::span(named))));
}

/// The PNG with a header that claims `height` rows, at most as many as it has.
std::string with_height(const std::string& png, std::uint32_t height) {
  const std::string body = png.substr(16, 4) + big_endian(height) + png.substr(24, 5);
  return png.substr(0, 8) + png_chunk("IHDR", body) + png.substr(33);
}

TEST(Untidy, APngWhosePixelsAreAllThereIsDecodedAndNamed) {
  const Image photo = testing::photo(40, 56, 3);
  const std::string png(decode::encode_png(photo).text());
  const std::string comment = png_chunk("tEXt", "Comment\0made up"s);
  std::string bad_comment = comment;
  bad_comment.back() = static_cast<char>(bad_comment.back() ^ 1);
  const std::vector<std::pair<std::string, std::string>> untidy = {
      {"a comment first", inserted(png, 8, comment)},
      {"a comment whose checksum is wrong", inserted(png, 33, bad_comment)}};
  EXPECT_EQ(decode_image(io::Bytes::copy_of(inserted(png, 33, comment))).untidy, "");
  for (const auto& [name, text] : untidy) {
    const auto file = io::Bytes::copy_of(text);
    ASSERT_EQ(fault_of([&] { decode_image(file); }), std::nullopt) << name;
    EXPECT_EQ(pixels_of(decode_image(file)), pixels_of(photo)) << name;
    EXPECT_NE(decode_image(file).untidy, "") << name;
  }
  const Image shorter = decode_image(io::Bytes::copy_of(with_height(png, 30)));
  EXPECT_EQ(pixels_of(shorter), testing::window_of(photo, 0, 0, 30, 56));
  EXPECT_NE(shorter.untidy, "") << "more rows than the header says";
}

TEST(Untidy, APngWhoseTransparencyIsDamagedIsRefused) {
  const std::string png(testing::build_png({.colour_type = 3, .transparent = true}, 4).file.text());
  const std::size_t transparency = png.find("tRNS");
  ASSERT_NE(transparency, std::string::npos);
  for (const std::size_t at : {transparency + 5, png.find("PLTE") + 5}) {
    std::string bad = png;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    EXPECT_EQ(fault_of([&] { decode_image(io::Bytes::copy_of(bad)); }), ErrorCode::kCorrupt);
  }
  EXPECT_TRUE(fault_of([&] {
    decode_image(io::Bytes::copy_of(png.substr(0, 8) + png_chunk("tRNS", "\x01") + png.substr(8)));
  }));
}

}  // namespace
}  // namespace millrace
