#include "io/detail/http_target.h"

#include <array>
#include <cstdlib>
#include <ctime>
#include <initializer_list>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/detail/aws_signature.h"
#include "io/detail/url.h"
#include "io/opener.h"

namespace millrace::io {
namespace detail {
namespace {

using Lines = std::vector<std::string>;

struct BucketAndKey {
  std::string bucket;
  std::string key;  // percent-encoded, slashes kept
};

// S3 signs exactly this encoding: everything except RFC 3986's unreserved characters is encoded.
std::string encode(std::string_view text) {
  constexpr std::string_view kDigits = "0123456789ABCDEF";
  constexpr std::string_view kPlain =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
  std::string encoded;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos) {
      encoded += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    encoded.append({'%', kDigits[byte >> 4U], kDigits[byte & 15U]});
  }
  return encoded;
}

// A key may contain any character, including '?' and '#': these urls have no query.
BucketAndKey split(const std::string& url) {
  const std::size_t bucket = url.find("://") + 3;
  const std::size_t slash = url.find('/', bucket);
  if (slash == std::string::npos || slash == bucket || slash + 1 == url.size()) {
    throw Error(ErrorCode::kInvalidArgument, "not of the form scheme://BUCKET/KEY",
                {.url = printable_url(url)});
  }
  return {url.substr(bucket, slash - bucket), encode(std::string_view(url).substr(slash + 1))};
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts)};
}

// Virtual-hosted style as AWS prefers. The bucket goes into the path if its name contains a dot,
// which AWS's wildcard certificate does not cover, or if the store is self-hosted, which seldom has
// DNS names for buckets.
std::string s3_url(const BucketAndKey& object, const ObjectStoreOptions::S3& s3) {
  if (!s3.endpoint.empty()) return s3.endpoint + "/" + object.bucket + "/" + object.key;
  const std::string domain = "s3." + s3.region + ".amazonaws.com/";
  if (object.bucket.find('.') != std::string::npos) {
    return "https://" + domain + object.bucket + "/" + object.key;
  }
  return "https://" + object.bucket + "." + domain + object.key;
}

HttpTarget s3_target(const std::string& url, const HttpOptions&, const ObjectStoreOptions& stores) {
  const ObjectStoreOptions::S3& s3 = stores.s3;
  HttpTarget target{.name = printable_url(url), .url = s3_url(split(url), s3), .secret_lines = {}};
  target.secret_lines = [s3, full = target.url](const std::string& method) -> Lines {
    if (s3.access_key_id.empty()) return {};
    const std::size_t host = full.find("://") + 3;
    const std::size_t path = full.find('/', host);
    return aws_signature_lines({.method = method,
                                .host = full.substr(host, path - host),
                                .path = full.substr(path),
                                .time = utc_now()},
                               s3);
  };
  return target;
}

HttpTarget gcs_target(const std::string& url, const HttpOptions&,
                      const ObjectStoreOptions& stores) {
  const ObjectStoreOptions::Gcs& gcs = stores.gcs;
  const BucketAndKey object = split(url);
  return {.name = printable_url(url),
          .url = gcs.endpoint + "/" + object.bucket + "/" + object.key,
          .secret_lines = [token = gcs.access_token](const std::string&) -> Lines {
            if (token.empty()) return {};
            return {"Authorization: Bearer " + token};
          }};
}

HttpTarget plain_target(const std::string& url, const HttpOptions& http,
                        const ObjectStoreOptions&) {
  Lines lines;
  for (const auto& [name, value] : http.headers) {
    lines.push_back(std::string(name).append(": ").append(value));
  }
  return {.name = printable_url(url),
          .url = url,
          .secret_lines = [lines = std::move(lines)](const std::string&) { return lines; }};
}

constexpr std::array<HttpStore, 4> kStores{
    {{"http", plain_target}, {"https", plain_target}, {"s3", s3_target}, {"gs", gcs_target}}};

// The value of the first of `names` that is set and not empty.
std::string from_environment(std::initializer_list<const char*> names, std::string otherwise = "") {
  for (const char* name : names) {
    const char* value = std::getenv(name);
    if (value != nullptr && *value != '\0') return value;
  }
  return otherwise;
}

std::string as_endpoint(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text.empty() || text.find("://") != std::string::npos ? text : "http://" + text;
}

}  // namespace

std::span<const HttpStore> http_stores() { return kStores; }

HttpTarget http_target(const HttpStore& store, const std::string& url, const HttpOptions& http,
                       const ObjectStoreOptions& stores) {
  HttpTarget target = store.target(url, http, stores);
  check_url(target.url);
  return target;
}

}  // namespace detail

ObjectStoreOptions ObjectStoreOptions::from_environment() {
  using detail::as_endpoint;
  const auto get = [](auto... arguments) { return detail::from_environment(arguments...); };
  using Names = std::initializer_list<const char*>;
  ObjectStoreOptions options;
  options.s3 = {.access_key_id = get(Names{"AWS_ACCESS_KEY_ID"}),
                .secret_access_key = get(Names{"AWS_SECRET_ACCESS_KEY"}),
                .session_token = get(Names{"AWS_SESSION_TOKEN"}),
                .region = get(Names{"AWS_REGION", "AWS_DEFAULT_REGION"}, options.s3.region),
                .endpoint = as_endpoint(get(Names{"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}))};
  options.gcs = {
      .access_token = get(Names{"GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"}),
      .endpoint = as_endpoint(get(Names{"STORAGE_EMULATOR_HOST"}, options.gcs.endpoint))};
  return options;
}

}  // namespace millrace::io
