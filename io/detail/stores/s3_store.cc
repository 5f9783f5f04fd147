// s3:// urls: Amazon S3, and the stores that speak its protocol.
//
// Source: "Amazon S3 API Reference": ListObjectsV2, error responses, request authentication.
#include <atomic>
#include <ctime>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <utility>

#include "io/base/error.h"
#include "io/detail/http/http_call.h"
#include "io/detail/http/url.h"
#include "io/detail/stores/aws_credentials.h"
#include "io/detail/stores/aws_signature.h"
#include "io/detail/stores/http_store.h"
#include "io/detail/stores/s3_upload.h"
#include "io/detail/stores/xml.h"

namespace millrace::io::detail {
namespace {

// A page has at most 1,000 keys of 1,024 bytes, each byte of which may take three.
constexpr std::size_t kMostS3PageBytes = std::size_t{8} << 20;
constexpr std::int64_t kMostSkew = 60;

using Query = std::map<std::string, std::string>;

std::string utc_time(std::int64_t seconds) {
  const auto time = static_cast<std::time_t>(seconds);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  return {text, std::strftime(text, sizeof text, "%Y%m%dT%H%M%SZ", &parts)};
}

class S3Signer final : public Signer {
 public:
  S3Signer(ObjectStoreOptions stores, std::string region, const Clock& clock)
      : stores_(std::move(stores)), region_(std::move(region)), clock_(clock) {}

  bool ready() const override { return keys_.ready(clock_.now()); }

  SecretLines sign(HttpClient& client, const UnsignedRequest& request,
                   const std::stop_token& stop) override {
    const auto held = keys_.get(clock_, stop, [&] { return fetch(client, stop); });
    if (held.secret.access_key_id.empty()) return {.lines = {}, .version = held.version};
    return {.lines = aws_signature_lines(request, utc_time(std::time(nullptr) + skew_), region_,
                                         held.secret),
            .version = held.version};
  }

  bool reconsider(const HttpHead& head, std::string_view code, std::uint64_t version) override {
    if (code == "RequestTimeTooSkewed") return learn_time(head);
    static const std::set<std::string_view> kExpired{"ExpiredToken",   "ExpiredTokenException",
                                                     "RequestExpired", "TokenRefreshRequired",
                                                     "InvalidToken",   "InvalidAccessKeyId"};
    if (head.status() != 401 && !kExpired.contains(code)) return false;
    keys_.refused(version);
    return true;
  }

 private:
  Renewed<AwsKeys>::Fetched fetch(HttpClient& client, const std::stop_token& stop) const {
    const ObjectStoreOptions::S3& given = stores_.s3;
    if (given.access_key_id.empty()) return find_aws_keys(client, stores_.environment, stop);
    return {.secret = {.access_key_id = given.access_key_id,
                       .secret_access_key = given.secret_access_key,
                       .session_token = given.session_token}};
  }

  bool learn_time(const HttpHead& head) {
    const auto time = server_time(head);
    if (!time) return false;
    const std::int64_t skew = *time - std::time(nullptr);
    const std::int64_t before = skew_.exchange(skew);
    return skew - before > kMostSkew || before - skew > kMostSkew;
  }

  const ObjectStoreOptions stores_;
  const std::string region_;
  const Clock& clock_;
  Renewed<AwsKeys> keys_;
  std::atomic<std::int64_t> skew_{0};  // the server's clock less ours, in seconds
};

// Sorted by name, as a signature wants it.
std::string query_text(const Query& query) {
  std::string text;
  for (const auto& [name, value] : query) {
    text += text.empty() ? '?' : '&';
    text.append(name).append("=").append(percent_encoded(value));
  }
  return text;
}

class S3Store final : public HttpStore {
 public:
  S3Store(const HttpOptions& http, ObjectStoreOptions stores)
      : clock_(*http.clock), stores_(std::move(stores)) {}

  HttpTarget target(const std::string& url) override {
    const BucketAndKey object = bucket_and_key(url);
    return target_of(url, object.bucket, object.key, {});
  }

  std::unique_ptr<ByteSink> create(std::shared_ptr<HttpClient> client, const std::string& url,
                                   const FileSinkOptions& options,
                                   const std::stop_token& stop) override {
    const BucketAndKey object = bucket_and_key(url);
    const HttpTarget plain = target_of(url, object.bucket, object.key, {});
    const auto target_of_upload = [plain](const Query& query) {
      HttpTarget target = plain;
      target.url += query_text(query);
      return target;
    };
    auto upload = begin_s3_upload(client, target_of_upload, options, stop);
    return open_parted_sink(std::move(client), std::move(upload), stop);
  }

  void remove(HttpClient& client, const std::string& url, const std::stop_token& stop) override {
    call(client, target(url), {.method = "DELETE", .also = {404}}, stop);
  }

  bool can_list() const override { return true; }
  std::vector<ListedObject> list(HttpClient& client, const std::string& prefix,
                                 const ListOptions& options) override;

 private:
  // What the profile adds is read on first use: most programs use no store.
  void settle() {
    std::call_once(settled_, [this] {
      ObjectStoreOptions::S3& s3 = stores_.s3;
      if (stores_.environment && (s3.region.empty() || s3.endpoint.empty())) {
        auto profile = aws_profile(stores_.environment);
        if (s3.region.empty()) s3.region = profile["region"];
        if (s3.endpoint.empty()) s3.endpoint = profile["endpoint_url"];
        while (s3.endpoint.ends_with('/')) s3.endpoint.pop_back();
      }
      if (s3.region.empty()) s3.region = "us-east-1";
      signer_ = std::make_shared<S3Signer>(stores_, s3.region, clock_);
    });
  }

  // Virtual-hosted style as AWS prefers. The bucket goes into the path if its name contains a dot,
  // which AWS's wildcard certificate does not cover, or if the store is self-hosted, which seldom
  // has DNS names for buckets.
  std::string base_of(const std::string& bucket) const {
    const ObjectStoreOptions::S3& s3 = stores_.s3;
    if (!s3.endpoint.empty()) return s3.endpoint + "/" + bucket;
    const std::string domain = "s3." + s3.region + ".amazonaws.com";
    if (bucket.find('.') != std::string::npos) return "https://" + domain + "/" + bucket;
    return "https://" + bucket + "." + domain;
  }

  HttpTarget target_of(const std::string& url, const std::string& bucket, const std::string& key,
                       const Query& query) {
    settle();
    std::string full = base_of(bucket) + "/" + percent_encoded(key, "/");
    full += query_text(query);
    check_url(full);
    return {.name = printable_url(url), .url = std::move(full), .signer = signer_};
  }

  const Clock& clock_;
  ObjectStoreOptions stores_;
  std::once_flag settled_;
  std::shared_ptr<S3Signer> signer_;
};

[[noreturn]] void bad_listing(const std::string& how, const std::string& prefix) {
  throw Error(ErrorCode::kCorrupt, "the store's listing " + how, {.url = prefix});
}

// What was cut short on the way is asked for again.
XmlElement whole_document(HttpClient& client, const HttpTarget& target, const HttpCall& what,
                          const std::stop_token& stop) {
  constexpr int kTries = 3;
  for (int left = kTries;; --left) {
    const HttpAnswer answer = call(client, target, what, stop);
    try {
      return parse_xml(answer.body, "the store's answer");
    } catch (Error& error) {
      error.annotate({.url = target.name});
      if (left == 1) throw;
    }
  }
}

std::uint64_t size_of(const XmlElement& entry, const std::string& prefix) {
  const std::string text(entry.text_of("Size"));
  char* end = nullptr;
  const std::uint64_t size = std::strtoull(text.c_str(), &end, 10);
  if (text.empty() || *end != '\0') bad_listing("has an object without a size", prefix);
  return size;
}

std::vector<ListedObject> page_of(const XmlElement& root, const std::string& base,
                                  const std::string& prefix) {
  if (root.name != "ListBucketResult") bad_listing("is something else", prefix);
  const bool encoded = root.text_of("EncodingType") == "url";
  const auto name = [&](std::string_view key) {
    return base + (encoded ? percent_decoded(key) : std::string(key));
  };
  std::vector<ListedObject> page;
  for (const XmlElement& entry : root.children) {
    if (entry.name == "Contents")
      page.push_back({.url = name(entry.text_of("Key")), .bytes = size_of(entry, prefix)});
    if (entry.name == "CommonPrefixes") page.push_back({.url = name(entry.text_of("Prefix"))});
  }
  return page;
}

std::vector<ListedObject> S3Store::list(HttpClient& client, const std::string& prefix,
                                        const ListOptions& options) {
  const BucketAndKey wanted = bucket_and_key(prefix, EmptyKey::kAllowed);
  const std::string base = "s3://" + wanted.bucket + "/";
  Query query{{"encoding-type", "url"}, {"list-type", "2"}, {"prefix", wanted.key}};
  if (!options.recursive) query["delimiter"] = "/";
  std::vector<ListedObject> listed;
  std::set<std::string> tokens;
  for (;;) {
    const HttpTarget target = target_of(prefix, wanted.bucket, "", query);
    const XmlElement root =
        whole_document(client, target, {.most_bytes = kMostS3PageBytes}, options.stop);
    add_listed(listed, page_of(root, base, prefix), prefix, options);
    if (root.text_of("IsTruncated") != "true") return listed;
    const std::string token(root.text_of("NextContinuationToken"));
    if (token.empty()) bad_listing("is cut short, and does not say how it continues", prefix);
    if (!tokens.insert(token).second) bad_listing("repeats itself", prefix);
    query["continuation-token"] = token;
  }
}

}  // namespace

std::unique_ptr<HttpStore> make_s3_store(const HttpOptions& http,
                                         const ObjectStoreOptions& stores) {
  return std::make_unique<S3Store>(http, stores);
}

}  // namespace millrace::io::detail
