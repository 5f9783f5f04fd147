// ByteSink: a destination for bytes. A sink that was not finish()ed leaves nothing behind.
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
  /// Discards everything written unless finish() has succeeded. Never throws.
  virtual ~ByteSink() = default;

  /// Writes all of `data`. Throws: Io with path and errno's text; after that every call throws Io.
  virtual void write(std::span<const std::byte> data) = 0;
  /// Publishes what was written, durably. Called once, last. Throws: as open_sink() and write().
  virtual void finish() = 0;
  /// Bytes written so far.
  virtual std::uint64_t position() const = 0;
};

/// What to do with a file that already has the sink's name.
enum class Replace { kNever, kAtomically };

struct FileSinkOptions {
  Replace replace = Replace::kNever;
};

/// Checks a path that is about to be written on a local disk, before folders are created for it:
/// "gs://x" would become a local folder "gs:". Throws: InvalidArgument if `path` is a URL.
void check_local_path(const std::string& path);
/// Makes the names in `folder` durable (fsync); empty: the working directory. Throws: NotFound, Io.
void sync_folder(const std::string& folder);

/// A file that appears at `path` complete or not at all: a temporary in the same folder, fsync,
/// rename, fsync of the folder. Throws: InvalidArgument if `path` is a URL, exists and may not be
/// replaced, or is not a regular file; NotFound if its folder is missing; Io.
std::unique_ptr<ByteSink> open_file_sink(const std::string& path,
                                         const FileSinkOptions& options = {});

}  // namespace millrace::io
