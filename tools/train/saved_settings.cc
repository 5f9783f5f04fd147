#include "tools/train/saved_settings.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "decode/transforms.h"
#include "io/base/suggest.h"
#include "io/component/component_text.h"
#include "tools/option_aliases.h"
#include "trainer/update_rule.h"

namespace millrace::tools {
namespace {

using trainer::Setting;

constexpr std::string_view kDashes = "--";

std::string without_dashes(const std::string& name) {
  return name.starts_with(kDashes) ? name.substr(kDashes.size()) : std::string();
}

std::vector<std::string> names_of(std::span<const Setting> settings) {
  std::vector<std::string> names;
  std::ranges::transform(settings, std::back_inserter(names),
                         [](const Setting& one) { return without_dashes(one.name); });
  return names;
}

/// The setting of an option; null for none.
template <typename Settings>
auto* setting_called(Settings& settings, std::string_view name) {
  const auto found = std::ranges::find_if(settings, [&](const Setting& one) {
    return one.name.starts_with(kDashes) && std::string_view(one.name).substr(2) == name;
  });
  return found == settings.end() ? nullptr : &*found;
}

/// What an option's value was called.
void rename_word(Setting& setting) {
  const std::string name = without_dashes(setting.name);
  for (const WordAlias& alias : word_aliases())
    if (alias.option == name && !alias.known.empty() &&
        plain_name(alias.word) == plain_name(setting.value))
      setting.value = alias.known;
}

/// "[group(...)]" as a setting has it.
std::string as_setting(const std::string& value) {
  return trainer::setting_text(written_calls(value).items.at(0));
}

/// Whether the option of before says something: it is no flag that is off, and not the 0 that
/// leaves all to another option.
bool says_something(const Setting& setting, const KnownOption& known) {
  if (!known.value.empty()) return setting.value == "true";
  return known.unit.empty() || setting.value != "0";
}

/// What an option that says nothing stands for, as the run of now writes it.
std::string nothing(const KnownOption& known, const Setting& now) {
  const bool is_nothing = now.value == "0" || now.value == "none";
  return is_nothing && !known.off.empty() ? now.value : known.off;
}

/// Transforms with all fields that they have now: one that was added has its default.
std::string transforms_of_now(const std::string& calls) {
  std::vector<std::string> whole;
  for (const Component& one : components_of(written_calls(calls), decode::standard_transforms()))
    whole.push_back(text(written(one)));
  return fmt::format("{}", fmt::join(whole, ", "));
}

/// The same of groups of parameters.
std::string groups_of_now(const std::string& calls) {
  std::vector<trainer::ParameterGroup> groups;
  const ValueType& type = millrace::value_type(groups);
  type.read(written_calls(calls), &groups);
  return trainer::setting_text(type.write(&groups, ValueType::Form::kWhole));
}

void add_new_fields(Setting& setting) {
  if (setting.value.find('(') == std::string::npos) return;  // "none", or the name of a list
  try {
    if (setting.name == "--augment") setting.value = transforms_of_now(setting.value);
    if (setting.name == "--optimizer.groups") setting.value = groups_of_now(setting.value);
  } catch (const Mistake&) {  // what is no more
  }
}

/// How much a setting counts, where several say the same option: what one of before says, before
/// what the one of now does, and that before the one that says nothing.
enum class Weight { kSaid, kOwn, kNothing };

/// Gives the setting its name and value of now.
Weight renew(Setting& setting, const KnownOption& known, std::span<const Setting> now) {
  if (known.name.empty() || known.name == without_dashes(setting.name)) {
    rename_word(setting);
    return Weight::kOwn;
  }
  const bool says = says_something(setting, known);
  setting.name = std::string(kDashes) + known.name;
  setting.value = !says                 ? nothing(known, *setting_called(now, known.name))
                  : known.value.empty() ? known.valued(setting.value)
                                        : as_setting(known.value);
  return says ? Weight::kSaid : Weight::kNothing;
}

}  // namespace

std::vector<Setting> renewed_settings(std::vector<Setting> saved, std::span<const Setting> now) {
  join_values([&](std::string_view name) {
    Setting* found = setting_called(saved, name);
    return found == nullptr ? nullptr : &found->value;
  });
  const std::vector<std::string> names = names_of(now);
  std::map<Weight, std::vector<Setting>> weighted;
  for (Setting& one : saved) {
    const KnownOption known = known_among(names, without_dashes(one.name));
    const Weight weight = renew(one, known, now);
    add_new_fields(one);
    if (weight != Weight::kNothing || !one.value.empty()) weighted[weight].push_back(one);
  }
  std::vector<Setting> renewed;
  for (const auto& [weight, settings] : weighted)
    for (const Setting& one : settings)
      if (std::ranges::find(renewed, one.name, &Setting::name) == renewed.end())
        renewed.push_back(one);
  return renewed;
}

}  // namespace millrace::tools
