#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <utility>

#include "io/base/error.h"
#include "wds/printable_spec.h"
#include "wds/shard_spec.h"

namespace millrace::wds {
namespace {

using Names = std::vector<std::string>;

// No real shard set nests deeper, and a pattern of a million braces must not exhaust the stack.
constexpr int kMaxDepth = 64;
// Maximum total size of all names, so that a long pattern cannot expand to gigabytes.
constexpr std::size_t kMaxTotalBytes = std::size_t{512} * 1024 * 1024;

[[noreturn]] void invalid(std::string_view pattern, const std::string& what) {
  constexpr std::size_t kShown = 200;
  throw Error(
      ErrorCode::kInvalidArgument,
      what + " in shard pattern '" + printable_spec(std::string(pattern)).substr(0, kShown) + "'");
}

bool is_digits(std::string_view text) {
  return !text.empty() &&
         std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}
bool is_integer(std::string_view text) {
  return is_digits(text.starts_with('-') ? text.substr(1) : text);
}
bool is_letter(std::string_view text) {
  return text.size() == 1 &&
         ((text[0] >= 'A' && text[0] <= 'Z') || (text[0] >= 'a' && text[0] <= 'z'));
}

// The order of letters in a range: "A..Z", then "a..z".
int letter_index(char c) { return c >= 'a' ? 26 + (c - 'a') : c - 'A'; }
char letter_at(std::int64_t index) {
  return static_cast<char>(index < 26 ? 'A' + index : 'a' + (index - 26));
}

/// The parts of a range expression, first..last..step.
struct Range {
  std::string_view first, last;
  std::int64_t step = 1;
};

class Expander {
 public:
  Expander(std::string_view pattern, std::size_t max_names)
      : whole_(pattern), max_names_(max_names) {}

  Names expand() {
    Names names = pattern(whole_, 0);
    for (std::string& name : names) name = unescaped(name);
    return names;
  }

 private:
  Names pattern(std::string_view text, int depth) {
    if (depth > kMaxDepth) invalid(whole_, "braces nest too deep");
    Names names{""};
    std::size_t start = 0;
    while (start < text.size()) {
      const std::size_t open = find_unescaped(text, start, '{');
      append(names, text.substr(start, open - start));
      if (open == text.size()) break;
      const std::size_t close = matching_brace(text, open);
      multiply(names, expression(text.substr(open + 1, close - open - 1), depth));
      start = close + 1;
    }
    return names;
  }

  // The text between two braces: a range, a list, or neither, in which case the braces are kept.
  Names expression(std::string_view text, int depth) {
    if (const auto range = parse_range(text)) return expand_range(*range);
    Names names;
    std::size_t start = 0;
    for (std::size_t comma; (comma = find_comma(text, start)) != text.size(); start = comma + 1) {
      extend(names, pattern(text.substr(start, comma - start), depth + 1));
    }
    Names last = pattern(text.substr(start), depth + 1);
    if (start > 0) {
      extend(names, std::move(last));
      return names;
    }
    for (std::string& name : last) name = std::string(1, '{') + name + '}';
    return last;
  }

  std::optional<Range> parse_range(std::string_view text) const {
    const std::size_t dots = text.find("..");
    if (dots == std::string_view::npos) return {};
    Range range{text.substr(0, dots), text.substr(dots + 2)};
    if (const std::size_t more = range.last.find(".."); more != std::string_view::npos) {
      std::string_view step = range.last.substr(more + 2);
      range.last = range.last.substr(0, more);
      if (step.starts_with('-')) step.remove_prefix(1);
      if (!is_digits(step)) return {};
      range.step = std::max<std::int64_t>(1, to_int(step));
    }
    const bool letters = is_letter(range.first) && is_letter(range.last);
    const bool integers = is_integer(range.first) && is_integer(range.last);
    if (!letters && !integers) return {};
    return range;
  }

  Names expand_range(const Range& range) {
    const bool letters = is_letter(range.first);
    const std::int64_t first = letters ? letter_index(range.first[0]) : to_int(range.first);
    const std::int64_t last = letters ? letter_index(range.last[0]) : to_int(range.last);
    const auto distance = static_cast<std::uint64_t>(first < last ? last - first : first - last);
    const std::uint64_t count = distance / static_cast<std::uint64_t>(range.step) + 1;
    check_size(count, 1);
    const std::size_t width = padded_width(range);
    Names names;
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto moved = static_cast<std::int64_t>(i) * range.step;
      const std::int64_t value = first < last ? first + moved : first - moved;
      names.push_back(letters ? std::string(1, letter_at(value)) : padded(value, width));
    }
    return names;
  }

  // A leading zero at either end pads all numbers to the longer end's width, sign included.
  static std::size_t padded_width(const Range& range) {
    const auto pads = [](std::string_view end) {
      return end != "0" && end != "-0" && (end.starts_with('0') || end.starts_with("-0"));
    };
    return pads(range.first) || pads(range.last) ? std::max(range.first.size(), range.last.size())
                                                 : 0;
  }
  static std::string padded(std::int64_t value, std::size_t width) {
    std::string digits = std::to_string(value < 0 ? -value : value);
    const std::size_t sign = value < 0 ? 1 : 0;
    if (digits.size() + sign < width) digits.insert(0, width - sign - digits.size(), '0');
    return sign == 1 ? "-" + digits : digits;
  }

  std::int64_t to_int(std::string_view text) const {
    std::int64_t value = 0;
    const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
    constexpr std::int64_t kMost = std::int64_t{1} << 60;
    if (result.ec != std::errc() || value > kMost || value < -kMost) {
      invalid(whole_, "number out of range");
    }
    return value;
  }

  static std::size_t find_unescaped(std::string_view text, std::size_t from, char wanted) {
    for (std::size_t i = from; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == wanted) {
        return i;
      }
    }
    return text.size();
  }
  // Finds unescaped commas outside of inner braces.
  static std::size_t find_comma(std::string_view text, std::size_t from) {
    int depth = 0;
    for (std::size_t i = from; i < text.size(); ++i) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '{')
        ++depth;
      else if (text[i] == '}')
        --depth;
      else if (text[i] == ',' && depth == 0)
        return i;
    }
    return text.size();
  }
  std::size_t matching_brace(std::string_view text, std::size_t open) const {
    int depth = 0;
    for (std::size_t i = open; i < text.size(); ++i) {
      if (text[i] == '\\')
        ++i;
      else if (text[i] == '{')
        ++depth;
      else if (text[i] == '}' && --depth == 0)
        return i;
    }
    invalid(whole_, "unbalanced braces");
  }

  void append(Names& names, std::string_view literal) {
    if (find_unescaped(literal, 0, '}') != literal.size()) invalid(whole_, "unbalanced braces");
    if (literal.size() > kMaxTotalBytes / names.size())
      invalid(whole_, "names too long altogether");
    for (std::string& name : names) name += literal;
  }
  void extend(Names& names, Names more) {
    check_size(names.size() + more.size(), 1);
    std::move(more.begin(), more.end(), std::back_inserter(names));
  }
  void multiply(Names& names, const Names& endings) {
    check_size(names.size(), endings.size());
    Names product;
    product.reserve(names.size() * endings.size());
    std::size_t bytes = 0;
    for (const std::string& name : names) {
      for (const std::string& ending : endings) {
        bytes += name.size() + ending.size();
        if (bytes > kMaxTotalBytes) invalid(whole_, "names too long altogether");
        product.push_back(name + ending);
      }
    }
    names = std::move(product);
  }
  void check_size(std::uint64_t count, std::uint64_t times) const {
    if (count > max_names_ / times) {
      invalid(whole_, "more than " + std::to_string(max_names_) + " names");
    }
  }

  static std::string unescaped(const std::string& name) {
    std::string plain;
    for (std::size_t i = 0; i < name.size(); ++i) {
      if (name[i] == '\\' && i + 1 < name.size()) ++i;
      plain += name[i];
    }
    return plain;
  }

  std::string_view whole_;
  std::size_t max_names_;
};

}  // namespace

std::vector<std::string> expand_braces(std::string_view pattern, std::size_t max_names) {
  return Expander(pattern, max_names).expand();
}

std::string printable_spec(const std::string& text) {
  std::string shown;
  std::size_t begin = 0;
  for (std::size_t scheme = text.find("://"); scheme != std::string::npos;
       scheme = text.find("://", begin)) {
    const std::size_t user = scheme + 3;
    const std::size_t path = std::min(text.find_first_of("/?#", user), text.size());
    const std::size_t at = text.substr(user, path - user).rfind('@');
    const std::size_t host = at != std::string::npos ? user + at + 1 : user;
    const std::size_t mark = text.find_first_of("?#", path);
    std::size_t end = std::min(text.find("::", path), text.size());
    // Another url between braces; one in a query goes with that.
    if (const std::size_t next = text.find("://", path); next < mark) end = std::min(end, next);
    const std::size_t query = std::min(mark, end);
    shown += text.substr(begin, user - begin) + text.substr(host, query - host);
    begin = end;
  }
  return shown + text.substr(begin);
}

}  // namespace millrace::wds
