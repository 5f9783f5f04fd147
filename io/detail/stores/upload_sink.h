// A ByteSink that uploads what was written as one HTTP object.
#pragma once

#include <memory>
#include <stop_token>

#include "io/byte_sink.h"
#include "io/detail/http/http_exchange.h"

namespace millrace::io::detail {

/// Spools to an unlinked file in the temporary folder; finish() sends it with PUT, with retries by
/// the client's options. An object store makes an object visible complete or not at all. finish()
/// throws: NotFound, Io, Cancelled.
std::unique_ptr<ByteSink> open_upload(std::shared_ptr<HttpClient> client, HttpTarget target,
                                      const std::stop_token& stop);

}  // namespace millrace::io::detail
