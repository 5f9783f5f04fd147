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

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FieldSizes, count, min, max, total)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(FieldSet, samples, first_key)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Finding, count, first)

Packed pack(const ShardReport& report) {
  Packed packed{{"url", report.url},
                {"faults", Packed::array()},
                {"histogram", report.classes.histogram()},
                {"squared_runs", report.classes.squared_runs()},
                {"overflowed", report.classes.overflowed()},
                {"keys", report.keys}};
  Findings::visit([&](const char* name, auto member) { packed[name] = report.*member; });
  for (const Entry& fault : report.faults) packed["faults"].push_back(pack_fault(fault));
  return packed;
}

ShardReport unpack_report(const Packed& packed) {
  ShardReport report;
  Findings::visit([&](const char* name, auto member) { packed.at(name).get_to(report.*member); });
  packed.at("url").get_to(report.url);
  packed.at("keys").get_to(report.keys);
  report.classes = {packed.at("histogram").get<std::map<std::int64_t, std::uint64_t>>(),
                    packed.at("squared_runs"), packed.at("overflowed")};
  for (const Packed& fault : packed.at("faults")) report.faults.push_back(unpack_fault(fault));
  return report;
}

}  // namespace millrace::tools
