// A ByteSink that sends what was written as one HTTP object.
#pragma once

#include <memory>
#include <stop_token>

#include "io/byte_sink.h"
#include "io/detail/http_exchange.h"

namespace millrace::io::detail {

/// Spools to an unnamed file in the temporary folder; finish() sends it with PUT, again and again
/// as the client's retry options say. An object store shows an object whole or not at all.
std::unique_ptr<ByteSink> open_upload(std::shared_ptr<HttpClient> client, HttpTarget target,
                                      const std::stop_token& stop);

}  // namespace millrace::io::detail
