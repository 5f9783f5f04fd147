#include "io/opener.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "io/base/error.h"
#include "io/detail/files/file_source.h"
#include "io/detail/files/pipe_source.h"
#include "io/detail/http/http_source.h"
#include "io/detail/http/network_log.h"
#include "io/detail/http/url.h"
#include "io/detail/stores/http_store.h"

namespace millrace::io {
namespace {

/// That of network readers. A first fault that is final still leaves a pipe the time that a server
/// has for its first byte.
detail::StreamPatience stream_patience(const HttpOptions& options) {
  const auto limit = options.retry.patience;
  return {.limit = limit.count() > 0 ? limit : options.first_byte_timeout,
          .say = [news = std::make_shared<detail::NetworkLog>(options.log)](
                     const std::string& name, const std::string& what, auto waited) {
            news->wait(name, what, waited);
          }};
}

Store file_store(const detail::StreamPatience& patience) {
  return {.scheme = "file",
          .open =
              [patience](const std::string& url, const OpenOptions& asked) {
                return detail::open_file(detail::file_url_path(url), asked, patience);
              },
          .create =
              [](const std::string& url, const FileSinkOptions& asked, const std::stop_token&) {
                return open_file_sink(detail::file_url_path(url), asked);
              }};
}

Store pipe_store(bool allowed, const detail::StreamPatience& patience) {
  return {.scheme = "pipe",
          .open = [allowed, patience](const std::string& url, const OpenOptions& asked) {
            if (!allowed)
              throw Error(ErrorCode::kInvalidArgument, "pipe: urls are not allowed here",
                          {.url = url});
            return detail::open_pipe(url, asked, patience);
          }};
}

}  // namespace

struct UrlOpener::State {
  explicit State(UrlOpenerOptions the_options)
      : options(std::move(the_options)),
        patience(stream_patience(options.http)),
        stores(options.stores) {
    add(file_store(patience));
    add(pipe_store(options.allow_pipe, patience));
    for (const detail::HttpStoreKind& kind : detail::http_store_kinds())
      if (find(kind.scheme) == nullptr) add(http_store(kind));
  }

  void add(Store store) {
    if (find(store.scheme) == nullptr) stores.push_back(std::move(store));
  }

  Store http_store(const detail::HttpStoreKind& kind) {
    const std::shared_ptr<detail::HttpStore> store = kind.make(options.http, options.object_stores);
    Store made{.scheme = kind.scheme,
               .open =
                   [this, store](const std::string& url, const OpenOptions& asked) {
                     return detail::open_http(http(), store->target(url), asked);
                   },
               .create =
                   [this, store](const std::string& url, const FileSinkOptions& asked,
                                 const std::stop_token& stop) {
                     return store->create(http(), url, asked, stop);
                   }};
    if (store->can_list())
      made.list = [this, store](const std::string& prefix, const ListOptions& asked) {
        return store->list(*http(), prefix, asked);
      };
    made.remove = [this, store](const std::string& url, const std::stop_token& stop) {
      store->remove(*http(), url, stop);
    };
    return made;
  }

  // Made on first use: a program that only reads files never has a network thread.
  const std::shared_ptr<detail::HttpClient>& http() {
    std::call_once(http_made,
                   [this] { client = std::make_shared<detail::HttpClient>(options.http); });
    return client;
  }

  const Store* find(const std::string& scheme) const {
    const auto found = std::find_if(stores.begin(), stores.end(),
                                    [&](const Store& one) { return one.scheme == scheme; });
    return found == stores.end() ? nullptr : &*found;
  }

  const Store& store_of(const std::string& scheme, const std::string& url) const {
    if (const Store* found = find(scheme)) return *found;
    std::string known;
    for (const Store& one : stores) known += (known.empty() ? "" : ", ") + one.scheme;
    throw Error(ErrorCode::kInvalidArgument,
                "cannot use " + scheme + ": urls here (" + known + " are known)", {.url = url});
  }

  const std::stop_token& stop_of(const std::stop_token& own) const {
    return own.stop_possible() ? own : options.stop;
  }

  const UrlOpenerOptions options;
  const detail::StreamPatience patience;
  std::vector<Store> stores;  // the user's own come first, so they override
  std::once_flag http_made;
  std::shared_ptr<detail::HttpClient> client;
};

UrlOpener::UrlOpener(UrlOpenerOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
UrlOpener::~UrlOpener() = default;

std::unique_ptr<ByteSource> UrlOpener::open(const std::string& url,
                                            const OpenOptions& asked) const {
  OpenOptions options = asked;
  options.stop = state_->stop_of(asked.stop);
  if (url == "-") return detail::open_stdin(options, state_->patience);
  const std::string scheme = url_scheme(url);
  if (scheme.empty()) return detail::open_file(url, options, state_->patience);
  auto source = state_->store_of(scheme, url).open(url, options);
  if (source == nullptr)
    throw Error(ErrorCode::kInvalidArgument, "the store opens nothing", {.url = url});
  return source;
}

bool Opener::can_list(const std::string&) const { return false; }

std::vector<ListedObject> Opener::list(const std::string& prefix, const ListOptions&) const {
  throw Error(ErrorCode::kInvalidArgument, "what this url names cannot be listed", {.url = prefix});
}

std::unique_ptr<ByteSink> Opener::open_sink(const std::string& url, const FileSinkOptions&,
                                            const std::stop_token&) const {
  throw Error(ErrorCode::kInvalidArgument, "this url cannot be written", {.url = url});
}

void Opener::remove(const std::string& url, const std::stop_token&) const {
  throw Error(ErrorCode::kInvalidArgument, "objects of this url cannot be removed", {.url = url});
}

void Opener::expect_digest(const std::string&, const std::string&) const {}

void UrlOpener::remove(const std::string& url, const std::stop_token& stop) const {
  const std::string scheme = url_scheme(url);
  const Store* store = scheme.empty() ? nullptr : &state_->store_of(scheme, url);
  if (store == nullptr || !store->remove) return Opener::remove(url, stop);
  store->remove(url, state_->stop_of(stop));
}

bool UrlOpener::can_list(const std::string& url) const {
  const Store* store = state_->find(url_scheme(url));
  return store != nullptr && store->list;
}

std::vector<ListedObject> UrlOpener::list(const std::string& prefix,
                                          const ListOptions& asked) const {
  const Store& store = state_->store_of(url_scheme(prefix), prefix);
  if (!store.list) return Opener::list(prefix, asked);
  ListOptions options = asked;
  options.stop = state_->stop_of(asked.stop);
  std::vector<ListedObject> listed = store.list(prefix, options);
  std::sort(listed.begin(), listed.end(),
            [](const ListedObject& a, const ListedObject& b) { return a.url < b.url; });
  return listed;
}

std::unique_ptr<ByteSink> UrlOpener::open_sink(const std::string& url,
                                               const FileSinkOptions& options,
                                               const std::stop_token& stop) const {
  const std::string scheme = url_scheme(url);
  if (scheme.empty()) return open_file_sink(url, options);
  const Store& store = state_->store_of(scheme, url);
  if (store.create) return store.create(url, options, state_->stop_of(stop));
  throw Error(ErrorCode::kInvalidArgument, "nothing can be written to " + scheme + ": urls",
              {.url = url});
}

Bytes read_object(const Opener& opener, const std::string& url, std::size_t limit_bytes,
                  const std::stop_token& stop) {
  const auto source = opener.open(url, {.stop = stop});
  return read_all(*source, limit_bytes);
}

}  // namespace millrace::io
