// FileRanges: parts of local files, also of files that are packed as a whole (gzip, bzip2, xz,
// zstd).
//
//   FileRanges files;
//   io::Bytes part = files.read("shard.00000.mds.zstd", Packing::kPacked, 4096, 512);
//
// A packed file is unpacked when a part of it is first read, and stays in memory among the latest;
// one that is read again after it has left goes to a temporary file without a name ($TMPDIR), so
// that samples may be read in any order. Buffers: 1 GiB of unpacked files, and one more per thread.
//
// Threads: const members may be called from many threads at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>

#include "io/base/thread_annotations.h"
#include "io/bytes.h"

namespace millrace::tools {

enum class Packing { kPlain, kPacked };

class FileRanges {
 public:
  struct Limits {
    /// Unpacked bytes that are kept.
    std::size_t kept_bytes = std::size_t{1} << 30U;
    /// Of one unpacked file.
    std::size_t file_bytes = std::size_t{8} << 30U;
  };

  FileRanges();
  explicit FileRanges(const Limits& limits);
  ~FileRanges();

  /// The size of the (unpacked) file. Throws: as read().
  std::uint64_t size(const std::string& path, Packing packing) const;
  /// Throws: NotFound, Io; Truncated, with the offset, if the file ends before; as unpacking.
  io::Bytes read(const std::string& path, Packing packing, std::uint64_t offset,
                 std::uint64_t size) const;

 private:
  struct Contents;
  struct Packed;
  Contents contents(const std::string& path) const;
  Contents unpack(const std::string& path, Packed& file, const Contents& before) const;
  std::shared_ptr<Packed> packed(const std::string& path) const MILLRACE_EXCLUDES(mutex_);
  Contents look(const Packed& file) const MILLRACE_EXCLUDES(mutex_);
  void set(Packed& file, Contents contents) const MILLRACE_EXCLUDES(mutex_);
  void keep(const std::shared_ptr<Packed>& file) const MILLRACE_EXCLUDES(mutex_);

  Limits limits_;
  mutable Mutex mutex_;
  mutable std::unordered_map<std::string, std::shared_ptr<Packed>> files_
      MILLRACE_GUARDED_BY(mutex_);
  mutable std::list<std::shared_ptr<Packed>> kept_
      MILLRACE_GUARDED_BY(mutex_);  ///< the oldest first
  mutable std::size_t kept_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

}  // namespace millrace::tools
