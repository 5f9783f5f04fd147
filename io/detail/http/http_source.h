// Opens an HTTP(S) object as a ByteSource that never mistakes a short body for the end.
//
// Every request has a Range, even from offset 0: the response then gives the size of the whole
// object, so a truncated body is detected with or without a Content-Length.
#pragma once

#include <memory>
#include <string>

#include "io/byte_source.h"
#include "io/detail/http/http_exchange.h"
#include "io/opener.h"

namespace millrace::io::detail {

/// Sends the first request and returns at once; its faults are thrown by the first read().
std::unique_ptr<ByteSource> open_http(std::shared_ptr<HttpClient> client, HttpTarget target,
                                      const OpenOptions& options);

}  // namespace millrace::io::detail
