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
  EXPECT_THAT(wrong("json.width >= "), HasSubstr("expected a value at column 15"));
  EXPECT_THAT(wrong("(cls == 1"), HasSubstr("expected a )"));
  EXPECT_THAT(wrong("cls == 'x"), HasSubstr("not closed at column 8"));
  EXPECT_THAT(wrong("cls = 3"), HasSubstr("expected the end here at column 5"));
  EXPECT_THAT(wrong("cls in [1,"), HasSubstr("not closed"));
  EXPECT_THAT(wrong("json[x] == 1"), HasSubstr("column 6"));
  EXPECT_THAT(wrong(std::string(200, '(')), HasSubstr("nested too deep"));
  EXPECT_THAT(wrong(std::string(1 << 15, ' ')), HasSubstr("too long"));
}

TEST(SampleFilter, AFieldThatIsNoJsonIsAFaultWithItsKey) {
  Sample sample{.key = "k"};
  sample.fields.push_back({.suffix = "json", .data = io::Bytes::copy_of("{")});
  try {
    SampleFilter("json.a == 1")(sample);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    EXPECT_EQ(error.where().member, "k.json");
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
