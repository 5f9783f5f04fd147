#include "wds/sample_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/base/error.h"

namespace millrace::wds {
namespace {

using ::testing::HasSubstr;

Sample a_sample() {
  Sample sample{.key = "train/007"};
  const auto add = [&](std::string suffix, std::string_view text) {
    sample.fields.push_back({.suffix = std::move(suffix), .data = io::Bytes::copy_of(text)});
  };
  add("json", R"({"width": 300, "score": 0.3, "tags": ["day", "street"], "size": {"w": 4},
                  "image/class": 7, "on": true, "none": null, "name": "it's"})");
  add("cls", " 12\n");
  add("txt", "a red bus");
  add("meta.json", R"([{"a": 1}, 2])");
  return sample;
}

bool keeps(const std::string& expression) { return SampleFilter(expression)(a_sample()); }

TEST(SampleFilter, ComparesNumbersTextsAndMembers) {
  for (const char* yes : {"json.width >= 256 and json.score > 0.28",
                          "json.width == 300",
                          "json.width < 301",
                          "json.width <= 300",
                          "json.width != 299",
                          "cls == 12",
                          "cls in [3, 12]",
                          "txt contains 'red'",
                          "json.tags contains 'day'",
                          "json.size.w == 4",
                          "json['image/class'] == 7",
                          "json.tags[1] == \"street\"",
                          "meta.json[0].a == 1",
                          "key matches 'train/*'",
                          "key == 'train/007'",
                          "json.on",
                          "json.on == true",
                          "json.none == null",
                          "json.width > -1e3",
                          "json.name == \"it's\"",
                          "not json.width < 300 && !(cls == 3)",
                          "cls == 3 or cls == 12",
                          "cls not in [1, 2]",
                          "json.missing == null"})
    EXPECT_TRUE(keeps(yes)) << yes;
  for (const char* no :
       {"json.width > 300", "json.missing > 0", "json.missing < 0", "json.width == '300'",
        "txt == 12", "json.tags contains 'night'", "key matches 'val/*'", "not json.on",
        "json.tags[2] == 'x'", "cls == 3 or cls == 4", "cls == 12 and cls == 3", "png == 1"})
    EXPECT_FALSE(keeps(no)) << no;
}

TEST(SampleFilter, ComparesWholeNumbersExactlyAndFieldsAsTheyAreWritten) {
  Sample sample{.key = "k"};
  const auto add = [&](std::string suffix, std::string_view text) {
    sample.fields.push_back({.suffix = std::move(suffix), .data = io::Bytes::copy_of(text)});
  };
  add("json", R"({"id": 9007199254740992, "large": 18446744073709551615, "n": 7})");
  add("id", "9007199254740993\n");
  add("seven", "7\n");
  add("padded", "007");
  add("nan", "nan");
  for (const char* yes : {"json.id == 9007199254740992",
                          "json.id < 9007199254740993",
                          "json.id == 9007199254740992.0",
                          "json.large == 18446744073709551615",
                          "json.large > -1",
                          "id == 9007199254740993",
                          "id > json.id",
                          "seven == '7'",
                          "'7' == seven",
                          "seven in ['7', 'x']",
                          "seven in [7]",
                          "seven == 7.0",
                          "padded == 7",
                          "padded == '007'",
                          "padded == seven",
                          "padded matches '00?'",
                          "padded contains '07'",
                          "padded < '01'",
                          "nan == 'nan'",
                          "nan in ['nan']"})
    EXPECT_TRUE(SampleFilter(yes)(sample)) << yes;
  for (const char* no :
       {"json.id == 9007199254740993", "json.id in [9007199254740993]",
        "json.id >= 9007199254740993", "json.large == 18446744073709551614", "padded == '7'",
        "padded in ['7', 'x']", "json.n == '7'", "nan != 'nan'", "nan == 0", "nan < 1"})
    EXPECT_FALSE(SampleFilter(no)(sample)) << no;
  EXPECT_EQ(SampleValue("seven").text(sample), SampleValue("padded").text(sample));
  EXPECT_EQ(SampleValue("id").text(sample), "9007199254740993");
}

TEST(SampleFilter, MatchesCharactersInEveryLocale) {
  Sample sample{.key = "a\u00E9b"};
  sample.fields.push_back(
      {.suffix = "txt", .data = io::Bytes::copy_of(std::string_view("a\0b", 3))});
  for (const char* yes : {"key matches 'a?b'", "key matches 'a[\u00E9]b'", "txt matches 'a?b'"})
    EXPECT_TRUE(SampleFilter(yes)(sample)) << yes;
  for (const char* no : {"key matches 'a???b'", "txt matches 'a'"})
    EXPECT_FALSE(SampleFilter(no)(sample)) << no;
}

TEST(SampleFilter, AListOrAnObjectIsTrueUnlessItIsEmpty) {
  EXPECT_TRUE(keeps("json.tags and json.size and not json.none"));
  Sample sample{.key = "1"};
  sample.fields.push_back({.suffix = "json", .data = io::Bytes::copy_of(R"({"a": [], "b": {}})")});
  EXPECT_TRUE(SampleFilter("not json.a and not json.b")(sample));
}

TEST(SampleValue, IsTheSameForTheSameNumberInJson) {
  Sample sample{.key = "1"};
  sample.fields.push_back({.suffix = "json", .data = io::Bytes::copy_of(R"({"a": 1, "b": 1.0})")});
  EXPECT_EQ(SampleValue("json.a").text(sample), SampleValue("json.b").text(sample));
}

TEST(SampleFilter, AndBindsCloserThanOr) {
  EXPECT_TRUE(keeps("cls == 12 or cls == 1 and cls == 2"));
  EXPECT_FALSE(keeps("(cls == 12 or cls == 1) and cls == 2"));
}

TEST(SampleFilter, NamesTheFieldsThatItLooksAt) {
  EXPECT_THAT(SampleFilter("key != 'x' and (cls == 1 or not meta.json.a > coarse.cls)").suffixes(),
              ::testing::ElementsAre("cls", "meta.json", "coarse.cls"));
}

TEST(SampleFilter, SaysWhereAnExpressionIsWrong) {
  const auto wrong = [](const std::string& expression) {
    try {
      SampleFilter{expression};
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
    return std::string("accepted");
  };
  EXPECT_THAT(wrong("json.width >= "), HasSubstr("column 15: expected a value"));
  EXPECT_THAT(wrong("(cls == 1"), HasSubstr("expected a )"));
  EXPECT_THAT(wrong("cls == 'x"), HasSubstr("column 8: a text that is not closed"));
  EXPECT_THAT(wrong("cls = 3"), HasSubstr("column 5: = compares nothing: write cls == 3"));
  EXPECT_THAT(wrong("cls in [1,"), HasSubstr("not closed"));
  EXPECT_THAT(wrong("json[x] == 1"), HasSubstr("column 6"));
  EXPECT_THAT(wrong(std::string(200, '(')), HasSubstr("nested too deep"));
  EXPECT_THAT(wrong(std::string(1 << 15, ' ')), HasSubstr("too long"));
}

TEST(SampleFilter, AFieldThatIsNoJsonIsAFaultWithItsPlace) {
  Sample sample{.key = "k",
                .url = std::make_shared<const std::string>("https://host/a.tar?secret")};
  sample.fields.push_back({.suffix = "json", .data = io::Bytes::copy_of("{"), .offset = 512});
  try {
    SampleFilter("json.a == 1")(sample);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(error.where().url, "https://host/a.tar");
    EXPECT_EQ(error.where().member, "k.json");
    EXPECT_EQ(error.where().offset, 512U);
  }
}

TEST(SampleValue, IsOneValuesName) {
  EXPECT_EQ(SampleValue("json.width").number(a_sample()), 300);
  EXPECT_EQ(SampleValue("json.tags[0]").text(a_sample()), "\"day\"");
  EXPECT_THROW(SampleValue("json.width > 3"), Error);
  EXPECT_THROW(SampleValue("12"), Error);
  EXPECT_THROW(SampleValue("json.name").number(a_sample()), Error);
}

}  // namespace
}  // namespace millrace::wds
