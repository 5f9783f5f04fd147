#include "wds/shard_name.h"

#include <charconv>

#include "io/base/error.h"
#include "io/opener.h"

namespace millrace::wds {
namespace {

[[noreturn]] void refuse_pattern(const std::string& message) {
  throw Error(ErrorCode::kInvalidArgument, message);
}

/// A pattern cut at its one conversion: "train-" "%06d" ".tar".
struct Pattern {
  std::string before;
  std::string after;
  std::size_t width = 0;
  bool zeros = false;
};

// Parses the width's digits from `at` on and moves `at` past them.
std::size_t parse_width(const std::string& pattern, std::size_t& at) {
  std::size_t width = 0;
  const char* const begin = pattern.data() + at;
  const auto [end, status] = std::from_chars(begin, pattern.data() + pattern.size(), width);
  at += static_cast<std::size_t>(end - begin);
  if (status == std::errc::result_out_of_range || width > 20) {
    refuse_pattern("the number in a shard pattern has at most 20 digits: " + pattern);
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
          pattern);
}

// User input, so printf is not used: it would interpret every % in it.
Pattern parse_pattern(const std::string& pattern) {
  refuse_packed(pattern);
  const std::size_t percent = pattern.find('%');
  if (percent == std::string::npos || pattern.find('%', percent + 1) != std::string::npos) {
    refuse_pattern("a shard pattern holds one %d or %0Nd: " + pattern);
  }
  Pattern parts{.before = pattern.substr(0, percent), .after = {}};
  std::size_t at = percent + 1;
  if (at < pattern.size() && pattern[at] == '0') {
    parts.zeros = true;
    ++at;
  }
  parts.width = parse_width(pattern, at);
  if (at >= pattern.size() || pattern[at] != 'd') {
    refuse_pattern("a shard pattern holds one %d or %0Nd: " + pattern);
  }
  parts.after = pattern.substr(at + 1);
  return parts;
}

}  // namespace

std::string shard_name(const std::string& pattern, std::uint64_t index) {
  const Pattern parts = parse_pattern(pattern);
  std::string digits = std::to_string(index);
  if (digits.size() < parts.width) {
    digits.insert(0, parts.width - digits.size(), parts.zeros ? '0' : ' ');
  }
  return parts.before + digits + parts.after;
}

bool is_shard_or_index(const std::string& url) {
  const std::string shown = io::printable_url(url);
  return shown.find(".tar") != std::string::npos || shown.ends_with(".tgz") ||
         shown.ends_with(".tgz.index.json");
}

}  // namespace millrace::wds
