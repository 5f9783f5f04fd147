#include "io/detail/http/url.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "io/base/error.h"
#include "io/base/url_text.h"
#include "io/detail/http/curl.h"

namespace millrace::io::detail {
namespace {

constexpr std::string_view kUnreserved =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";

char to_lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// "%2D" is "-", and "%c3" is "%C3"; "%2F" is no slash.
std::string without_needless_escapes(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned value = 0;
    const bool escaped = text[i] == '%' && i + 2 < text.size() &&
                         std::from_chars(text.data() + i + 1, text.data() + i + 3, value, 16).ptr ==
                             text.data() + i + 3;
    if (!escaped) {
      plain += text[i];
      continue;
    }
    const char byte = static_cast<char>(value);
    plain += percent_encoded({&byte, 1});
    i += 2;
  }
  return plain;
}

void set_url(CURLU* handle, const std::string& url) {
  if (const CURLUcode code = curl_url_set(handle, CURLUPART_URL, url.c_str(), CURLU_PATH_AS_IS);
      code != CURLUE_OK) {
    throw Error(ErrorCode::kInvalidArgument, std::string("not a url: ") + curl_url_strerror(code),
                {.url = url});
  }
}

CurlUrl parse(const std::string& url) {
  CurlUrl handle(curl_url());
  set_url(handle.get(), url);
  return handle;
}

std::string part(const CurlUrl& handle, CURLUPart what, unsigned flags = 0) {
  char* text = nullptr;
  if (curl_url_get(handle.get(), what, &text, flags) != CURLUE_OK) return "";
  const CurlText owner(text);
  return owner.get();
}

}  // namespace

void check_url(const std::string& url) { parse(url); }

bool same_origin(const std::string& a, const std::string& b) {
  const CurlUrl left = parse(a);
  const CurlUrl right = parse(b);
  const std::array parts{CURLUPART_SCHEME, CURLUPART_HOST, CURLUPART_PORT};
  return std::all_of(parts.begin(), parts.end(), [&](CURLUPart what) {
    return part(left, what, CURLU_DEFAULT_PORT) == part(right, what, CURLU_DEFAULT_PORT);
  });
}

std::string normal_url(const std::string& url) {
  const CurlUrl handle(curl_url());
  if (curl_url_set(handle.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return url;
  std::string host = part(handle, CURLUPART_HOST);
  std::ranges::transform(host, host.begin(), to_lower);
  const std::filesystem::path path(without_needless_escapes(part(handle, CURLUPART_PATH)));
  const std::string query = without_needless_escapes(part(handle, CURLUPART_QUERY));
  curl_url_set(handle.get(), CURLUPART_HOST, host.c_str(), 0);
  curl_url_set(handle.get(), CURLUPART_PATH, path.lexically_normal().c_str(), 0);
  curl_url_set(handle.get(), CURLUPART_QUERY, query.empty() ? nullptr : query.c_str(), 0);
  curl_url_set(handle.get(), CURLUPART_FRAGMENT, nullptr, 0);
  return part(handle, CURLUPART_URL, CURLU_NO_DEFAULT_PORT);
}

std::string url_host(const std::string& url) {
  const CurlUrl handle(curl_url());
  if (curl_url_set(handle.get(), CURLUPART_URL, url.c_str(), 0) != CURLUE_OK) return "";
  return part(handle, CURLUPART_HOST) + ":" + part(handle, CURLUPART_PORT, CURLU_DEFAULT_PORT);
}

std::string percent_encoded(std::string_view text, std::string_view kept) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  std::string encoded;
  for (const char c : text) {
    if (kUnreserved.find(c) != std::string_view::npos || kept.find(c) != std::string_view::npos) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded.append({'%', kDigits[byte >> 4U], kDigits[byte & 15U]});
  }
  return encoded;
}

std::string percent_decoded(std::string_view text) {
  std::string plain(text);
  std::replace(plain.begin(), plain.end(), '+', ' ');
  int size = 0;
  const CurlText decoded(
      curl_easy_unescape(nullptr, plain.c_str(), static_cast<int>(plain.size()), &size));
  return {decoded.get(), static_cast<std::size_t>(size)};
}

BucketAndKey bucket_and_key(const std::string& url, EmptyKey empty) {
  const std::size_t bucket = url.find("://") + 3;
  const std::size_t slash = url.find('/', bucket);
  if (slash == std::string::npos || slash == bucket ||
      (slash + 1 == url.size() && empty == EmptyKey::kRefused)) {
    throw Error(ErrorCode::kInvalidArgument, "not of the form scheme://BUCKET/KEY", {.url = url});
  }
  return {url.substr(bucket, slash - bucket), url.substr(slash + 1)};
}

std::string resolve_url(const std::string& base, const std::string& location) {
  const CurlUrl handle = parse(base);
  set_url(handle.get(), location);
  return part(handle, CURLUPART_URL);
}

std::string file_url_path(const std::string& url) {
  std::string path = url.substr(url.find(':') + 1);
  if (path.starts_with("//")) {
    const std::size_t slash = path.find('/', 2);
    const std::string host = path.substr(2, slash == std::string::npos ? slash : slash - 2);
    if (!host.empty() && host != "localhost") {
      throw Error(ErrorCode::kInvalidArgument, "a file: url that names another machine",
                  {.url = url});
    }
    path = slash == std::string::npos ? "" : path.substr(slash);
  }
  int size = 0;
  const CurlText decoded(
      curl_easy_unescape(nullptr, path.c_str(), static_cast<int>(path.size()), &size));
  std::string decoded_path(decoded.get(), static_cast<std::size_t>(size));
  if (decoded_path.find('\0') != std::string::npos) {
    throw Error(ErrorCode::kInvalidArgument, "a NUL in a file: url", {.url = url});
  }
  return decoded_path;
}

}  // namespace millrace::io::detail
