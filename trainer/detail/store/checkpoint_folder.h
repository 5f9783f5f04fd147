// A checkpoint's folder as files: written under a temporary name with a manifest of hashes,
// checked, then renamed; a file is returned only after it has been checked.
//
// Threads: one at a time per folder.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/byte_sink.h"
#include "io/bytes.h"
#include "io/opener.h"

namespace millrace::trainer::detail {

/// Writes one file's content.
using FileWriter = std::function<void(io::ByteSink&)>;
/// A checkpoint's files but its manifest.
struct CheckpointFiles {
  std::map<std::string, FileWriter> writers;  ///< by their names
  std::string run = {};                       ///< TrainState::run
  std::uint64_t tensor_bytes = 0;             ///< of what the writers write; 0: unknown
};
/// Told the bytes that are done so far, on the thread that does them.
using BytesDone = std::function<void(std::uint64_t bytes)>;

inline constexpr const char* kManifestName = "manifest.json";

/// What a manifest says of a file.
struct ManifestEntry {
  std::uint64_t bytes = 0;
  std::string sha256 = {};
  /// The object's name, in a store; empty: the file's.
  std::string object = {};
};
struct CheckpointManifest {
  std::map<std::string, ManifestEntry> files = {};
  std::string run = {};
};
std::string to_json(const CheckpointManifest& manifest);

/// Writes `files` as `parent`/`name`. An earlier folder stays until the new one has been read back,
/// and is called `name`.previous between the two renames. `done`: the bytes written and those read
/// back. Throws: Io; the earlier one is intact.
void write_folder(const std::string& parent, const std::string& name, const CheckpointFiles& files,
                  const BytesDone& done = {});

/// Completes replacements that were interrupted between the two renames: a folder that is missing
/// under its name is restored, the new one if it is intact, else the previous one. Requires: nobody
/// else writes to `parent`. Throws: Io.
void recover_folders(const std::string& parent, const Log& log);

/// A checkpoint's files, as its manifest lists them.
class FolderReader {
 public:
  /// Reads the manifest of the checkpoint at `path`, a folder or a url; `path`.previous if a local
  /// one is missing. Lifetime: `opener` is borrowed. Throws: NotFound, Corrupt, Io; Cancelled after
  /// the opener's stop.
  FolderReader(const std::string& path, const io::Opener& opener);

  const std::string& path() const { return path_; }
  const CheckpointManifest& manifest() const { return manifest_; }
  bool has(const std::string& name) const { return manifest_.files.contains(name); }
  /// The file's content, after its size and SHA-256 were compared. Throws: Truncated, Corrupt (also
  /// if the manifest has more than `limit_bytes` for it, or lacks it), Io.
  io::Bytes read(const std::string& name, std::uint64_t limit_bytes) const;
  /// Compares every file, a piece at a time. Throws: as read().
  void verify(const BytesDone& done = {}) const;
  /// Writes the file to `sink`, a piece at a time, and compares it. Throws: as read(), then with
  /// `sink` unfinished; as ByteSink::write().
  void copy(const std::string& name, io::ByteSink& sink) const;
  /// Compares every file with a listing of the folder, or of one above it: whether it is there, and
  /// its size. Throws: NotFound, Truncated.
  void check_listed(const std::vector<io::ListedObject>& objects) const;

 private:
  using Take = std::function<void(std::span<const std::byte>)>;
  const ManifestEntry& entry_of(const std::string& name) const;
  void pass(const ManifestEntry& entry, const std::string& url, const Take& take) const;
  std::string url_of(const std::string& name, const ManifestEntry& entry) const;

  std::string path_;
  const io::Opener& opener_;
  CheckpointManifest manifest_;
};

/// The user's opener, or one that ends with the run's stop. `Options`: TrainOptions, EvalOptions.
template <typename Options>
std::shared_ptr<const io::Opener> checkpoint_opener(const Options& options) {
  if (options.opener) return options.opener;
  return std::make_shared<io::UrlOpener>(io::UrlOpenerOptions{.stop = options.stop});
}

}  // namespace millrace::trainer::detail
