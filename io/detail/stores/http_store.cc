#include "io/detail/stores/http_store.h"

#include <array>
#include <iterator>
#include <utility>

#include "io/base/error.h"
#include "io/detail/files/environment.h"
#include "io/detail/http/http_call.h"
#include "io/detail/http/url.h"
#include "io/detail/stores/upload_sink.h"

namespace millrace::io {
namespace detail {
namespace {

/// The user's own header lines, which are as secret as credentials.
class FixedLines final : public Signer {
 public:
  explicit FixedLines(const std::map<std::string, std::string>& headers) {
    for (const auto& [name, value] : headers)
      lines_.push_back(std::string(name).append(": ").append(value));
  }
  bool ready() const override { return true; }
  SecretLines sign(HttpClient&, const UnsignedRequest&, const std::stop_token&) override {
    return {.lines = lines_};
  }
  bool reconsider(const HttpHead&, std::string_view, std::uint64_t) override { return false; }

 private:
  std::vector<std::string> lines_;
};

class WebStore final : public HttpStore {
 public:
  explicit WebStore(const HttpOptions& http)
      : signer_(std::make_shared<FixedLines>(http.headers)) {}
  HttpTarget target(const std::string& url) override {
    check_url(url);
    return {.name = printable_url(url), .url = url, .signer = signer_, .path_as_is = false};
  }

  void remove(HttpClient& client, const std::string& url, const std::stop_token& stop) override {
    const HttpAnswer answer =
        call(client, target(url), {.method = "DELETE", .also = {404, 405, 501}}, stop);
    if (answer.head.status() == 405 || answer.head.status() == 501)
      HttpStore::remove(client, url, stop);
  }

 private:
  std::shared_ptr<Signer> signer_;
};

std::unique_ptr<HttpStore> make_web_store(const HttpOptions& http, const ObjectStoreOptions&) {
  return std::make_unique<WebStore>(http);
}

constexpr std::array<HttpStoreKind, 5> kKinds{{{"http", make_web_store},
                                               {"https", make_web_store},
                                               {"s3", make_s3_store},
                                               {"gs", make_gcs_store},
                                               {"hf", make_hub_store}}};

std::string as_endpoint(std::string text) {
  while (text.ends_with('/')) text.pop_back();
  return text.empty() || text.find("://") != std::string::npos ? text : "http://" + text;
}

}  // namespace

std::span<const HttpStoreKind> http_store_kinds() { return kKinds; }

std::vector<ListedObject> HttpStore::list(HttpClient&, const std::string& prefix,
                                          const ListOptions&) {
  throw Error(ErrorCode::kInvalidArgument, "what this url names cannot be listed", {.url = prefix});
}

std::unique_ptr<ByteSink> HttpStore::create(std::shared_ptr<HttpClient> client,
                                            const std::string& url, const FileSinkOptions& options,
                                            const std::stop_token& stop) {
  return open_upload(std::move(client), target(url), options.replace, stop);
}

void HttpStore::remove(HttpClient&, const std::string& url, const std::stop_token&) {
  throw Error(ErrorCode::kInvalidArgument, "objects of this url cannot be removed", {.url = url});
}

void add_listed(std::vector<ListedObject>& listed, std::vector<ListedObject> more,
                const std::string& prefix, const ListOptions& options) {
  if (listed.size() + more.size() > options.most)
    throw Error(ErrorCode::kExhausted,
                "more than " + std::to_string(options.most) +
                    " objects: a longer prefix, braces or a manifest name fewer",
                {.url = prefix});
  listed.insert(listed.end(), std::make_move_iterator(more.begin()),
                std::make_move_iterator(more.end()));
}

}  // namespace detail

ObjectStoreOptions ObjectStoreOptions::from_environment() {
  using detail::as_endpoint;
  using detail::variable;
  ObjectStoreOptions options;
  options.environment = detail::process_variable;
  const auto& from = options.environment;
  options.s3.region = variable(from, {"AWS_REGION", "AWS_DEFAULT_REGION"});
  options.s3.endpoint = as_endpoint(variable(from, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}));
  options.gcs.access_token =
      variable(from, {"GOOGLE_OAUTH_ACCESS_TOKEN", "CLOUDSDK_AUTH_ACCESS_TOKEN"});
  options.gcs.endpoint =
      as_endpoint(variable(from, {"STORAGE_EMULATOR_HOST"}, options.gcs.endpoint));
  options.hub.token = variable(from, {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"});
  options.hub.endpoint = as_endpoint(variable(from, {"HF_ENDPOINT"}, options.hub.endpoint));
  return options;
}

}  // namespace millrace::io
