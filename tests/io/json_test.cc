// Untrusted documents: a bomb costs no more than its text, and a fault names its position.
#include "io/base/json.h"

#include <gtest/gtest.h>
#include <sys/resource.h>

#include <nlohmann/json.hpp>
#include <string>

namespace millrace {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kMegabyte = std::size_t{1024} * 1024;

std::string fault_of(const std::string& text, const JsonLimits& limits = {}) {
  try {
    static_cast<void>(parse_json<Json>(text, "doc", limits));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCorrupt);
    return error.message();
  }
  return "";
}

std::string repeated(const std::string& part, std::size_t bytes) {
  std::string text;
  text.reserve(bytes + part.size());
  while (text.size() < bytes) text += part;
  return text;
}

std::size_t peak_memory() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

TEST(Json, KeepsValuesAsWritten) {
  EXPECT_EQ(parse_json<Json>(R"( {"a":[1,"]}\"",{"b":null}]} )", "doc"),
            (Json{{"a", {1, "]}\"", {{"b", nullptr}}}}}));
  EXPECT_EQ(parse_json<nlohmann::ordered_json>(R"({"b":1,"a":2})", "doc").dump(),
            R"({"b":1,"a":2})");
  EXPECT_EQ(fault_of(R"([{"a":1},{"a":{"a":2}}])"), "") << "a key an object";
}

TEST(Json, BombsCostNoMoreThanTheirText) {
  const std::size_t before = peak_memory();
  for (const char* part : {"[", "{\"\":", "[[],", "[],", "{},", "\"\",", "0,", "[0],"}) {
    EXPECT_NE(fault_of("[" + repeated(part, 8 * kMegabyte), {.memory_bytes = 4 * kMegabyte}), "")
        << part;
  }
  EXPECT_LT(peak_memory() - before, 128 * kMegabyte);
}

TEST(Json, FaultsSayWhereTheyAre) {
  EXPECT_EQ(fault_of("[[[1]]]", {.depth = 2}), "doc: nested more than 2 deep, at byte 2");
  EXPECT_EQ(fault_of("[1,2]", {.bytes = 4}), "doc: of 5 bytes, more than 4, at byte 4");
  EXPECT_EQ(fault_of("[1,2,x]"), "doc: not JSON at byte 5");
  EXPECT_EQ(fault_of("[1,2"), "doc: not JSON, or cut short");
  EXPECT_EQ(fault_of(""), "doc: not JSON, or cut short");
  EXPECT_EQ(fault_of(R"(["a)"), "doc: not JSON, or cut short");
  EXPECT_EQ(fault_of("[1]]"), "doc: not JSON at byte 3");
  EXPECT_EQ(fault_of(std::string("[1]\0[", 5)), "doc: a NUL byte outside of a string, at byte 3");
  EXPECT_EQ(fault_of("[1e999]"), "doc: a number is beyond any double");
}

TEST(Json, ARepeatedKeyIsAFaultUnlessAllowed) {
  const std::string text = R"({"a":1,"b":{"a":2},"a":3})";
  EXPECT_EQ(fault_of(text), "doc: the key \"a\" occurs twice in one object, at byte 20");
  EXPECT_EQ(fault_of(text, {.unique_keys = false}), "");
}

TEST(Json, AMessageEchoesNoMegabytes) {
  const std::string key = "\"" + std::string(kMegabyte, 'k') + "\":1";
  EXPECT_LT(fault_of("{" + key + "," + key + "}").size(), 200U);
  EXPECT_LT(fault_of("[" + std::string(kMegabyte, 'x') + "]").size(), 200U);
}

TEST(Json, WholeNumbersAreNotConverted) {
  EXPECT_EQ(json_integer<int>(Json(-3), "n"), -3);
  EXPECT_EQ(json_integer<std::uint64_t>(Json(UINT64_MAX), "n"), UINT64_MAX);
  EXPECT_THROW(json_integer<std::uint64_t>(Json(-1), "n"), Error);
  EXPECT_THROW(json_integer<int>(Json(1e300), "n"), Error);
  EXPECT_THROW(json_integer<int>(Json(1.5), "n"), Error);
  EXPECT_THROW(json_integer<std::uint32_t>(Json(std::int64_t{1} << 32), "n"), Error);
  EXPECT_THROW(json_integer<int>(Json("3"), "n"), Error);
  try {
    json_integer<int>(Json(9), "doc: epochs", 1, 8);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "doc: epochs is not a whole number from 1 to 8");
  }
}

}  // namespace
}  // namespace millrace
