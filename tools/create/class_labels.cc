#include "tools/create/class_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/text_edit.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMostNames = 1'000'000;

/// Also "2.0", as pandas writes a column of integers in which one was missing.
std::optional<std::int64_t> as_integer(const std::string& text) {
  std::int64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, status] = std::from_chars(text.data(), last, value);
  if (status != std::errc()) return {};
  if (end != last && (*end != '.' || std::any_of(end + 1, last, [](char c) { return c != '0'; })))
    return {};
  return value;
}

[[noreturn]] void refuse_one_class(const std::string& one, const std::string& other) {
  throw Error(ErrorCode::kCorrupt, "'" + printable(one) + "' and '" + printable(other) +
                                       "' would be one class: write it in one way");
}

}  // namespace

void ClassLabels::check_same_space(const std::string& name, const std::string& raw) const {
  const auto found = spaced_.find(name);
  const std::string& before = found == spaced_.end() ? name : found->second;
  if (before != raw) refuse_one_class(before, raw);
}

void ClassLabels::check_numbers() const {
  std::map<std::uint64_t, const std::string*> texts;
  for (const auto& [text, number] : names_)
    if (const auto [found, is_new] = texts.emplace(number, &text); !is_new)
      refuse_one_class(*found->second, text);
}

void ClassLabels::add(const std::string& raw) {
  const std::string text(trimmed(raw));
  if (text.empty()) throw Error(ErrorCode::kCorrupt, "no class");
  if (text.find('\n') != std::string::npos)
    throw Error(ErrorCode::kCorrupt, "a class name of several lines");
  if (!is_utf8(text))
    throw Error(ErrorCode::kCorrupt, "the class name '" + printable(text) +
                                         "' is not UTF-8: convert it, for example by iconv");
  if (names_.contains(text)) return check_same_space(text, raw);
  const auto value = as_integer(text);
  if (value && *value < 0) throw Error(ErrorCode::kCorrupt, "class " + text + " is negative");
  if (names_.size() >= kMostNames)
    throw Error(ErrorCode::kExhausted, "more than a million different classes");
  if (raw != text) spaced_[text] = raw;
  names_[text] = value ? static_cast<std::uint64_t>(*value) : 0;
  ++(value ? num_numbers_ : num_words_);
}

void ClassLabels::settle() {
  if (num_words_ == 0) return check_numbers();
  std::uint64_t next = 0;
  for (auto& [name, number] : names_) number = next++;
}

std::uint64_t ClassLabels::number(const std::string& text) const {
  return names_.at(std::string(trimmed(text)));
}

std::vector<std::string> ClassLabels::names() const {
  std::vector<std::string> names;
  if (num_words_ == 0) return names;
  for (const auto& [name, number] : names_) names.push_back(name);
  return names;
}

void ClassLabels::warn_if_mixed(const Log& log) const {
  if (num_words_ == 0 || num_numbers_ == 0) return;
  const auto is_word = [](const auto& entry) { return !as_integer(entry.first); };
  const auto word = std::find_if(names_.begin(), names_.end(), is_word);
  const auto number = std::find_if_not(names_.begin(), names_.end(), is_word);
  log.warn(
      fmt::format("{} by name, sorted and numbered anew: '{}' is no whole number, so '{}' is "
                  "a name too, of label {}",
                  counted(names_.size(), "class"), printable(word->first), printable(number->first),
                  number->second));
}

}  // namespace millrace::tools
