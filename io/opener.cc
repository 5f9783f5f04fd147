#include "io/opener.h"

#include <mutex>
#include <utility>

#include "io/base/error.h"
#include "io/detail/file_source.h"
#include "io/detail/http_source.h"
#include "io/detail/http_target.h"
#include "io/detail/pipe_source.h"
#include "io/detail/upload_sink.h"
#include "io/detail/url.h"

namespace millrace::io {
namespace {

[[noreturn]] void refuse_scheme(const std::string& scheme, const std::string& url) {
  throw Error(ErrorCode::kInvalidArgument,
              "cannot use " + scheme + ": urls here (file, http, https, s3, gs and pipe are known)",
              {.url = printable_url(url)});
}

}  // namespace

struct UrlOpener::State {
  explicit State(UrlOpenerOptions the_options) : options(std::move(the_options)) {}

  // Who reads files alone never has a network thread.
  const std::shared_ptr<detail::HttpClient>& http() {
    std::call_once(http_made,
                   [this] { client = std::make_shared<detail::HttpClient>(options.http); });
    return client;
  }

  detail::HttpTarget target(const std::string& url) const {
    return detail::http_target(url, options.http, options.stores);
  }

  const std::stop_token& stop_of(const std::stop_token& own) const {
    return own.stop_possible() ? own : options.stop;
  }

  const UrlOpenerOptions options;
  std::once_flag http_made;
  std::shared_ptr<detail::HttpClient> client;
};

UrlOpener::UrlOpener(UrlOpenerOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
UrlOpener::~UrlOpener() = default;

std::unique_ptr<ByteSource> UrlOpener::open(const std::string& url,
                                            const OpenOptions& asked) const {
  const OpenOptions options{.offset = asked.offset, .stop = state_->stop_of(asked.stop)};
  if (url == "-") return detail::open_stdin(options);
  const std::string scheme = detail::url_scheme(url);
  if (scheme.empty()) return detail::open_file(url, options);
  if (scheme == "file") return detail::open_file(detail::file_url_path(url), options);
  if (is_network_url(url)) {
    return detail::open_http(state_->http(), state_->target(url), options);
  }
  if (scheme != "pipe") refuse_scheme(scheme, url);
  if (!state_->options.allow_pipe) {
    throw Error(ErrorCode::kInvalidArgument, "pipe: urls are not allowed here", {.url = url});
  }
  return detail::open_pipe(url, options);
}

std::unique_ptr<ByteSink> UrlOpener::open_sink(const std::string& url,
                                               const FileSinkOptions& options,
                                               const std::stop_token& stop) const {
  const std::string scheme = detail::url_scheme(url);
  if (scheme.empty()) return open_file_sink(url, options);
  if (scheme == "file") return open_file_sink(detail::file_url_path(url), options);
  if (!is_network_url(url)) refuse_scheme(scheme, url);
  return detail::open_upload(state_->http(), state_->target(url), state_->stop_of(stop));
}

Bytes read_object(const Opener& opener, const std::string& url, std::size_t limit_bytes,
                  const std::stop_token& stop) {
  const auto source = opener.open(url, {.stop = stop});
  return read_all(*source, limit_bytes);
}

}  // namespace millrace::io
