#include "tools/verify/packed_report.h"

#include <cstdint>
#include <utility>

namespace millrace::tools {
namespace {

using Packed = nlohmann::json;
using Entry = wds::FaultLedger::Entry;

Packed pack_fault(const Entry& fault) {
  const Where& where = fault.where;
  return {static_cast<int>(fault.code),
          fault.message,
          fault.samples,
          fault.more,
          {where.url, where.key, where.member, where.stage},
          where.offset ? Packed(*where.offset) : Packed()};
}

Entry unpack_fault(const Packed& packed) {
  const Packed& where = packed.at(4);
  Entry fault{.where = {.url = where.at(0),
                        .key = where.at(1),
                        .member = where.at(2),
                        .offset = {},
                        .stage = where.at(3)},
              .code = static_cast<ErrorCode>(packed.at(0).get<int>()),
              .message = packed.at(1),
              .samples = packed.at(2),
              .more = packed.at(3)};
  if (!packed.at(5).is_null()) fault.where.offset = packed.at(5).get<std::uint64_t>();
  return fault;
}

Packed pack_finding(const Finding& finding) { return {finding.count, finding.first}; }
Finding unpack_finding(const Packed& packed) {
  return {.count = packed.at(0), .first = packed.at(1)};
}

}  // namespace

Packed pack(const ShardReport& report) {
  Packed packed{{"url", report.url},
                {"indexed", report.indexed},
                {"in_manifest", report.in_manifest},
                {"stored", {report.stored.jpeg, report.stored.image}},
                {"emitted", report.emitted},
                {"skipped", report.skipped},
                {"unknown_shards", report.unknown_shards},
                {"warnings", report.warnings},
                {"refetched", report.refetched},
                {"untidy", pack_finding(report.untidy)},
                {"unequal_sizes", pack_finding(report.unequal_sizes)},
                {"unguarded", report.unguarded},
                {"faults", Packed::array()},
                {"fields", Packed::object()},
                {"field_sets", Packed::object()},
                {"histogram", report.classes.histogram()},
                {"squared_runs", report.classes.squared_runs()},
                {"overflowed", report.classes.overflowed()},
                {"keys", report.keys},
                {"interleaved", report.interleaved}};
  for (const Entry& fault : report.faults) packed["faults"].push_back(pack_fault(fault));
  for (const auto& [suffix, sizes] : report.fields)
    packed["fields"][suffix] = {sizes.count, sizes.min, sizes.max, sizes.total};
  for (const auto& [suffixes, set] : report.field_sets)
    packed["field_sets"][suffixes] = {set.samples, set.first_key};
  return packed;
}

ShardReport unpack_report(const Packed& packed) {
  ShardReport report{
      .url = packed.at("url"),
      .indexed = packed.at("indexed"),
      .in_manifest = packed.at("in_manifest"),
      .stored = {.jpeg = packed.at("stored").at(0), .image = packed.at("stored").at(1)},
      .emitted = packed.at("emitted"),
      .skipped = packed.at("skipped"),
      .unknown_shards = packed.at("unknown_shards"),
      .warnings = packed.at("warnings"),
      .refetched = packed.at("refetched"),
      .untidy = unpack_finding(packed.at("untidy")),
      .unequal_sizes = unpack_finding(packed.at("unequal_sizes")),
      .unguarded = packed.at("unguarded"),
      .classes = {packed.at("histogram").get<std::map<std::int64_t, std::uint64_t>>(),
                  packed.at("squared_runs"), packed.at("overflowed")},
      .keys = packed.at("keys"),
      .interleaved = packed.at("interleaved")};
  for (const Packed& fault : packed.at("faults")) report.faults.push_back(unpack_fault(fault));
  for (const auto& [suffix, sizes] : packed.at("fields").items())
    report.fields[suffix] = {
        .count = sizes.at(0), .min = sizes.at(1), .max = sizes.at(2), .total = sizes.at(3)};
  for (const auto& [suffixes, set] : packed.at("field_sets").items())
    report.field_sets[suffixes] = {.samples = set.at(0), .first_key = set.at(1)};
  return report;
}

}  // namespace millrace::tools
