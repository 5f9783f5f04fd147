// TarReader: reads the members of one tar and checks every block that is not payload.
//
// Plain headers (one block, a regular file, an octal size) are parsed directly; libarchive
// interprets all others (pax, GNU extensions, links), and their raw blocks are checked too. What
// libarchive would tolerate is a fault: a bad checksum, a zeroed header, a missing end marker, a
// truncated payload. Payloads go from the source directly to the caller, or are skipped. Compressed
// tars (gzip, bzip2, xz, zstd, by their first bytes) are unpacked.
//
//   TarReader tar(opener.open(url), {});
//   for (TarMember member; tar.next(member);) {
//     if (member.kind == MemberKind::kFile) use(member.name, tar.read_payload());
//   }
//
// After an Error the reader can continue with the next member if can_continue() is true; otherwise
// the rest of the tar is lost. Offsets are in bytes of the (decompressed) tar stream. Order: the
// tar's. Buffers: TarOptions::buffer_bytes and one member. Threads: one at a time.
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

/// How to treat data after an end marker. (Zeros, with which writers pad, are not data.)
enum class BehindEnd {
  kFault,  ///< Corrupt: another archive, or the "marker" was a member with a zeroed header
  kCount,  ///< counted in TarWarnings::trailing_data; the tar ends at the marker
  kRead,   ///< read as another archive (cat a.tar b.tar)
};

struct TarOptions {
  /// Maximum payload of a member that is read, in bytes.
  std::uint64_t max_member_bytes = std::uint64_t{1024} * 1024 * 1024;
  BehindEnd behind_end = BehindEnd::kFault;
  /// Accepts a missing end marker if the tar ends between two members.
  bool lenient = false;
  /// Maximum ratio of unpacked to packed bytes, enforced from 64 MiB of output on.
  std::uint64_t max_expansion = 100;
  /// Maximum window of a zstd frame, in bytes; 8 MiB suits `zstd -19` and is RFC 8878's advice.
  std::uint64_t max_window_bytes = std::uint64_t{8} * 1024 * 1024;
  /// Bytes read at once, and the least gap that is skipped rather than read along. Less than the
  /// default suits single samples and headers alone.
  std::size_t buffer_bytes = std::size_t{256} * 1024;
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
  std::string link;                     ///< target of a hard link
  std::uint64_t offset = 0;             ///< of its first header block
  std::uint64_t data_offset = 0;        ///< of the payload
  std::uint64_t size = 0;               ///< payload bytes
  std::uint32_t header_crc32 = 0;       ///< of all its header blocks, if requested
  std::uint32_t archive = 0;            ///< number of archives before it (BehindEnd::kRead)
  MemberKind kind = MemberKind::kFile;  ///< only files have a payload
};

/// Oddities that are not faults, counted for the report.
struct TarWarnings {
  std::uint64_t missing_end = 0;      ///< no end marker (lenient)
  std::uint64_t trailing_data = 0;    ///< data behind the end marker (BehindEnd::kCount)
  std::uint64_t ignored_members = 0;  ///< symbolic links, devices and FIFOs
  std::string first_ignored = {};     ///< the name of the first one
  std::uint64_t unguarded = 0;        ///< zstd frames, or an xz stream, without a checksum

  TarWarnings& operator+=(const TarWarnings& more);
};

class TarReader {
 public:
  /// `source` is positioned at `start`: 0, or the offset of a header in an uncompressed tar.
  TarReader(std::unique_ptr<io::ByteSource> source, const TarOptions& options,
            std::uint64_t start = 0);
  ~TarReader();
  TarReader(TarReader&&) noexcept;
  TarReader& operator=(TarReader&&) noexcept;

  /// The next member, or false at the tar's true end. Requires: after an Error, can_continue().
  /// Throws: Truncated, Corrupt, Unsupported (sparse members), Exhausted (a limit), as the source.
  bool next(TarMember& member);
  /// The payload of the current member; empty if it has none. Called at most once per member;
  /// next() skips a payload that was not read, without reading it if the source can skip. Throws:
  /// Exhausted (max_member_bytes), after which next() may be called; Truncated, and as the
  /// source.
  io::Bytes read_payload();
  /// Called first, if at all. In a compressed tar, drops everything before the header at `offset`;
  /// does nothing and returns false if the tar is not compressed. Throws: as next().
  bool skip_to(std::uint64_t offset);
  /// After an Error: whether next() can continue after the faulty member.
  bool can_continue() const;
  TarWarnings warnings() const;
  /// True if the tar is compressed, so that reading cannot start in its middle; known after next().
  bool compressed() const;
  /// Offset of the first byte not yet consumed.
  std::uint64_t position() const;
  /// After the end: the offset of the end marker, or where it should have been.
  std::uint64_t end_offset() const;
  /// After the end: stored bytes of the tar; nullopt if it was not read to its last byte.
  std::optional<std::uint64_t> stored_bytes() const;
  /// Size of the tar in bytes; nullopt if it is compressed or its source does not know.
  std::optional<std::uint64_t> size() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace::wds
