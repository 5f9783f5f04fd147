// What verify found, on its way between processes and summed.
#include "tools/verify/packed_report.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "tools/verify/set_report.h"

namespace millrace::tools {
namespace {

/// Different values, by `seed`.
void fill(std::uint64_t& value, std::uint64_t seed) { value = (std::uint64_t{1} << 60) + seed; }
void fill(std::map<std::pair<std::string, std::string>, std::uint64_t>& value, std::uint64_t seed) {
  value = {{{"", "png"}, seed}, {{"90", "webp"}, seed + 1}};
}
void fill(Finding& value, std::uint64_t seed) { value = {.count = seed, .first = "k\xff"}; }
void fill(std::map<std::string, FieldSizes>& value, std::uint64_t seed) {
  value["jpg"] = {.count = seed, .min = 2, .max = 9, .total = 11};
}
void fill(std::map<std::string, FieldSet>& value, std::uint64_t seed) {
  value["cls,jpg"] = {.samples = seed, .first_key = "first"};
}

ShardReport filled() {
  ShardReport report;
  std::uint64_t seed = 0;
  Findings::visit([&](const char*, auto member) { fill(report.*member, ++seed); });
  return report;
}

nlohmann::json over_the_wire(const ShardReport& report) {
  return nlohmann::json::from_cbor(nlohmann::json::to_cbor(pack(report)));
}

TEST(Findings, AreVisitedAll) {
  std::size_t bytes = 0;
  Findings::visit([&](const char*, auto member) { bytes += sizeof(Findings().*member); });
  EXPECT_EQ(bytes, sizeof(Findings));
}

TEST(PackedReport, BringsBackEveryFinding) {
  const ShardReport report = filled();
  const nlohmann::json packed = over_the_wire(report);
  const ShardReport back = unpack_report(packed);
  EXPECT_EQ(pack(back), packed);
  Findings::visit([&](const char* name, auto member) {
    EXPECT_EQ(nlohmann::json(pack(back)).at(name), pack(report).at(name)) << name;
    EXPECT_NE(pack(back).at(name), pack(ShardReport()).at(name)) << name;
  });
}

TEST(Findings, AreSummedOverShards) {
  SetReport report;
  report.add(filled());
  report.add(filled());
  const ShardReport one = filled();
  EXPECT_EQ(report.shards, 2U);
  EXPECT_EQ(report.emitted, 2 * one.emitted);
  EXPECT_EQ(report.interleaved, 2 * one.interleaved);
  EXPECT_EQ(report.untidy.count, 2 * one.untidy.count);
  EXPECT_EQ(report.untidy.first, one.untidy.first);
  EXPECT_EQ(report.fields.at("jpg").total, 22U);
  EXPECT_EQ(report.fields.at("jpg").min, 2U);
  EXPECT_EQ(report.field_sets.at("cls,jpg").first_key, "first");
  EXPECT_EQ(report.stored.size(), 2U);
}

}  // namespace
}  // namespace millrace::tools
