// A ByteSink that packs what is written by gzip, for text that programs read: fast rather than
// small.
//
//   auto sink = gzip_sink(open_file_sink("trace.json.gz"));
//   sink->write(text);
//   sink->finish();
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <string_view>

#include "io/byte_sink.h"

namespace millrace::io {

/// `packed` receives one gzip member. position() counts bytes before they are packed. Throws: as
/// `packed`.
std::unique_ptr<ByteSink> gzip_sink(std::unique_ptr<ByteSink> packed);
/// Whether a file of this name is packed: "trace.json.gz".
bool has_gzip_name(std::string_view path);

}  // namespace millrace::io
