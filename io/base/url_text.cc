#include "io/base/url_text.h"

#include <algorithm>
#include <array>

namespace millrace::io {
namespace {

bool scheme_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '+' ||
         c == '-' || c == '.';
}

char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

}  // namespace

std::string url_scheme(std::string_view url) {
  const std::size_t colon = url.find(':');
  if (colon == 0 || colon == std::string_view::npos) return "";
  std::string scheme(url.substr(0, colon));
  if (!std::all_of(scheme.begin(), scheme.end(), scheme_char)) return "";
  std::ranges::transform(scheme, scheme.begin(), to_lower);
  const bool known = scheme == "file" || scheme == "pipe";
  return known || url.substr(colon).starts_with("://") ? scheme : "";
}

bool is_network_url(const std::string& url) {
  const std::string scheme = url_scheme(url);
  return !scheme.empty() && scheme != "file" && scheme != "pipe";
}

std::size_t query_begin(const std::string& url) {
  constexpr std::array<std::string_view, 3> kOfKeys{"s3", "gs", "hf"};
  const bool keyed = std::ranges::find(kOfKeys, url_scheme(url)) != kOfKeys.end();
  return keyed || !is_network_url(url) ? std::string::npos : url.find_first_of("?#");
}

bool is_stream_url(const std::string& url) { return url == "-" || url_scheme(url) == "pipe"; }

std::string printable_url(const std::string& url) {
  // A local path is printed unchanged: '?' and '#' are ordinary characters there.
  const std::size_t scheme_end = url.find("://");
  if (url_scheme(url).empty() || scheme_end == std::string::npos) return url;
  std::string text = url.substr(0, query_begin(url));
  const std::size_t host = scheme_end + 3;
  const std::size_t path = std::min(text.find('/', host), text.size());
  const std::size_t at = text.rfind('@', path);
  if (at != std::string::npos && at >= host) text.erase(host, at + 1 - host);
  return text;
}

}  // namespace millrace::io
