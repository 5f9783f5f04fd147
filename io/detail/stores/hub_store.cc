// hf:// urls: files of a repository on a Hugging Face hub, read only:
// hf://datasets/OWNER/NAME[@REVISION]/PATH, and hf://OWNER/NAME[@REVISION]/PATH for a model's.
//
// Source: the hub's HTTP API: /resolve/REVISION/PATH, /api/.../tree/REVISION/PATH.
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/detail/files/environment.h"
#include "io/detail/http/bearer.h"
#include "io/detail/http/http_call.h"
#include "io/detail/http/url.h"
#include "io/detail/stores/http_store.h"

namespace millrace::io::detail {
namespace {

constexpr std::size_t kMostHubPageBytes = std::size_t{16} << 20;

struct HubPath {
  std::string repository;  // "datasets/OWNER/NAME"
  std::string revision;    // percent-encoded
  std::string path;
  std::string base;  // of urls: "hf://datasets/OWNER/NAME@REVISION/"
};

[[noreturn]] void malformed(const std::string& url) {
  throw Error(ErrorCode::kInvalidArgument,
              "not of the form hf://datasets/OWNER/NAME[@REVISION]/PATH", {.url = url});
}

HubPath parse_hub_url(const std::string& url) {
  const std::size_t begin = url.find("://") + 3;
  const std::string_view rest = std::string_view(url).substr(begin);
  const int slashes = rest.starts_with("datasets/") || rest.starts_with("spaces/") ? 3 : 2;
  std::size_t end = 0;
  for (int i = 0; i < slashes; ++i) {
    end = rest.find('/', i == 0 ? 0 : end + 1);
    if (end == std::string_view::npos) malformed(url);
  }
  const std::string_view name = rest.substr(0, end);
  const std::size_t at = std::min(name.find('@'), name.size());
  HubPath parsed{.repository = percent_encoded(name.substr(0, at), "/"),
                 .revision = at < name.size() ? percent_encoded(name.substr(at + 1), "%") : "main",
                 .path = std::string(rest.substr(end + 1)),
                 .base = url.substr(0, begin + end + 1)};
  if (parsed.repository.find("//") != std::string::npos || parsed.repository.ends_with('/') ||
      parsed.revision.empty())
    malformed(url);
  return parsed;
}

std::string stored_token(const Environment& environment) {
  const std::string folder =
      variable(environment, {"HF_HOME"}, in_home(environment, ".cache/huggingface"));
  const std::string path = variable(environment, {"HF_TOKEN_PATH"}, folder + "/token");
  return environment && read_small_file(path) ? read_token_file(path) : "";
}

class HubStore final : public HttpStore {
 public:
  HubStore(const HttpOptions& http, const ObjectStoreOptions& stores)
      : endpoint_(stores.hub.endpoint),
        signer_(std::make_shared<BearerSigner>(
            *http.clock, [given = stores.hub.token, environment = stores.environment](
                             HttpClient&, const std::stop_token&) {
              return Renewed<std::string>::Fetched{
                  .secret = given.empty() ? stored_token(environment) : given};
            })) {}

  HttpTarget target(const std::string& url) override {
    const HubPath file = parse_hub_url(url);
    if (file.path.empty()) malformed(url);
    return target_of(url, endpoint_ + "/" + file.repository + "/resolve/" + file.revision + "/" +
                              percent_encoded(file.path, "/"));
  }

  bool can_list() const override { return true; }
  std::vector<ListedObject> list(HttpClient& client, const std::string& prefix,
                                 const ListOptions& options) override;

  std::unique_ptr<ByteSink> create(std::shared_ptr<HttpClient>, const std::string& url,
                                   const FileSinkOptions&, const std::stop_token&) override {
    throw Error(ErrorCode::kInvalidArgument, "nothing can be written to hf: urls", {.url = url});
  }

 private:
  HttpTarget target_of(const std::string& url, std::string full) const {
    check_url(full);
    return {.name = printable_url(url), .url = std::move(full), .signer = signer_};
  }

  std::string endpoint_;
  std::shared_ptr<Signer> signer_;
};

std::vector<ListedObject> hub_page(const std::string& body, const HubPath& wanted,
                                   const std::string& prefix) {
  std::vector<ListedObject> listed;
  try {
    for (const auto& entry : parse_json<nlohmann::json>(body, "the hub's listing")) {
      const std::string path = entry.at("path").get<std::string>();
      if (!path.starts_with(wanted.path)) continue;
      if (entry.at("type") == "directory") {
        listed.push_back({.url = wanted.base + path + "/"});
      } else {
        listed.push_back(
            {.url = wanted.base + path, .bytes = entry.at("size").get<std::uint64_t>()});
      }
    }
  } catch (const nlohmann::json::exception&) {
    throw Error(ErrorCode::kCorrupt, "the hub's listing is not what its API answers",
                {.url = prefix});
  }
  return listed;
}

// The API lists folders: the part of a name that follows is compared by hub_page().
std::string tree_path(const HubPath& wanted, const ListOptions& options) {
  const bool is_model =
      !wanted.repository.starts_with("datasets/") && !wanted.repository.starts_with("spaces/");
  std::string path = is_model ? "/api/models/" : "/api/";
  path.append(wanted.repository).append("/tree/").append(wanted.revision);
  const std::size_t slash = wanted.path.rfind('/');
  if (slash != std::string::npos)
    path.append("/").append(percent_encoded(wanted.path.substr(0, slash), "/"));
  if (options.recursive) path += "?recursive=true";
  return path;
}

// The url of `Link: <URL>; rel="next"`; empty on the last page.
std::string next_page(const HttpHead& head, const std::string& url) {
  const std::string_view link = head.field("link");
  const std::size_t end = link.find('>');
  if (!link.starts_with('<') || link.find("rel=\"next\"") == std::string_view::npos) return "";
  return resolve_url(url, std::string(link.substr(1, end - 1)));
}

std::vector<ListedObject> HubStore::list(HttpClient& client, const std::string& prefix,
                                         const ListOptions& options) {
  const HubPath wanted = parse_hub_url(prefix);
  std::string url = endpoint_ + tree_path(wanted, options);
  std::vector<ListedObject> listed;
  std::set<std::string> pages;
  while (!url.empty()) {
    HttpTarget target = target_of(prefix, url);
    if (!pages.insert(url).second || !same_origin(url, endpoint_))
      throw Error(ErrorCode::kCorrupt, "the hub's listing does not end", {.url = target.name});
    const HttpAnswer answer = call(client, target, {.most_bytes = kMostHubPageBytes}, options.stop);
    auto page = hub_page(answer.body, wanted, prefix);
    if (options.recursive)
      std::erase_if(page, [](const ListedObject& each) { return each.url.ends_with('/'); });
    add_listed(listed, std::move(page), prefix, options);
    url = next_page(answer.head, url);
  }
  return listed;
}

}  // namespace

std::unique_ptr<HttpStore> make_hub_store(const HttpOptions& http,
                                          const ObjectStoreOptions& stores) {
  return std::make_unique<HubStore>(http, stores);
}

}  // namespace millrace::io::detail
