// gs:// urls: Google Cloud Storage.
//
// Source: "Cloud Storage JSON API": objects.list; objects are read by its XML API's urls.
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/detail/http/bearer.h"
#include "io/detail/http/http_call.h"
#include "io/detail/http/url.h"
#include "io/detail/stores/gcs_upload.h"
#include "io/detail/stores/google_credentials.h"
#include "io/detail/stores/http_store.h"

namespace millrace::io::detail {
namespace {

constexpr std::size_t kMostGcsPageBytes = std::size_t{16} << 20;

class GcsStore final : public HttpStore {
 public:
  GcsStore(const HttpOptions& http, const ObjectStoreOptions& stores)
      : endpoint_(stores.gcs.endpoint),
        signer_(std::make_shared<BearerSigner>(
            *http.clock, [given = stores.gcs.access_token, environment = stores.environment](
                             HttpClient& client, const std::stop_token& stop) {
              if (given.empty()) return find_google_token(client, environment, stop);
              return Renewed<std::string>::Fetched{.secret = given};
            })) {}

  HttpTarget target(const std::string& url) override {
    const BucketAndKey object = bucket_and_key(url);
    return target_of(url, "/" + object.bucket + "/" + percent_encoded(object.key, "/"));
  }

  std::unique_ptr<ByteSink> create(std::shared_ptr<HttpClient> client, const std::string& url,
                                   const FileSinkOptions& options,
                                   const std::stop_token& stop) override {
    const BucketAndKey object = bucket_and_key(url);
    // An upload's own url is as secret as credentials, and needs none.
    const auto target_of_upload = [endpoint = endpoint_, signer = signer_,
                                   name = printable_url(url)](const std::string& place) {
      if (place.find("://") != std::string::npos)
        return HttpTarget{.name = name, .url = place, .signer = {}};
      return HttpTarget{.name = name, .url = endpoint + place, .signer = signer};
    };
    check_url(target_of_upload("/").url);
    auto upload =
        begin_gcs_upload(client, target_of_upload, object.bucket, object.key, options, stop);
    return open_parted_sink(std::move(client), std::move(upload), stop);
  }

  void remove(HttpClient& client, const std::string& url, const std::stop_token& stop) override {
    const BucketAndKey object = bucket_and_key(url);
    call(client,
         target_of(url, "/storage/v1/b/" + object.bucket + "/o/" + percent_encoded(object.key)),
         {.method = "DELETE", .also = {404}}, stop);
  }

  bool can_list() const override { return true; }
  std::vector<ListedObject> list(HttpClient& client, const std::string& prefix,
                                 const ListOptions& options) override;

 private:
  HttpTarget target_of(const std::string& url, const std::string& path) const {
    HttpTarget target{.name = printable_url(url), .url = endpoint_ + path, .signer = signer_};
    check_url(target.url);
    return target;
  }

  std::string endpoint_;
  std::shared_ptr<Signer> signer_;
};

[[noreturn]] void refuse_gcs_listing(const std::string& prefix) {
  throw Error(ErrorCode::kCorrupt, "the store's listing is not what Google's API answers",
              {.url = prefix});
}

// Google writes 64-bit numbers as text.
std::uint64_t size_of_item(const nlohmann::json& item) {
  const auto& size = item.at("size");
  return size.is_string() ? std::stoull(size.get<std::string>()) : size.get<std::uint64_t>();
}

std::vector<ListedObject> gcs_page(const nlohmann::json& page, const std::string& base) {
  std::vector<ListedObject> listed;
  for (const auto& item : page.value("items", nlohmann::json::array()))
    listed.push_back(
        {.url = base + item.at("name").get<std::string>(), .bytes = size_of_item(item)});
  for (const auto& folder : page.value("prefixes", nlohmann::json::array()))
    listed.push_back({.url = base + folder.get<std::string>()});
  return listed;
}

std::vector<ListedObject> GcsStore::list(HttpClient& client, const std::string& prefix,
                                         const ListOptions& options) {
  const BucketAndKey wanted = bucket_and_key(prefix, EmptyKey::kAllowed);
  const std::string base = "gs://" + wanted.bucket + "/";
  const std::string path =
      "/storage/v1/b/" + wanted.bucket + "/o?fields=items(name,size),prefixes,nextPageToken" +
      (options.recursive ? "" : "&delimiter=%2F") + "&prefix=" + percent_encoded(wanted.key);
  std::vector<ListedObject> listed;
  std::set<std::string> tokens;
  std::string page;
  for (;;) {
    const HttpAnswer answer = call(client, target_of(prefix, path + page),
                                   {.most_bytes = kMostGcsPageBytes}, options.stop);
    std::string token;
    try {
      const auto json = parse_json<nlohmann::json>(answer.body, "the store's listing");
      add_listed(listed, gcs_page(json, base), prefix, options);
      token = json.value("nextPageToken", "");
    } catch (const Error&) {
      throw;
    } catch (const std::exception&) {
      refuse_gcs_listing(prefix);
    }
    if (token.empty()) return listed;
    if (!tokens.insert(token).second) refuse_gcs_listing(prefix);
    page = "&pageToken=" + percent_encoded(token);
  }
}

}  // namespace

std::unique_ptr<HttpStore> make_gcs_store(const HttpOptions& http,
                                          const ObjectStoreOptions& stores) {
  return std::make_unique<GcsStore>(http, stores);
}

}  // namespace millrace::io::detail
