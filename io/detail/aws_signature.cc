#include "io/detail/aws_signature.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <array>
#include <map>
#include <span>
#include <string_view>

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

}  // namespace

std::vector<std::string> aws_signature_lines(const AwsRequest& request,
                                             const ObjectStoreOptions::S3& who) {
  std::map<std::string, std::string> covered{{"host", request.host},
                                             {"x-amz-content-sha256", request.payload},
                                             {"x-amz-date", request.time}};
  if (!who.session_token.empty()) covered["x-amz-security-token"] = who.session_token;
  std::vector<std::string> lines;
  std::string fields;
  std::string names;
  for (const auto& [name, value] : covered) {
    fields.append(name).append(":").append(value).append("\n");
    names.append(names.empty() ? "" : ";").append(name);
    if (name != "host") lines.push_back(std::string(name).append(": ").append(value));
  }
  const std::string canonical = request.method + "\n" + request.path + "\n\n" + fields + "\n" +
                                names + "\n" + request.payload;
  const std::string day = request.time.substr(0, 8);
  const std::string scope = day + "/" + who.region + "/s3/aws4_request";
  const std::string to_sign =
      "AWS4-HMAC-SHA256\n" + request.time + "\n" + scope + "\n" + sha256_hex(canonical);
  const std::string day_key = hmac("AWS4" + who.secret_access_key, day);
  const std::string key = hmac(hmac(hmac(day_key, who.region), "s3"), "aws4_request");
  lines.push_back("Authorization: AWS4-HMAC-SHA256 Credential=" + who.access_key_id + "/" + scope +
                  ",SignedHeaders=" + names + ",Signature=" + hex(hmac(key, to_sign)));
  return lines;
}

}  // namespace millrace::io::detail
