// Opens a local file as a ByteSource; used by UrlOpener.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "io/byte_source.h"

namespace millrace::io::detail {

/// Throws: NotFound, Io.
std::unique_ptr<ByteSource> open_file(const std::string& path, std::uint64_t offset,
                                      const std::stop_token& stop);

}  // namespace millrace::io::detail
