// A checkpoint's folder as files: written under a temporary name with a manifest of hashes,
// checked, swapped in; no file is handed out before it has been checked.
//
// Threads: one at a time a folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>

#include "io/base/log.h"
#include "io/byte_sink.h"
#include "io/bytes.h"
#include "io/opener.h"

namespace millrace::trainer::detail {

/// Writes one file's content.
using FileWriter = std::function<void(io::ByteSink&)>;

/// Writes `files` as `parent`/`name`. What was there before stays until the new folder has been
/// read back, and is called `name`.previous for the moment between two renames.
void write_folder(const std::string& parent, const std::string& name,
                  const std::map<std::string, FileWriter>& files);

/// Ends what a kill between two renames left undone: each folder in `parent` that is missing under
/// its name comes back, the new one if it is whole, else the previous one. Requires: nobody else
/// writes there. Throws: Io.
void recover_folders(const std::string& parent, const Log& log);

/// A checkpoint's files, as its manifest lists them.
class FolderReader {
 public:
  /// Reads the manifest of the checkpoint at `path`, a folder or a url. When a local one is
  /// missing, `path`.previous is taken. Lifetime: `opener` is borrowed. Throws: NotFound, Corrupt,
  /// Io; Cancelled, by the opener's stop.
  FolderReader(const std::string& path, const io::Opener& opener);

  const std::string& path() const { return path_; }
  bool has(const std::string& name) const { return files_.contains(name); }
  /// The file, whole, after comparing its size and SHA-256. Throws: Truncated, Corrupt (also when
  /// it claims more than `limit_bytes`, or the checkpoint lacks it), Io.
  io::Bytes read(const std::string& name, std::uint64_t limit_bytes) const;
  /// Compares every file, without holding one in memory. Throws: as read().
  void verify() const;

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    std::string sha256;
  };

  void verify(const std::string& name, const Entry& entry) const;

  std::string path_;
  const io::Opener& opener_;
  std::map<std::string, Entry> files_;
};

}  // namespace millrace::trainer::detail
