#include "trainer/setting.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "io/base/error.h"
#include "io/base/json.h"

namespace millrace::trainer {
namespace {

using SettingsJson = nlohmann::ordered_json;

constexpr std::size_t kShownDifferences = 8;
constexpr std::size_t kShownDigits = 12;
constexpr std::size_t kMaxShownValue = 200;

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

/// As spelt, or as a number: 0.10 is 0.1. Whole numbers may be larger than a double holds.
bool same_text(const std::string& one, const std::string& other) {
  if (one == other) return true;
  if (one.find_first_of(".eE") == std::string::npos &&
      other.find_first_of(".eE") == std::string::npos)
    return false;
  const auto number = number_in(one);
  return number && number == number_in(other);
}

bool same_value(const Setting& one, const Setting& other) {
  if (!one.digest.empty() && !other.digest.empty()) return one.digest == other.digest;
  return same_text(one.value, other.value);
}

std::string value_shown(const Setting& setting, bool with_digest) {
  std::string text = setting.value.empty() ? "none" : setting.value;
  if (text.size() > kMaxShownValue) text = text.substr(0, kMaxShownValue) + "...";
  if (with_digest) text += " (SHA-256 " + setting.digest.substr(0, kShownDigits) + "...)";
  return text;
}

std::string difference_line(const Setting& one, std::string_view owner, const Setting& other,
                            std::string_view others) {
  const bool by_digest = !one.digest.empty() && !other.digest.empty();
  return fmt::format("{}: {} {}, {} {}", one.name, value_shown(one, by_digest), owner,
                     value_shown(other, by_digest), others);
}

using ByName = std::map<std::string_view, const Setting*>;

ByName by_name(std::span<const Setting> settings) {
  ByName found;
  for (const Setting& setting : settings) found.emplace(setting.name, &setting);
  return found;
}

std::vector<Setting> compared(std::span<const Setting> settings, SettingScope from) {
  std::vector<Setting> kept;
  std::ranges::copy_if(settings, std::back_inserter(kept),
                       [from](const Setting& setting) { return setting.scope < from; });
  return kept;
}

SettingsJson json_of(std::span<const Setting> settings) {
  SettingsJson json = SettingsJson::array();
  for (const Setting& one : settings)
    json.push_back(
        {one.name, one.value, static_cast<int>(one.scope), one.is_given ? 1 : 0, one.digest});
  return json;
}

std::string limited(const std::vector<std::string>& lines) {
  const std::size_t count = std::min(lines.size(), kShownDifferences);
  std::string text =
      fmt::format("{}", fmt::join(lines.begin(), lines.begin() + static_cast<long>(count), "; "));
  if (lines.size() > count) text += fmt::format("; and {} more", lines.size() - count);
  return text;
}

}  // namespace

std::string setting_text(const Written& value) {
  if (value.kind == Written::Kind::kList && value.items.empty()) return "none";
  if (value.kind == Written::Kind::kList) {
    std::vector<std::string> items;
    for (const Written& one : value.items) items.push_back(millrace::text(one));
    return fmt::format("{}", fmt::join(items, ","));
  }
  return millrace::text(value);
}

std::vector<Setting> component_settings(const Component& component, const std::string& word,
                                        SettingScope scope, const std::string& prefix) {
  const Written whole = written(component);
  std::vector<Setting> settings = {{.name = word, .value = whole.text, .scope = scope}};
  for (const Written& field : whole.items)
    settings.push_back({.name = prefix + "." + field.name,
                        .value = setting_text(field),
                        .scope = SettingScope::kStart});
  return settings;
}

std::vector<std::string> setting_differences(std::span<const Setting> own, std::string_view owner,
                                             std::span<const Setting> other,
                                             std::string_view others) {
  const ByName known = by_name(other);
  std::vector<std::string> given;
  std::vector<std::string> defaults;
  for (const Setting& one : own) {
    const auto found = known.find(one.name);
    if (found == known.end() || same_value(one, *found->second)) continue;
    auto& lines = one.is_given || found->second->is_given ? given : defaults;
    lines.push_back(difference_line(one, owner, *found->second, others));
  }
  return given.empty() ? defaults : given;
}

void check_alike(Cluster& cluster, std::span<const Setting> own) {
  const std::string text = json_of(compared(own, SettingScope::kProcess))
                               .dump(-1, ' ', false, SettingsJson::error_handler_t::replace);
  const auto all = cluster.all_gather(std::as_bytes(std::span(text)));
  const auto settings_of = [&](std::size_t process) {
    return settings_from_json(
        {reinterpret_cast<const char*>(all[process].data()), all[process].size()});
  };
  const std::vector<Setting> first = settings_of(0);
  for (std::size_t process = 1; process < all.size(); ++process) {
    if (all[process] == all.front()) continue;
    const auto lines = setting_differences(first, "in process 0", settings_of(process),
                                           fmt::format("in process {}", process));
    if (lines.empty()) continue;
    cluster.fail_alike();
    throw Error(ErrorCode::kInvalidArgument,
                "the processes of a run need the same options: " + limited(lines));
  }
}

std::string settings_to_json(std::span<const Setting> settings) {
  return json_of(compared(settings, SettingScope::kCall))
      .dump(-1, ' ', false, SettingsJson::error_handler_t::replace);
}

std::vector<Setting> settings_from_json(const std::string& text) {
  try {
    std::vector<Setting> settings;
    for (const auto& one : parse_json<SettingsJson>(text, "settings")) {
      settings.push_back(
          {.name = one.at(0).get<std::string>(),
           .value = one.at(1).get<std::string>(),
           .scope = static_cast<SettingScope>(json_integer<int>(
               one.at(2), "a setting's scope", 0, static_cast<int>(SettingScope::kProcess))),
           .is_given = json_integer<int>(one.at(3), "a setting's origin", 0, 1) == 1,
           .digest = one.at(4).get<std::string>()});
    }
    return settings;
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kCorrupt, "not a list of settings");
  }
}

}  // namespace millrace::trainer
