#include "tools/toml.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <toml++/toml.h>

#include <algorithm>
#include <cctype>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/component/component_text.h"

namespace millrace::tools {
namespace {

/// "lenet" of `model = lenet`: the commonest slip; else empty.
std::string word_without_quotes(std::string_view line) {
  const auto is_blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
  const std::size_t equals = line.find('=');
  if (equals == std::string_view::npos) return {};
  std::string_view value = line.substr(equals + 1);
  value = value.substr(0, value.find('#'));
  while (!value.empty() && is_blank(value.front())) value.remove_prefix(1);
  while (!value.empty() && is_blank(value.back())) value.remove_suffix(1);
  if (value.empty() || std::isalpha(static_cast<unsigned char>(value.front())) == 0) return {};
  return std::string(value);
}

std::string_view text_of_line(std::string_view text, std::size_t line) {
  for (; line > 1 && !text.empty(); --line) {
    const std::size_t end = text.find('\n');
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
  }
  return text.substr(0, text.find('\n'));
}

std::size_t line_number(const toml::source_region& place) {
  return static_cast<std::size_t>(place.begin.line);
}

class EntryList {
 public:
  EntryList(std::string path, const toml::table& table) : path_(std::move(path)) {
    add_members("", table);
    std::ranges::stable_sort(entries_, {}, &TomlEntry::line);
  }

  std::vector<TomlEntry> take() { return std::move(entries_); }

 private:
  [[noreturn]] void refuse(const std::string& what, const toml::node& at) const {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}: {}", path_, line_number(at.source()), what));
  }

  void add_members(const std::string& before, const toml::table& table) {
    for (const auto& [key, value] : table)
      add(before + std::string(key.str()), value, key.source());
  }

  void add(const std::string& key, const toml::node& value, const toml::source_region& place) {
    if (const toml::table* table = value.as_table(); table && !table->contains("name")) {
      if (table->empty()) refuse(printable(key) + " is an empty table", value);
      return add_members(key + ".", *table);
    }
    TomlEntry entry{.key = key, .line = std::max<std::size_t>(line_number(place), 1)};
    const toml::array* array = value.as_array();
    entry.array = array != nullptr && std::ranges::all_of(*array, [](const toml::node& item) {
                    return item.is_value();
                  });
    if (!entry.array)
      entry.values = {array ? list_of(*array) : text_of(value)};
    else
      for (const toml::node& item : *array) entry.values.push_back(text_of(item));
    entries_.push_back(std::move(entry));
  }

  /// As the command line takes it.
  std::string text_of(const toml::node& value) const {
    return value.is_string() ? value.as_string()->get() : text(written_of(value));
  }

  std::string list_of(const toml::array& array) const {
    std::vector<std::string> items;
    for (const toml::node& item : array) items.push_back(text(written_of(item)));
    return fmt::format("{}", fmt::join(items, ", "));
  }

  /// As io/component has values; a table with a name is a call.
  Written written_of(const toml::node& value) const {
    using Kind = Written::Kind;
    if (const auto* word = value.as_string())
      return {.kind = word->get() == "none" ? Kind::kNone : Kind::kWord, .text = word->get()};
    if (const auto* flag = value.as_boolean())
      return {.kind = Kind::kBool, .text = flag->get() ? "true" : "false"};
    if (const auto* number = value.as_integer())
      return {.kind = Kind::kNumber, .text = std::to_string(number->get())};
    if (const auto* number = value.as_floating_point())
      return {.kind = Kind::kNumber, .text = fmt::format("{}", number->get())};
    if (const auto* table = value.as_table()) return call_of(*table);
    if (const auto* array = value.as_array()) {
      Written list{.kind = Kind::kList};
      for (const toml::node& item : *array) list.items.push_back(written_of(item));
      return list;
    }
    refuse("no option takes a date or a time", value);
  }

  Written call_of(const toml::table& table) const {
    const toml::node* name = table.get("name");
    if (name == nullptr || !name->is_string()) refuse("a table here needs a name", table);
    Written call{.kind = Written::Kind::kCall, .text = name->as_string()->get()};
    for (const auto& [key, value] : table) {
      if (key.str() == "name") continue;
      call.items.push_back(written_of(value));
      call.items.back().name = key.str();
    }
    return call;
  }

  std::string path_;
  std::vector<TomlEntry> entries_;
};

std::string read_all_of(std::istream& input, const std::string& path) {
  std::string text(kMaxTomlBytes + 1, '\0');
  input.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(input.gcount()));
  require(text.size() <= kMaxTomlBytes, path + " is not a configuration file: it is over 1 MiB");
  return text;
}

}  // namespace

std::vector<TomlEntry> read_toml(std::istream& input, const std::string& path) {
  const std::string text = read_all_of(input, path);
  try {
    return EntryList(path, toml::parse(text)).take();
  } catch (const toml::parse_error& error) {
    const std::size_t line = line_number(error.source());
    const std::string word = word_without_quotes(text_of_line(text, line));
    const std::string what =
        word.empty() ? printable(std::string(error.description()))
                     : fmt::format("words need quotes in TOML: \"{}\"", printable(word));
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{}:{}: {}", path, line, what));
  }
}

}  // namespace millrace::tools
