// Checks of the raw 512-byte header blocks of one tar member, in addition to libarchive, which
// tolerates too much: repeated and overlong pax records, names with a NUL, numbers followed by
// garbage.
//
// Source: POSIX.1-2017, pax, "ustar Interchange Format" and "pax Header Block".
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace millrace::wds::detail {

inline constexpr std::size_t kBlockBytes = 512;

/// A payload and what fills its last block.
constexpr std::uint64_t padded_size(std::uint64_t size) {
  return (size + kBlockBytes - 1) / kBlockBytes * kBlockBytes;
}

/// A plain header: one block of a regular file that holds the complete name and size.
struct PlainHeader {
  std::string_view prefix;  ///< views the block; joined to the name by a slash; may be empty
  std::string_view name;    ///< views the block
  std::uint64_t size = 0;
};

/// Parses `block` if it is like nearly all headers (v7, ustar or GNU, a regular file, octal
/// size, correct checksum); nullopt for anything else, valid or not: libarchive decides
/// then.
std::optional<PlainHeader> parse_plain_header(std::span<const std::byte> block);

/// Whether a block is a header, or part of one, by its checksum.
bool has_header_checksum(std::span<const std::byte> block);

/// Facts from the header region of one member.
struct HeaderFacts {
  char type = '0';      ///< the member's own type flag
  bool sparse = false;  ///< in any of GNU's three formats, or Sun's
  std::string fault;    ///< why the member cannot be used; empty if it can
  std::string name;     ///< as an extension header has it; empty if none does
  std::string link;     ///< likewise, of the target of a link
};

/// Walks `region`: extension headers (pax, GNU long names) with their bodies, then the member's own
/// block. Throws: Corrupt if the blocks do not have that form.
HeaderFacts inspect_header(std::span<const std::byte> region);

/// Throws: Corrupt: there is data other than zeros after the end marker.
[[noreturn]] void data_behind_end(std::optional<std::uint64_t> offset = {});
bool is_zero(std::span<const std::byte> bytes);
/// For messages: describes the first bytes of a file that is not a tar.
std::string describe_start(std::span<const std::byte> bytes);

}  // namespace millrace::wds::detail
