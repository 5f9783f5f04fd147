// ByteSink: where bytes go. A sink that was not finish()ed leaves nothing behind.
//
//   auto sink = open_file_sink("out/shard-000000.tar", {.replace = Replace::kNever});
//   sink->write(header); sink->write(payload);
//   sink->finish();
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace::io {

class ByteSink {
 public:
  /// Without finish() before it: takes back everything written. Never throws.
  virtual ~ByteSink() = default;

  /// Writes all of `data`. Throws: Error (Io) with path and errno's text; the sink is dead after.
  virtual void write(std::span<const std::byte> data) = 0;
  /// Makes what was written durable and visible under its name. Called once, last.
  virtual void finish() = 0;
  /// Bytes written so far.
  virtual std::uint64_t position() const = 0;
};

/// What to do with a file that already has the sink's name.
enum class Replace { kNever, kAtomically };

struct FileSinkOptions {
  Replace replace = Replace::kNever;
};

/// Throws: InvalidArgument where `path`, a place on this machine's disk that is to be written, is a
/// url: it would become a local folder called "gs:". Whoever makes folders asks first.
void check_local_path(const std::string& path);

/// A file that appears under `path` whole or not at all: a temporary name in the same folder,
/// fsync, rename, fsync of the folder. Throws: InvalidArgument when `path` is a url, or exists and
/// may not be replaced or is no regular file; Io.
std::unique_ptr<ByteSink> open_file_sink(const std::string& path,
                                         const FileSinkOptions& options = {});

}  // namespace millrace::io
