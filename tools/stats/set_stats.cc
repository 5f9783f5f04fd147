#include "tools/stats/set_stats.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "io/base/text.h"
#include "tools/output.h"

namespace millrace::tools {
namespace {

using Json = nlohmann::ordered_json;

// Photographs have many sizes: beyond this many, only heights and widths are counted.
constexpr std::size_t kMaxSizes = 100'000;
constexpr std::size_t kCommonSizes = 10;

std::string name_of(std::int64_t label, const std::vector<std::string>& names) {
  const bool named = label >= 0 && static_cast<std::uint64_t>(label) < names.size();
  return named ? names[static_cast<std::size_t>(label)] : std::string();
}

Json spread_json(const Spread& spread) {
  return {{"min", spread.min}, {"median", spread.median}, {"max", spread.max}};
}

std::string joined(const std::vector<double>& values) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:.4f}", text.empty() ? "" : ",", value);
  return text;
}

Json storage_json(const StorageReport& report) {
  Json ways = Json::array();
  for (const StorageWay& way : report.ways)
    ways.push_back({{"options", way.options},
                    {"bytes", way.bytes},
                    {"bytes_ratio", way.bytes_ratio},
                    {"images_per_s", way.images_per_s},
                    {"images_per_s_ratio", way.images_per_s_ratio}});
  return {{"pictures", report.pictures},
          {"size", report.size},
          {"threads", report.threads},
          {"ways", std::move(ways)}};
}

}  // namespace

void SetStats::add(const SampleStats& sample) {
  ++samples;
  if (sample.label) ++classes[*sample.label];
  if (!sample.size) return;
  ++images;
  pixels.add(sample.pixels);
  ++heights_[sample.size->height];
  ++widths_[sample.size->width];
  const std::pair size(sample.size->height, sample.size->width);
  if (sizes_.size() < kMaxSizes || sizes_.contains(size)) ++sizes_[size];
}

void SetStats::add(const SetStats& other) {
  const auto add_counts = [](auto& into, const auto& counts) {
    for (const auto& [value, count] : counts) into[value] += count;
  };
  samples += other.samples;
  images += other.images;
  pixels.add(other.pixels);
  add_counts(classes, other.classes);
  add_counts(heights_, other.heights_);
  add_counts(widths_, other.widths_);
  for (const auto& [size, count] : other.sizes_)
    if (sizes_.size() < kMaxSizes || sizes_.contains(size)) sizes_[size] += count;
}

std::vector<std::uint8_t> SetStats::packed() const {
  return nlohmann::json::to_cbor({{"samples", samples},
                                  {"images", images},
                                  {"classes", classes},
                                  {"pixels", pixels.packed()},
                                  {"heights", heights_},
                                  {"widths", widths_},
                                  {"sizes", sizes_}});
}

SetStats SetStats::unpacked(const std::vector<std::uint8_t>& bytes) {
  const auto json = nlohmann::json::from_cbor(bytes);
  SetStats stats;
  json.at("samples").get_to(stats.samples);
  json.at("images").get_to(stats.images);
  json.at("classes").get_to(stats.classes);
  stats.pixels = PixelSums::unpacked(json.at("pixels").get<std::vector<std::uint8_t>>());
  json.at("heights").get_to(stats.heights_);
  json.at("widths").get_to(stats.widths_);
  json.at("sizes").get_to(stats.sizes_);
  return stats;
}

// The median is the mean of the two middle values, which coincide for an odd number.
Spread SetStats::spread(const std::map<int, std::uint64_t>& counts) {
  if (counts.empty()) return {};
  std::uint64_t total = 0;
  for (const auto& [value, count] : counts) total += count;
  const auto at = [&](std::uint64_t rank) {
    for (const auto& [value, count] : counts) {
      if (rank < count) return value;
      rank -= count;
    }
    return counts.rbegin()->first;
  };
  return {.min = counts.begin()->first,
          .median = (at((total - 1) / 2) + at(total / 2)) / 2.0,
          .max = counts.rbegin()->first};
}

std::vector<SetStats::SizeCount> SetStats::common_sizes(std::size_t count) const {
  std::vector<SizeCount> sizes;
  for (const auto& [size, images_of] : sizes_)
    sizes.push_back({.size = {.height = size.first, .width = size.second}, .images = images_of});
  std::stable_sort(sizes.begin(), sizes.end(),
                   [](const SizeCount& a, const SizeCount& b) { return a.images > b.images; });
  sizes.resize(std::min(count, sizes.size()));
  return sizes;
}

std::string to_json(const SetStats& stats, const std::vector<std::string>& names,
                    const std::optional<StorageReport>& storage) {
  Json classes = Json::array();
  for (const auto& [label, count] : stats.classes)
    classes.push_back({{"label", label}, {"name", name_of(label, names)}, {"samples", count}});
  Json sizes = Json::array();
  for (const auto& [size, count] : stats.common_sizes(kCommonSizes))
    sizes.push_back({{"height", size.height}, {"width", size.width}, {"images", count}});
  const ChannelMoments moments = stats.pixels.moments();
  Json json = {{"samples", stats.samples},
               {"classes", std::move(classes)},
               {"images", stats.images},
               {"height", spread_json(stats.heights())},
               {"width", spread_json(stats.widths())},
               {"sizes", std::move(sizes)},
               {"pixels", stats.pixels.pixels()},
               {"mean", moments.mean},
               {"std", moments.std}};
  if (storage) json["storage"] = storage_json(*storage);
  return json_text(json);
}

std::vector<std::string> to_lines(const SetStats& stats, const std::vector<std::string>& names) {
  std::vector<std::string> lines = {fmt::format("{}, {}, {}", counted(stats.samples, "sample"),
                                                counted(stats.images, "image"),
                                                counted(stats.classes.size(), "class"))};
  for (const auto& [label, count] : stats.classes)
    lines.push_back(
        fmt::format("  {:>8} {:<24} {:>10} {:6.2f} %", label, name_of(label, names), count,
                    100.0 * static_cast<double>(count) / static_cast<double>(stats.samples)));
  if (stats.images == 0) return lines;
  const auto line = [&](const char* what, const Spread& spread) {
    lines.push_back(fmt::format("{:<7} min {}, median {}, max {}", what, spread.min, spread.median,
                                spread.max));
  };
  line("height", stats.heights());
  line("width", stats.widths());
  for (const auto& [size, count] : stats.common_sizes(kCommonSizes))
    lines.push_back(fmt::format("  {:>5} x {:<5} {:>10}", size.height, size.width, count));
  const ChannelMoments moments = stats.pixels.moments();
  lines.push_back(fmt::format("--mean {} --std {}", joined(moments.mean), joined(moments.std)));
  return lines;
}

}  // namespace millrace::tools
