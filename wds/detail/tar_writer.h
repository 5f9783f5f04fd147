// TarWriter: writes members to a ByteSink with libarchive and reports their offsets.
//
// The format is ustar, with pax only for what ustar cannot hold, padded to a multiple of 10,240
// bytes. The same members give the same bytes on every machine. What is added is hashed and written
// by threads of WriterThreads: small payloads are copied, others kept until then. Buffers: 4 MiB.
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "io/byte_sink.h"
#include "io/bytes.h"
#include "wds/writer_threads.h"

namespace millrace::wds::detail {

struct TarWriterOptions {
  /// Modification time of every member, in seconds since 1970.
  std::int64_t mtime = 0;
  /// Fills in the checksums of WrittenMember and WrittenTar.
  bool checksums = false;
  /// Null: its own.
  std::shared_ptr<WriterThreads> threads = {};
  /// Called once, when the threads have not caught up for two seconds.
  std::function<void()> on_wait = [] {};
};

/// Where a member is in the tar, as a reader will find it.
struct WrittenMember {
  std::uint64_t offset = 0;       ///< of its first header block
  std::uint64_t data_offset = 0;  ///< of the payload
  std::uint32_t crc32 = 0;        ///< of the payload
  std::uint32_t header_crc32 = 0;
};

struct WrittenTar {
  std::uint64_t end = 0;  ///< offset of the end marker
  std::uint64_t bytes = 0;
  std::string sha256 = {};
};

class TarWriter {
 public:
  TarWriter(std::unique_ptr<io::ByteSink> sink, const TarWriterOptions& options);
  ~TarWriter();
  TarWriter(TarWriter&&) noexcept;
  TarWriter& operator=(TarWriter&&) noexcept;

  /// Appends a member. Throws: InvalidArgument for a name that a tar cannot hold, Exhausted (no
  /// thread), and as the sink, also for what was added before.
  WrittenMember add(const std::string& name, const io::Bytes& data);
  /// Writes the end marker and all buffered bytes, and waits for that; only publish() is left to
  /// do. Throws: as add().
  WrittenTar end();
  /// Finishes the sink: the tar appears under its name. Called once, last. Throws: as the sink.
  void publish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds::detail
