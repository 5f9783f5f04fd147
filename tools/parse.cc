#include "tools/parse.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::tools {
namespace {

[[noreturn]] void refuse(const std::string& option, const std::string& text, const char* wanted) {
  throw Error(ErrorCode::kInvalidArgument, option + " '" + printable(text) + "': " + wanted);
}

/// The number at the beginning of `text`, and the rest; NaN if there is none.
std::pair<double, std::string> split_number(const std::string& text) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (end == text.c_str()) return {std::nan(""), text};
  return {value, std::string(end)};
}

/// All of `text` as a side's length; 0 if it is not one.
int side_of(std::string_view text) {
  constexpr int kMaxSide = 16'384;
  int side = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), side);
  const bool whole = status == std::errc() && end == text.data() + text.size();
  return whole && side <= kMaxSide ? std::max(side, 0) : 0;
}

/// "HH:MM:SS" in seconds; NaN for anything else.
double clock_seconds(const std::string& text) {
  unsigned hours = 0;
  unsigned minutes = 0;
  unsigned seconds = 0;
  int used = 0;
  const int read = std::sscanf(text.c_str(), "%u:%2u:%2u%n", &hours, &minutes, &seconds, &used);
  if (read != 3 || static_cast<std::size_t>(used) != text.size()) return std::nan("");
  return 3600.0 * hours + 60.0 * minutes + seconds;
}

double seconds_of(const std::string& unit) {
  if (unit == "s") return 1;
  if (unit == "m") return 60;
  return unit == "h" ? 3600 : std::nan("");
}

}  // namespace

decode::Extent parse_extent(const std::string& option, const std::string& text) {
  const std::string_view view = text;
  const std::size_t times = std::min(view.find('x'), view.size());
  const int height = side_of(view.substr(0, times));
  const int width = times == view.size() ? height : side_of(view.substr(times + 1));
  if (height == 0 || width == 0)
    refuse(option, text, "a size is N or HEIGHTxWIDTH, each 1 to 16384");
  return {height, width};
}

std::string extent_text(const decode::Extent& extent) {
  const std::string height = std::to_string(extent.height);
  return extent.height == extent.width ? height : height + "x" + std::to_string(extent.width);
}

std::int64_t number_or_zero(std::string_view text) {
  std::int64_t value = 0;
  const auto* const end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end ? value : 0;
}

std::uint64_t parse_bytes(const std::string& option, const std::string& text) {
  const auto bytes = parse_size(text);
  if (!bytes) refuse(option, text, "must be a size such as 3e9, 500M or 2GiB");
  return *bytes;
}

std::chrono::seconds parse_duration(const std::string& option, const std::string& text) {
  const auto [value, rest] = split_number(text);
  const double seconds = rest.starts_with(':') ? clock_seconds(text) : value * seconds_of(rest);
  if (!(seconds >= 1 && seconds < 1e9))
    refuse(option, text, "must be a time such as 90s, 30m, 12h or 01:30:00");
  return std::chrono::seconds(static_cast<std::int64_t>(seconds));
}

}  // namespace millrace::tools
