#include "io/opener.h"

#include <utility>

#include "io/base/error.h"
#include "io/detail/file_source.h"

namespace millrace::io {

struct UrlOpener::State {
  UrlOpenerOptions options;
};

UrlOpener::UrlOpener(UrlOpenerOptions options)
    : state_(std::make_unique<State>(State{std::move(options)})) {}
UrlOpener::~UrlOpener() = default;

std::unique_ptr<ByteSource> UrlOpener::open(const std::string& url,
                                            const OpenOptions& options) const {
  return detail::open_file(url, options.offset, options.stop);
}

bool is_network_url(const std::string& url) {
  return url.starts_with("http://") || url.starts_with("https://");
}

std::string printable_url(const std::string& url) { return url.substr(0, url.find_first_of("?#")); }

}  // namespace millrace::io
