// AppendFile: a file that grows while it can be read, such as a log.
//
//   auto file = open_append_file("runs/one/metrics.jsonl");
//   file->append("{\"loss\":0.5}\n");
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace millrace::io {

class AppendFile {
 public:
  virtual ~AppendFile() = default;

  /// Adds `text` at the end; on a disk readers see it at once. Throws: Io.
  virtual void append(std::string_view text) = 0;
  /// In bytes, with what was there before.
  virtual std::uint64_t size() const = 0;
  /// Whether what was there before ends within a line, as after a crash or a full disk.
  virtual bool ends_within_line() const = 0;
};

/// The file at `path` on disk, which is created if it is missing. Throws: NotFound, Io.
std::unique_ptr<AppendFile> open_append_file(const std::string& path);

/// Ends a line that is torn, so that what follows stands in lines of its own. Throws: Io.
void end_torn_line(AppendFile& file);

}  // namespace millrace::io
