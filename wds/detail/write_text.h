// Writing a small file or object: an index, a manifest.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "io/byte_sink.h"
#include "io/opener.h"

namespace millrace::wds::detail {

/// A sink for a file, or for a url by `opener`; without one, urls are refused.
inline std::unique_ptr<io::ByteSink> open_output(const io::Opener* opener, const std::string& url,
                                                 io::Replace replace) {
  if (opener == nullptr || !io::is_network_url(url))
    return io::open_file_sink(url, {.replace = replace});
  return opener->open_sink(url, {.replace = replace});
}

inline void write_text(const io::Opener* opener, const std::string& url, io::Replace replace,
                       std::string_view text) {
  const auto sink = open_output(opener, url, replace);
  sink->write(std::as_bytes(std::span(text)));
  sink->finish();
}

}  // namespace millrace::wds::detail
