// A ByteSink that uploads what was written as one HTTP object.
#pragma once

#include <memory>
#include <stop_token>

#include "io/byte_sink.h"
#include "io/detail/http/http_exchange.h"

namespace millrace::io::detail {

/// Spools to an unlinked file in the temporary folder; finish() sends it with PUT, with retries by
/// the client's options. An object store makes an object visible complete or not at all. Where
/// nothing may be replaced, the server is asked for the name by HEAD at once and before it is sent,
/// with If-None-Match, which plain servers ignore: between the two another's object may be
/// replaced. Throws, and finish(): InvalidArgument (there is such an object), NotFound, Io,
/// Cancelled.
std::unique_ptr<ByteSink> open_upload(std::shared_ptr<HttpClient> client, HttpTarget target,
                                      Replace replace, const std::stop_token& stop);

}  // namespace millrace::io::detail
