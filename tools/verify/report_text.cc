// What verify found, as JSON and as text.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "io/base/text.h"
#include "tools/output.h"
#include "tools/verify/set_report.h"

namespace millrace::tools {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kFaultsShown = 100;

double mean(const FieldSizes& sizes) {
  return static_cast<double>(sizes.total) / static_cast<double>(sizes.count);
}

Json fault_json(const wds::FaultLedger::Entry& fault) {
  Json json = {{"url", fault.where.url}, {"key", fault.where.key}, {"member", fault.where.member}};
  json["offset"] = fault.where.offset ? Json(*fault.where.offset) : Json(nullptr);
  json["code"] = error_code_name(fault.code);
  json["message"] = fault.message;
  return json;
}

Json mix_json(const MixFindings& mix) {
  return {{"classes", mix.classes},
          {"run_length", mix.run_length},
          {"expected_run_length", mix.expected_run_length},
          {"histogram_distance", mix.distance},
          {"expected_histogram_distance", mix.expected_distance},
          {"sorted", mix.sorted},
          {"skewed", mix.skewed},
          {"buffer", mix.buffer}};
}

Json fields_json(const SetReport& report) {
  Json json = Json::object();
  for (const auto& [suffix, sizes] : report.fields)
    json[suffix] = {
        {"count", sizes.count}, {"min", sizes.min}, {"mean", mean(sizes)}, {"max", sizes.max}};
  return json;
}

Json field_sets_json(const SetReport& report) {
  Json json = Json::array();
  for (const auto& [suffixes, set] : report.field_sets)
    json.push_back({{"fields", suffixes}, {"samples", set.samples}, {"first", set.first_key}});
  return json;
}

Json duplicates_json(const SetReport& report) {
  Json list = Json::array();
  for (const DuplicateKey& one : report.duplicates)
    list.push_back({{"key", one.key}, {"first", one.first_url}, {"again", one.url}});
  return list;
}

std::string fault_line(const wds::FaultLedger::Entry& fault) {
  return "  " + std::string(Error(fault.code, fault.message, fault.where).what());
}

void add_faults(const SetReport& report, std::vector<std::string>& lines) {
  if (report.num_faults == 0) return;
  lines.push_back(fmt::format("faults: {}", report.num_faults));
  const std::size_t shown = std::min(kFaultsShown, report.faults.size());
  for (std::size_t i = 0; i < shown; ++i) lines.push_back(fault_line(report.faults[i]));
  if (report.num_faults > shown)
    lines.push_back(fmt::format("  and {} more (--json lists them)", report.num_faults - shown));
}

void add_fields(const SetReport& report, std::vector<std::string>& lines) {
  if (report.fields.empty()) return;
  lines.push_back(fmt::format("{:<20} {:>10} {:>12} {:>12} {:>12}", "field", "samples",
                              "least bytes", "mean", "most"));
  for (const auto& [suffix, sizes] : report.fields)
    lines.push_back(fmt::format("{:<20} {:>10} {:>12} {:>12.0f} {:>12}", shown_name(suffix),
                                sizes.count, sizes.min, mean(sizes), sizes.max));
  if (report.field_sets.size() < 2) return;
  lines.push_back("samples differ in their fields:");
  for (const auto& [suffixes, set] : report.field_sets)
    lines.push_back(fmt::format("  {} in {} samples, the first {}", shown_name(suffixes),
                                set.samples, shown_name(set.first_key)));
}

void add_keys(const SetReport& report, std::vector<std::string>& lines) {
  if (report.interleaved > 0)
    lines.push_back(
        fmt::format("interleaved: {} samples whose key came before in their own shard: "
                    "members of one sample must be adjacent",
                    report.interleaved));
  if (report.num_duplicates > 0) {
    const DuplicateKey& first = report.duplicates.front();
    lines.push_back(
        fmt::format("keys: {} samples whose key an earlier shard has too, the first {} "
                    "in {} and {}",
                    report.num_duplicates, shown_name(first.key), shown_name(first.first_url),
                    shown_name(first.url)));
  }
  if (report.keys_cut())
    lines.push_back(
        fmt::format("keys: only the first {} were checked for duplicates", SetReport::kMaxKeys));
}

void add_mix(const SetReport& report, std::vector<std::string>& lines) {
  const auto mix = report.classes.findings();
  if (!mix) return;
  lines.push_back(
      fmt::format("classes: {}; runs of {:.1f} samples of a class ({:.1f} when shuffled); a "
                  "shard's histogram is {:.3f} from the set's ({:.3f} when shuffled)",
                  mix->classes, mix->run_length, mix->expected_run_length, mix->distance,
                  mix->expected_distance));
  if (!mix->sorted && !mix->skewed) return;
  lines.push_back(fmt::format(
      "shards {}: shuffle when creating or use a shuffle buffer of at least {}",
      mix->sorted ? "are sorted by class" : "differ in their share of classes", mix->buffer));
}

void add_finding(const std::string& name, const Finding& finding, Json& json) {
  json[name] = finding.count;
  if (finding.count > 0) json["first_" + name] = finding.first;
}

}  // namespace

std::string to_json(const SetReport& report) {
  Json faults = Json::array();
  for (const auto& fault : report.faults) faults.push_back(fault_json(fault));
  Json json = {{"shards", report.shards},
               {"samples", report.samples()},
               {"emitted", report.emitted},
               {"skipped", report.skipped},
               {"faults", std::move(faults)}};
  json["num_faults"] = report.num_faults;
  json["unknown_shards"] = report.unknown_shards;
  json["unguarded"] = report.unguarded;
  json["warnings"] = report.warnings;
  json["refetched"] = report.refetched;
  add_finding("untidy", report.untidy, json);
  add_finding("unequal_sizes", report.unequal_sizes, json);
  json["indexed"] = report.indexed;
  json["in_manifest"] = report.in_manifest;
  json["stored"] = Json::array();
  for (const auto& [way, shards] : report.stored)
    json["stored"].push_back({{"jpeg", way.first}, {"image", way.second}, {"shards", shards}});
  json["fields"] = fields_json(report);
  json["field_sets"] = field_sets_json(report);
  json["interleaved"] = report.interleaved;
  json["num_duplicates"] = report.num_duplicates;
  json["duplicates"] = duplicates_json(report);
  const auto mix = report.classes.findings();
  json["class_mix"] = mix ? mix_json(*mix) : Json(nullptr);
  return json_text(json);
}

namespace {

std::string option_text(const char* name, const std::string& value) {
  return value.empty() ? "" : fmt::format(" {} {}", name, printable(value));
}

}  // namespace

std::vector<std::string> to_lines(const SetReport& report) {
  std::vector<std::string> lines = {
      fmt::format("{} ({} with an index, {} in a manifest), {}: {} whole, {} skipped",
                  counted(report.shards, "shard"), report.indexed, report.in_manifest,
                  counted(report.samples(), "sample"), report.emitted, report.skipped)};
  for (const auto& [way, shards] : report.stored)
    lines.push_back(fmt::format("{} with pictures stored by{}{}, as the manifest says",
                                counted(shards, "shard"), option_text("--jpeg", way.first),
                                option_text("--image", way.second)));
  if (report.unknown_shards > 0)
    lines.push_back(
        fmt::format("{} of which the number of samples lost is unknown; each counts as one",
                    counted(report.unknown_shards, "shard")));
  if (report.unguarded > 0)
    lines.push_back(fmt::format(
        "{} without an index, and without checksums inside (plain tar, zstd "
        "without --check, xz with --check=none): a byte that changed in a field may go unnoticed "
        "(millrace index makes indexes)",
        counted(report.unguarded, "shard")));
  if (report.warnings > 0)
    lines.push_back(fmt::format("{} without an end marker", counted(report.warnings, "shard")));
  if (report.refetched > 0)
    lines.push_back(fmt::format("{} fetched again: damaged on the network, intact the second time",
                                report.refetched));
  if (report.untidy.count > 0)
    lines.push_back(fmt::format("{} untidy images, which decode all the same; the first: {}",
                                report.untidy.count, report.untidy.first));
  if (report.unequal_sizes.count > 0)
    lines.push_back(
        fmt::format("{} with pictures of different sizes, where training takes a mask or a pair "
                    "of the picture's size; the first: {}",
                    counted(report.unequal_sizes.count, "sample"), report.unequal_sizes.first));
  add_fields(report, lines);
  add_keys(report, lines);
  add_mix(report, lines);
  add_faults(report, lines);
  return lines;
}

}  // namespace millrace::tools
