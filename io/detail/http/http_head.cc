#include "io/detail/http/http_head.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <ctime>

namespace millrace::io::detail {
namespace {

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

std::string_view trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r\n";
  const std::size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

// Parses `text` as a number; nullopt unless all of it is one.
std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const char* end = text.data() + text.size();
  const auto [stop, fault] = std::from_chars(text.data(), end, value);
  if (text.empty() || fault != std::errc() || stop != end) return std::nullopt;
  return value;
}

// "*" means an unknown number and is valid.
bool number_or_star(std::string_view text, std::optional<std::uint64_t>& value) {
  if (text == "*") return true;
  value = number(text);
  return value.has_value();
}

}  // namespace

std::string_view HttpHead::field(std::string_view name) const {
  const auto found = fields_.find(name);
  return found == fields_.end() ? std::string_view{} : std::string_view(found->second);
}

void HttpHead::add_line(std::string_view line) {
  if (complete_) return;  // trailers
  if (line.starts_with("HTTP/")) {
    const std::string_view code = trim(line.substr(std::min(line.find(' '), line.size())));
    status_ = static_cast<long>(number(code.substr(0, 3)).value_or(0));
    fields_.clear();
  } else if (trim(line).empty()) {
    complete_ = status_ >= 200;
  } else if (const std::size_t colon = line.find(':'); colon != std::string_view::npos) {
    std::string name(line.substr(0, colon));
    std::transform(name.begin(), name.end(), name.begin(), lower);
    fields_[std::move(name)] = trim(line.substr(colon + 1));
  }
}

std::optional<ContentRange> content_range(const HttpHead& head) {
  std::string_view text = head.field("content-range");
  if (!text.starts_with("bytes ")) return std::nullopt;
  text = trim(text.substr(6));
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  ContentRange range;
  if (!number_or_star(text.substr(slash + 1), range.total)) return std::nullopt;
  const std::string_view span = text.substr(0, slash);
  if (span == "*") return range;
  const std::size_t dash = std::min(span.find('-'), span.size() - 1);
  range.first = number(span.substr(0, dash));
  range.last = number(span.substr(dash + 1));
  if (!range.first || !range.last || *range.last < *range.first) return std::nullopt;
  if (range.total && *range.last >= *range.total) return std::nullopt;
  return range;
}

std::optional<std::uint64_t> content_length(const HttpHead& head) {
  return number(head.field("content-length"));
}

std::optional<std::int64_t> server_time(const HttpHead& head) {
  const std::string date(head.field("date"));
  const std::time_t time = curl_getdate(date.c_str(), nullptr);
  return time < 0 ? std::nullopt : std::optional<std::int64_t>(time);
}

std::optional<std::chrono::seconds> retry_after(const HttpHead& head) {
  const std::string text(head.field("retry-after"));
  constexpr std::uint64_t kDay = 86'400;
  if (const auto seconds = number(text)) return std::chrono::seconds(std::min(*seconds, kDay));
  const std::time_t until = curl_getdate(text.c_str(), nullptr);
  if (until < 0) return std::nullopt;
  const std::int64_t now = server_time(head).value_or(std::time(nullptr));
  return std::chrono::seconds(std::clamp<std::int64_t>(until - now, 0, kDay));
}

std::string_view strong_etag(const HttpHead& head) {
  const std::string_view etag = head.field("etag");
  return etag.starts_with('"') ? etag : std::string_view{};
}

}  // namespace millrace::io::detail
