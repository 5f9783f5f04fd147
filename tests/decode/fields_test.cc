#include <gtest/gtest.h>

#include <array>

#include "decode/array.h"
#include "decode/json.h"
#include "decode/text.h"
#include "io/base/error.h"
#include "tests/decode/pixels_of.h"

namespace millrace {
namespace {

using testing::fault_of;

io::Bytes field_bytes(std::string_view text) { return io::Bytes::copy_of(text); }

TEST(Integer, IsReadWithSpaceAndSign) {
  EXPECT_EQ(decode::decode_integer(field_bytes("7")), 7);
  EXPECT_EQ(decode::decode_integer(field_bytes(" +7\r\n")), 7);
  EXPECT_EQ(decode::decode_integer(field_bytes("-12\n")), -12);
  EXPECT_EQ(decode::decode_integer(field_bytes("9223372036854775807")), INT64_MAX);
}

TEST(Integer, RefusesTextThatIsNotOne) {
  for (const char* text :
       {"", " ", "7a", "7 8", "0x10", "+-7", "1.0", "9223372036854775808", "--1", "+", "cat"}) {
    EXPECT_EQ(fault_of([&] { decode::decode_integer(field_bytes(text)); }), ErrorCode::kCorrupt)
        << text;
  }
}

TEST(Text, IsUtf8) {
  EXPECT_EQ(decode::decode_text(field_bytes("gr\xc3\xbc\xc3\x9f \xf0\x9f\x8c\xbe")),
            "gr\xc3\xbc\xc3\x9f \xf0\x9f\x8c\xbe");
  for (const char* text :
       {"\xff", "\xc3", "\xc0\xaf", "\xe0\x80\x80", "\xed\xa0\x80", "\xf4\x90\x80\x80", "ab\x80"}) {
    EXPECT_EQ(fault_of([&] { decode::decode_text(field_bytes(text)); }), ErrorCode::kCorrupt);
  }
}

TEST(Json, GivesNumbersAtAPlace) {
  const io::Bytes field =
      field_bytes(R"({"labels": [0, 1, true, 0.5], "box": {"xy": [[1, 2], [3, 4]]}})");
  EXPECT_EQ(decode::decode_json_numbers(field, "labels"), (std::vector<float>{0, 1, 1, 0.5F}));
  EXPECT_EQ(decode::decode_json_numbers(field, "/box/xy"), (std::vector<float>{1, 2, 3, 4}));
  EXPECT_EQ(decode::decode_json_numbers(field, "/labels/3"), (std::vector<float>{0.5F}));
  EXPECT_EQ(decode::decode_json_numbers(field_bytes("-3"), ""), (std::vector<float>{-3}));
  std::array<float, 4> slot = {};
  decode::decode_json_numbers(field, "labels", slot);
  EXPECT_EQ(slot[3], 0.5F);
  EXPECT_EQ(fault_of([&] { decode::decode_json_numbers(field_bytes("[1, 1e39]"), ""); }),
            ErrorCode::kCorrupt)
      << "not infinity";
}

TEST(Json, GivesWholeNumbersAndTextsAtAPlace) {
  const io::Bytes field = field_bytes(
      R"({"label": 7, "big": 9007199254740993, "far": 18446744073709551615, "half": 0.5, "yes": true,
          "caption": {"en": "a caf\u00e9"}, "tags": ["x", 1]})");
  EXPECT_EQ(decode::decode_json_integer(field, "label"), 7);
  EXPECT_EQ(decode::decode_json_integer(field, "/big"), 9007199254740993);
  EXPECT_EQ(decode::decode_json_integer(field, "yes"), 1);
  for (const char* place : {"half", "far", "caption", "none", "/tags/0"})
    EXPECT_EQ(fault_of([&] { decode::decode_json_integer(field, place); }), ErrorCode::kCorrupt)
        << place;
  EXPECT_EQ(decode::decode_json_text(field, "/caption/en"), "a caf\xc3\xa9");
  EXPECT_EQ(decode::decode_json_text(field, "tags"), R"(["x",1])");
  EXPECT_EQ(decode::decode_json_text(field, "half"), "0.5");
  EXPECT_EQ(fault_of([&] { decode::decode_json_text(field, "/caption/de"); }), ErrorCode::kCorrupt);
}

TEST(Json, RefusesMissingKeys) {
  const io::Bytes field = field_bytes(R"({"labels": [0, 1], "name": "x"})");
  std::array<float, 3> slot = {};
  EXPECT_EQ(fault_of([&] { decode::decode_json_numbers(field, "none"); }), ErrorCode::kCorrupt);
  EXPECT_EQ(fault_of([&] { decode::decode_json_numbers(field, "name"); }), ErrorCode::kCorrupt);
  EXPECT_EQ(fault_of([&] { decode::decode_json_numbers(field, "/labels/x"); }),
            ErrorCode::kCorrupt);
  EXPECT_EQ(fault_of([&] { decode::decode_json_numbers(field, "labels", slot); }),
            ErrorCode::kCorrupt);
  EXPECT_EQ(fault_of([&] { decode::check_json(field_bytes("{\"a\":")); }), ErrorCode::kCorrupt);
  EXPECT_EQ(
      fault_of([&] { decode::decode_json_numbers(field_bytes(std::string(100000, '[')), ""); }),
      ErrorCode::kCorrupt);
}

TEST(BFloat16, RoundsToNearestEven) {
  EXPECT_EQ(decode::to_bfloat16(1.0F), 0x3F80);
  EXPECT_EQ(decode::to_bfloat16(1.00390625F), 0x3F80);  // a tie rounds to even
  EXPECT_EQ(decode::to_bfloat16(1.01171875F), 0x3F82);
  EXPECT_EQ(decode::to_bfloat16(3.4028235e38F), 0x7F80);
  EXPECT_NE(decode::to_bfloat16(std::numeric_limits<float>::quiet_NaN()) & 0x7F, 0);
}

}  // namespace
}  // namespace millrace
