#include "io/detail/stores/aws_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <string_view>
#include <utility>

#include "io/base/hash.h"

namespace millrace::io::detail {
namespace {

std::string hmac(std::string_view key, std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
       reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest.data(), &size);
  return {reinterpret_cast<const char*>(digest.data()), size};
}

std::string hex(std::string_view bytes) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : bytes) {
    text += kDigits[static_cast<unsigned char>(c) >> 4U];
    text += kDigits[static_cast<unsigned char>(c) & 15U];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(text.data(), text.size())));
  return hash.hex();
}

struct UrlParts {
  std::string host;
  std::string path;
  std::string query;
};

UrlParts parts_of(const std::string& url) {
  const std::size_t host = url.find("://") + 3;
  const std::size_t path = std::min(url.find('/', host), url.size());
  const std::size_t query = std::min(url.find('?', path), url.size());
  return {url.substr(host, path - host), url.substr(path, query - path),
          query == url.size() ? "" : url.substr(query + 1)};
}

// Names in lower case, of those of our own lines that have to be signed.
void add_amazon_lines(std::map<std::string, std::string>& covered,
                      const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const std::size_t colon = line.find(": ");
    if (line.starts_with("x-amz-") && colon != std::string::npos)
      covered[line.substr(0, colon)] = line.substr(colon + 2);
  }
}

}  // namespace

std::vector<std::string> aws_signature_lines(const UnsignedRequest& request,
                                             const std::string& time, const std::string& region,
                                             const AwsKeys& keys) {
  const UrlParts url = parts_of(request.url);
  const std::string payload =
      request.body_sha256.empty() ? "UNSIGNED-PAYLOAD" : request.body_sha256;
  std::map<std::string, std::string> own{{"x-amz-content-sha256", payload}, {"x-amz-date", time}};
  if (!keys.session_token.empty()) own["x-amz-security-token"] = keys.session_token;
  std::vector<std::string> lines;
  lines.reserve(own.size());
  for (const auto& [name, value] : own) lines.push_back(std::string(name) + ": " + value);
  auto covered = std::move(own);
  covered["host"] = url.host;
  add_amazon_lines(covered, request.header_lines);
  std::string fields;
  std::string names;
  for (const auto& [name, value] : covered) {
    fields.append(name).append(":").append(value).append("\n");
    names.append(names.empty() ? "" : ";").append(name);
  }
  const std::string canonical = request.method + "\n" + url.path + "\n" + url.query + "\n" +
                                fields + "\n" + names + "\n" + payload;
  const std::string day = time.substr(0, 8);
  const std::string scope = day + "/" + region + "/s3/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + time + "\n" + scope + "\n" + sha256_hex(canonical);
  const std::string day_key = hmac("AWS4" + keys.secret_access_key, day);
  const std::string key = hmac(hmac(hmac(day_key, region), "s3"), "aws4_request");
  lines.push_back("Authorization: AWS4-HMAC-SHA256 Credential=" + keys.access_key_id + "/" + scope +
                  ",SignedHeaders=" + names + ",Signature=" + hex(hmac(key, to_sign)));
  return lines;
}

}  // namespace millrace::io::detail
