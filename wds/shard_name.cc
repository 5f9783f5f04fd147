#include "wds/shard_name.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "io/base/error.h"
#include "io/base/url_text.h"
#include "io/opener.h"

namespace millrace::wds {
namespace {

[[noreturn]] void refuse_pattern(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// "%06d".
struct Conversion {
  std::size_t begin = 0;
  std::size_t end = 0;
  std::size_t width = 0;
  bool zeros = false;
};

[[noreturn]] void refuse_number(const std::string& pattern) {
  refuse_pattern("a shard pattern holds one %d or %0Nd: " + io::printable_url(pattern));
}

// Parses the width's digits from `at` on and moves `at` past them.
std::size_t parse_width(const std::string& pattern, std::size_t& at) {
  std::size_t width = 0;
  const char* const begin = pattern.data() + at;
  const auto [end, status] = std::from_chars(begin, pattern.data() + pattern.size(), width);
  at += static_cast<std::size_t>(end - begin);
  if (status == std::errc::result_out_of_range || width > 20) {
    refuse_pattern("the number in a shard pattern has at most 20 digits: " +
                   io::printable_url(pattern));
  }
  return width;
}

// A reader goes by the content, but what else opens "a.tar.gz" goes by its name.
void refuse_packed(const std::string& pattern) {
  for (const char* end : {".gz", ".tgz", ".bz2", ".tbz2", ".xz", ".txz", ".zst", ".tzst", ".lz4"})
    if (pattern.ends_with(end))
      refuse_pattern(
          "shards are written as plain tars, so that each sample is found in them: end "
          "the pattern in .tar, and pack them afterwards if they must be: " +
          io::printable_url(pattern));
}

// "%20" of a url, and what else is no number: not "%06d", nor the beginning of "%d0".
bool is_escape(const std::string& pattern, std::size_t at) {
  const auto is_hex = [&](std::size_t i) {
    return i < pattern.size() && std::isxdigit(static_cast<unsigned char>(pattern[i])) != 0;
  };
  return io::is_network_url(pattern) && is_hex(at + 1) && is_hex(at + 2) &&
         pattern[at + 1] != '0' && pattern[at + 1] != 'd';
}

Conversion conversion_at(const std::string& pattern, std::size_t begin) {
  std::size_t at = begin + 1;
  const bool zeros = at < pattern.size() && pattern[at] == '0';
  if (zeros) ++at;
  const std::size_t width = parse_width(pattern, at);
  if (at >= pattern.size() || pattern[at] != 'd') refuse_number(pattern);
  return {.begin = begin, .end = at + 1, .width = width, .zeros = zeros};
}

// User input, so printf is not used: it would interpret every % in it.
Conversion find_conversion(const std::string& pattern) {
  refuse_packed(pattern);
  std::optional<Conversion> found;
  for (std::size_t at = pattern.find('%'); at != pattern.npos; at = pattern.find('%', at + 1)) {
    if (is_escape(pattern, at)) continue;
    if (found) refuse_number(pattern);
    found = conversion_at(pattern, at);
  }
  if (!found) refuse_number(pattern);
  return *found;
}

}  // namespace

std::string shard_name(const std::string& pattern, std::uint64_t index) {
  const Conversion number = find_conversion(pattern);
  std::string digits = std::to_string(index);
  if (digits.size() < number.width) {
    digits.insert(0, number.width - digits.size(), number.zeros ? '0' : ' ');
  }
  return pattern.substr(0, number.begin) + digits + pattern.substr(number.end);
}

AroundNumber around_number(const std::string& pattern) {
  const Conversion number = find_conversion(pattern);
  const std::string before = pattern.substr(0, number.begin);
  const std::string after = pattern.substr(number.end);
  if (after.substr(0, after.find('?')).find('/') != after.npos)
    refuse_pattern(io::printable_url(pattern) +
                   ": the shards' number (%06d) must be in the file's name");
  return {.before = before.substr(before.rfind('/') + 1), .after = after};
}

std::string AroundNumber::digits_in(const std::string& name) const {
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return {};
  std::string digits = name.substr(before.size(), name.size() - before.size() - after.size());
  const bool all = digits.size() < 18 && digits.find_first_not_of("0123456789") == digits.npos;
  return all ? digits : std::string();
}

bool is_shard_or_index(const std::string& url) {
  const std::size_t query = std::min(io::query_begin(url), url.size());
  const std::string shown = io::printable_url(url);
  return shown.find(".tar") != std::string::npos || shown.ends_with(".tgz") ||
         shown.ends_with(".tgz.index.json") ||
         url.find(".tar", query) != std::string::npos;  // "/get?file=a.tar"
}

}  // namespace millrace::wds
