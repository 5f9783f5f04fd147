// TarReader: the members of one tar, every block of it that is no payload accounted for.
//
// Plain headers (one block, a regular file, an octal size) are read here; libarchive interprets all
// others (v7, ustar, GNU, pax), and their blocks are looked at as well: what libarchive would
// forgive is a fault here: a bad checksum, a zeroed header, a missing end marker, a payload that is
// cut. A payload goes from the source straight to its reader, or is skipped. Compressed tars (gzip,
// bzip2, xz, zstd, told by their first bytes) are unpacked.
//
//   TarReader tar(opener.open(url), {});
//   for (TarMember member; tar.next(member);) {
//     if (member.kind == MemberKind::kFile) use(member.name, tar.read_payload());
//   }
//
// After an Error the reader goes on with the next member when can_continue() is true; otherwise the
// rest of the tar is lost. Offsets are in the (decompressed) tar stream.
// Order: the tar's. Buffers: 256 KiB and one member. Threads: one at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "io/byte_source.h"
#include "io/bytes.h"

namespace millrace::wds {

/// What data behind an end marker is. (Zeros, which writers pad with, are no data.)
enum class BehindEnd {
  kFault,  ///< Corrupt: it may be another archive, or the marker a member whose header was zeroed
  kCount,  ///< TarWarnings::trailing_data, and the tar's end
  kRead,   ///< one more archive (cat a.tar b.tar)
};

struct TarOptions {
  /// Payload bytes of a member that is read, at most.
  std::uint64_t max_member_bytes = std::uint64_t{1024} * 1024 * 1024;
  BehindEnd behind_end = BehindEnd::kFault;
  /// Accepts a missing end marker when the tar ends between two members.
  bool lenient = false;
  /// A compressed tar may grow to this many times its size, once 64 MiB have come out.
  std::uint64_t max_expansion = 100;
  /// Memory that a zstd frame may ask for; 8 MiB is what `zstd -19` takes and RFC 8878 recommends.
  std::uint64_t max_window_bytes = std::uint64_t{8} * 1024 * 1024;
  /// Fills in TarMember::header_crc32.
  bool header_checksums = false;
};

enum class MemberKind {
  kFile,
  kFolder,
  kHardLink,  ///< another name of an earlier member: TarMember::link
  kOther,     ///< a symbolic link, a device, a FIFO
};

struct TarMember {
  std::string name;
  std::string link;                     ///< what a hard link leads to
  std::uint64_t offset = 0;             ///< of the first header block that belongs to it
  std::uint64_t data_offset = 0;        ///< of the payload
  std::uint64_t size = 0;               ///< payload bytes
  std::uint32_t header_crc32 = 0;       ///< of all its header blocks, when asked for
  std::uint32_t archive = 0;            ///< how many archives lie in front of it (BehindEnd::kRead)
  MemberKind kind = MemberKind::kFile;  ///< files alone carry a payload
};

/// What was odd but no fault; counted for the report.
struct TarWarnings {
  std::uint64_t missing_end = 0;      ///< no end marker (lenient)
  std::uint64_t trailing_data = 0;    ///< data behind the end marker (BehindEnd::kCount)
  std::uint64_t ignored_members = 0;  ///< symbolic links, devices and FIFOs
  std::string first_ignored = {};     ///< the name of the first of them
  std::uint64_t unguarded = 0;        ///< zstd frames, or an xz stream, without a checksum

  TarWarnings& operator+=(const TarWarnings& more);
};

class TarReader {
 public:
  /// `source` stands at `start`, which is 0 or the offset of a member's header in a plain tar.
  TarReader(std::unique_ptr<io::ByteSource> source, const TarOptions& options,
            std::uint64_t start = 0);
  ~TarReader();
  TarReader(TarReader&&) noexcept;
  TarReader& operator=(TarReader&&) noexcept;

  /// The next member, or false at the tar's true end. Throws: Truncated, Corrupt, Unsupported
  /// (sparse members), Exhausted (a limit), and what the source throws.
  bool next(TarMember& member);
  /// The payload of the member that next() gave; empty for one without. Called at most once for
  /// each member; one that is not read is skipped by next(), without being read where its source
  /// allows. Throws: Exhausted (max_member_bytes), after which next() goes on; Truncated, and what
  /// the source throws.
  io::Bytes read_payload();
  /// In a compressed tar that stands at its beginning: reads and drops up to the header at
  /// `offset`. False, and nothing done, when the tar is not compressed.
  bool skip_to(std::uint64_t offset);
  /// After an Error: whether next() can go on behind the member that was at fault.
  bool can_continue() const;
  TarWarnings warnings() const;
  /// True when the tar is compressed, so that no source can be opened in its middle.
  bool compressed() const;
  /// Offset of the first byte not yet read.
  std::uint64_t position() const;
  /// After the end: the offset of the end marker.
  std::uint64_t end_offset() const;
  /// After the end: bytes of the tar as it is stored, when it was read to its last.
  std::optional<std::uint64_t> stored_bytes() const;
  /// The whole tar's bytes, when its source knows: not that of a compressed one.
  std::optional<std::uint64_t> size() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds
