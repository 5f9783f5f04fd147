// Opens an HTTP(S) object as a ByteSource that never takes a short body for the end.
//
// Every request asks for a Range, even from 0 on: the answer then says the object's whole size, and
// a body that is cut short shows, with or without a Content-Length.
#pragma once

#include <memory>
#include <string>

#include "io/byte_source.h"
#include "io/detail/http_exchange.h"
#include "io/opener.h"

namespace millrace::io::detail {

/// Sends the first request and returns at once; what comes of it is the first read()'s business.
std::unique_ptr<ByteSource> open_http(std::shared_ptr<HttpClient> client, HttpTarget target,
                                      const OpenOptions& options);

}  // namespace millrace::io::detail
