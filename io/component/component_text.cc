#include "io/component/component_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "io/base/suggest.h"
#include "io/base/wrap.h"

namespace millrace {
namespace {

using Kind = Written::Kind;
using Form = ValueType::Form;

std::string joined(const std::vector<std::string>& parts, std::string_view between = ", ") {
  std::string text;
  for (const std::string& part : parts) text.append(text.empty() ? "" : between).append(part);
  return text;
}

// Quoted only where it would be read as something else.
std::string word_text(const std::string& word) {
  if (!word.empty() && word != "none" && word.find_first_of(" \t\r\n,()[]{}=\"'\\") == word.npos)
    return word;
  std::string quoted;
  for (const char letter : word)
    quoted.append(letter == '"' || letter == '\\' ? 1 : 0, '\\') += letter;
  return '"' + quoted + '"';
}

std::string items_text(const Written& value, std::string_view between = ", ") {
  std::vector<std::string> parts;
  for (const Written& one : value.items) {
    const bool flag = one.kind == Kind::kBool && one.text == "true" && !one.name.empty();
    parts.push_back(flag ? one.name : one.name.empty() ? text(one) : one.name + "=" + text(one));
  }
  return joined(parts, between);
}

// A value as Python's source.
std::string python_text(const Written& value, const ValueType& type) {
  std::vector<std::string> parts;
  for (const Written& one : value.items)
    parts.push_back((one.name.empty() ? "" : one.name + "=") + python_text(one, type));
  switch (value.kind) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return value.text == "true" ? "True" : "False";
    case Kind::kNumber:
      return value.text;
    case Kind::kWord:
      return "'" + value.text + "'";
    case Kind::kInterval:
    case Kind::kList:
      return "(" + joined(parts) + (parts.size() == 1 ? ",)" : ")");
    case Kind::kCall:
      return type.python() + "(" + joined(parts) + ")";
  }
  return {};
}

bool is_required(const Field& usual) { return !usual.in_range(); }

// Both are written as a whole: with every field, in the same order.
void add_differences(const Written& a, const Written& b, std::string_view here,
                     std::string_view there, const std::string& path,
                     std::vector<std::string>& lines) {
  for (std::size_t i = 0; i < a.items.size(); ++i) {
    const Written& one = a.items[i];
    const Written& other = b.items[i];
    if (one == other) continue;
    if (one.kind == Kind::kCall && other.kind == Kind::kCall && one.text == other.text)
      add_differences(one, other, here, there, path + one.name + ".", lines);
    else
      lines.push_back(
          fmt::format("{}{}: {} {}, {} {}", path, one.name, text(one), here, text(other), there));
  }
}

std::string facts(const Field& usual) {
  std::string text = usual.range.text();
  const Written value = usual.type->write(usual.value, Form::kShortest);
  if (is_required(usual)) return " (" + text + (text.empty() ? "" : "; ") + "required)";
  if (!text.empty()) text = " (" + text + ")";
  const bool nothing =
      value.kind == Kind::kNone || (value.kind == Kind::kList && value.items.empty());
  return nothing ? text : text + " [" + millrace::text(value) + "]";
}

}  // namespace

Written written(const Component& component) {
  return component.type().write(component.value(), Form::kWhole);
}

std::string text(const Written& value) {
  switch (value.kind) {
    case Kind::kInterval:
      return items_text(value, "..");
    case Kind::kList:
      return "[" + items_text(value) + "]";
    case Kind::kCall:
      return value.text + (value.items.empty() ? "" : "(" + items_text(value) + ")");
    case Kind::kWord:
      return word_text(value.text);
    default:
      return value.text;
  }
}

std::string text(const Component& component) {
  return text(component.type().write(component.value(), Form::kShortest));
}

std::vector<std::string> differences(const Component& a, const Component& b, std::string_view here,
                                     std::string_view there) {
  if (&a.type() != &b.type()) return {fmt::format("{} {}, {} {}", text(a), here, text(b), there)};
  std::vector<std::string> lines;
  add_differences(written(a), written(b), here, there, std::string(a.type().name().word) + ".",
                  lines);
  return lines;
}

std::string usage(const StructType& type) {
  std::vector<std::string> parts;
  for (const Field& field : type.fields(type.usual())) {
    const Written usual = field.type->write(field.value, Form::kShortest);
    const bool flag = usual.kind == Kind::kBool && usual.text == "false";
    const bool empty =
        usual.kind == Kind::kNone || (usual.kind == Kind::kList && usual.items.empty());
    const bool plain = flag || empty || is_required(field);
    parts.push_back(plain ? std::string(field.name)
                          : fmt::format("{}={}", field.name, text(usual)));
  }
  return fmt::format("{}({})", type.name().word, joined(parts));
}

namespace {

/// "NAME one|two|three", in lines of a terminal, each of which begins with a bar.
std::string with_alternatives(std::string_view name, const std::string& shown) {
  constexpr std::size_t kWidth = 78;  // beside help_entry()'s indent
  constexpr std::size_t kIndent = 4;
  const std::string_view words = shown;
  std::string lines = fmt::format("{} ", name);
  std::size_t column = lines.size();
  for (std::size_t begin = 0; begin < words.size();) {
    const std::size_t end = std::min(words.find('|', begin + 1), words.size());
    if (column + end - begin > kWidth) {
      lines += fmt::format("\n{:{}}", "", 2 + kIndent);
      column = kIndent;
    }
    lines += words.substr(begin, end - begin);
    column += end - begin;
    begin = end;
  }
  return lines;
}

}  // namespace

std::string help(const StructType& type) {
  constexpr std::size_t kIndent = 2;
  const std::string head = fmt::format("{}: {} ({} in Python)", type.name().word,
                                       type.name().sentence, type.name().python);
  std::string lines = fmt::format("{}\n  {}\n", wrapped(head, 0, kIndent),
                                  wrapped(usage(type), kIndent, 2 * kIndent));
  for (const Field& field : type.fields(type.usual()))
    lines += help_entry(with_alternatives(field.name, field.type->shown()),
                        std::string(field.sentence) + facts(field));
  return lines;
}

std::string help(const Table& table) {
  constexpr std::size_t kIndent = 2;
  constexpr std::size_t kLeastColumn = 15;
  std::size_t column = kLeastColumn;
  for (const Component& one : table.all())
    column = std::max(column, kIndent + one.type().name().word.size() + 2);
  std::string lines;
  for (const Component& one : table.all())
    lines += fmt::format("{:{}}{:<{}}{}\n", "", kIndent, one.type().name().word, column - kIndent,
                         wrapped(std::string(one.type().name().sentence), column, column));
  return lines;
}

std::string python_arguments(const StructType& type) {
  std::string arguments = "self";
  bool by_place = true;
  for (const Field& field : type.fields(type.usual())) {
    if (by_place && !field.by_place) arguments += ", *";
    by_place = field.by_place;
    arguments += fmt::format(", {}: {}", field.name, field.type->python());
    if (is_required(field)) continue;
    arguments += " = " + python_text(field.type->write(field.value, Form::kShortest), *field.type);
  }
  return arguments;
}

std::string pointed_at(std::string_view source, const Mistake& mistake) {
  const std::size_t length = std::max<std::size_t>(mistake.end, mistake.begin + 1) - mistake.begin;
  return fmt::format("column {}: {}\n  {}\n  {:>{}}{}", mistake.begin + 1, mistake.message(),
                     source, '^', mistake.begin + 1, std::string(length - 1, '~'));
}

std::string or_names(std::string_view word, std::span<const std::string> words) {
  const std::string near = did_you_mean(word, words);
  return near.empty() ? "; there are " + joined({words.begin(), words.end()}) : near;
}

}  // namespace millrace
