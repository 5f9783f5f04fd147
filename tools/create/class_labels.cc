#include "tools/create/class_labels.h"

#include <charconv>
#include <optional>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMostNames = 1'000'000;

std::optional<std::int64_t> as_integer(const std::string& text) {
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

}  // namespace

void ClassLabels::add(const std::string& text) {
  if (text.empty()) throw Error(ErrorCode::kCorrupt, "no class");
  if (text.find('\n') != std::string::npos)
    throw Error(ErrorCode::kCorrupt, "a class name of several lines");
  if (!is_utf8(text))
    throw Error(ErrorCode::kCorrupt, "the class name '" + printable(text) +
                                         "' is not UTF-8: convert it, for example by iconv");
  if (names_.contains(text)) return;
  const auto value = as_integer(text);
  if (value && *value < 0) throw Error(ErrorCode::kCorrupt, "class " + text + " is negative");
  if (names_.size() >= kMostNames)
    throw Error(ErrorCode::kExhausted, "more than a million different classes");
  names_[text] = value ? static_cast<std::uint64_t>(*value) : 0;
  if (!value) all_numbers_ = false;
}

void ClassLabels::settle() {
  if (all_numbers_) return;
  std::uint64_t next = 0;
  for (auto& [name, number] : names_) number = next++;
}

std::uint64_t ClassLabels::number(const std::string& text) const { return names_.at(text); }

std::vector<std::string> ClassLabels::names() const {
  std::vector<std::string> names;
  if (all_numbers_) return names;
  for (const auto& [name, number] : names_) names.push_back(name);
  return names;
}

}  // namespace millrace::tools
