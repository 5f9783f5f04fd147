#include "decode/codec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "decode/encode.h"
#include "decode/image_decoder.h"
#include "decode/transforms/center_crop.h"
#include "io/base/error.h"
#include "tests/decode/photo.h"
#include "tests/decode/pixels_of.h"

namespace millrace::decode {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// "G" and the size as two letters ('0' + n), then one byte per pixel.
Codec letters(int claimed = 0) {
  return {.name = "LETTERS",
          .suffixes = {"let", "lt"},
          .sniff =
              [](std::span<const std::byte> file) {
                return file.size() > 2 && file[0] == std::byte{'G'};
              },
          .read_header =
              [claimed](std::span<const std::byte> file, const HeaderOptions&) {
                const int side = claimed > 0 ? claimed : static_cast<int>(file[1]) - '0';
                return ImageHeader{.height = side, .width = side, .channels = 1, .orientation = 3};
              },
          .decode =
              [](std::span<const std::byte> file, const ImageHeader& header, const PixelRequest&,
                 CodecScratch&) {
                return PixelView{.data = reinterpret_cast<const std::uint8_t*>(file.data()) + 2,
                                 .stride = static_cast<std::size_t>(header.width),
                                 .box = {0, 0, header.width, header.height},
                                 .channels = 1};
              }};
}

std::shared_ptr<const CodecTable> with(Codec codec) {
  CodecTable table = *standard_codecs();
  table.add(std::move(codec));
  return std::make_shared<const CodecTable>(std::move(table));
}

io::Bytes bytes(std::string_view text) { return io::Bytes::copy_of(std::string(text)); }

std::string message_of(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.message();
  }
  return "nothing thrown";
}

TEST(CodecTable, ListsTheLibrarysFormatsAndTheirSuffixes) {
  const CodecTable& table = *standard_codecs();
  EXPECT_EQ(table.suffixes(), "jpg;jpeg;png;ppm;pgm;pbm;pnm;webp;tif;tiff");
  EXPECT_THAT(table.written_formats(), ElementsAre("jpg", "png", "ppm", "webp"));
  ASSERT_NE(table.of_suffix("pbm"), nullptr);
  EXPECT_EQ(table.of_suffix("pbm")->name, "PNM");
  EXPECT_EQ(table.of_suffix("gif"), nullptr);
}

TEST(CodecTable, WritesFilesThatItKnowsByTheirContent) {
  const Image grey = testing::grey(testing::photo(9, 7, 1));
  const std::vector<std::pair<std::string, std::string>> names = {
      {"jpeg", "jpg"}, {"png", "png"}, {"ppm", "pgm"}};
  for (const auto& [format, suffix] : names) {
    const EncodedImage file = standard_codecs()->encode(grey, format);
    EXPECT_EQ(file.suffix, suffix);
    EXPECT_EQ(standard_codecs()->of_content(file.data.span()),
              standard_codecs()->of_suffix(suffix));
  }
  EXPECT_THAT(message_of([&] { standard_codecs()->encode(grey, "gif"); }),
              HasSubstr("jpg, png, ppm"));
}

TEST(CodecTable, RefusesHalvesAndDoubles) {
  CodecTable table = *standard_codecs();
  Codec half = letters();
  half.decode = nullptr;
  EXPECT_THROW(table.add(half), Error);
  Codec doubled = letters();
  doubled.suffixes.emplace_back("png");
  EXPECT_THAT(message_of([&] { table.add(doubled); }), HasSubstr("png"));
  table.add(letters());
  EXPECT_THAT(message_of([&] { table.add(letters()); }), HasSubstr("LETTERS"));
}

TEST(CodecTable, GivesAUsersFormatCropsTurnsAndColours) {
  const auto codecs = with(letters());
  const Image turned =
      decode_image(bytes("G2abcd"), {.channels = 3, .apply_orientation = true, .codecs = codecs});
  EXPECT_EQ(turned.pixels.text(), "dddcccbbbaaa");  // orientation 3 is a rotation by 180 degrees
  const ImageDecoder decoder({.transforms = {CenterCrop{{1, 1}}},
                              .channels = 1,
                              .dtype = DType::kUInt8,
                              .codecs = codecs});
  std::vector<std::byte> slot(1);
  decoder.decode(bytes("G3abcdefghi"), {}, slot);
  EXPECT_EQ(slot[0], std::byte{'e'});
  const Image photo = testing::photo(8, 8, 2);
  EXPECT_EQ(decode_image(encode_png(photo), {.codecs = codecs}).pixels.text(), photo.pixels.text());
}

TEST(CodecTable, ChecksWhatAUsersFormatClaims) {
  EXPECT_THAT(message_of([] { decode_image(bytes("G2abcd")); }), HasSubstr("unknown data"));
  EXPECT_THAT(message_of([] {
                decode_image(bytes("G2abcd"),
                             {.limits = {.max_pixels = 100}, .codecs = with(letters(11))});
              }),
              HasSubstr("11 x 11"));
  EXPECT_THAT(message_of([] { decode_image(bytes("G0abcd"), {.codecs = with(letters())}); }),
              HasSubstr("LETTERS"));
}

}  // namespace
}  // namespace millrace::decode
