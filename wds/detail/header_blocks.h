// The raw 512-byte blocks behind one tar member, looked at beside libarchive, which forgives too
// much: repeated and overlong pax records, names with a NUL, numbers that end in rubbish.
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

/// What a plain header says: the block of a regular member whose name and size stand in it in full.
struct PlainHeader {
  std::string_view prefix;  ///< views the block; to be joined to the name by a slash; or empty
  std::string_view name;    ///< views the block
  std::uint64_t size = 0;
};

/// Reads `block` when it is as nearly all headers are (v7, ustar or GNU, a regular file, octal
/// size, right checksum); nothing when it is anything else, good or bad: that is for libarchive to
/// tell.
std::optional<PlainHeader> parse_plain_header(std::span<const std::byte> block);

/// What the header region of one member says.
struct HeaderFacts {
  char type = '0';      ///< the member's own type flag
  bool sparse = false;  ///< in any of GNU's three ways, or Sun's
  std::string fault;    ///< what makes the member unfit to be used; empty when nothing does
};

/// Walks `region`: extension headers (pax, GNU long names) with their bodies, then the member's own
/// block. Throws: Corrupt when the blocks contradict that form.
HeaderFacts inspect_header(std::span<const std::byte> region);

/// Throws: Corrupt: where a tar should have ended, more lies than zeros.
[[noreturn]] void data_behind_end(std::optional<std::uint64_t> offset = {});
bool is_zero(std::span<const std::byte> bytes);
/// For messages: what a file that is no tar begins with.
std::string describe_start(std::span<const std::byte> bytes);

}  // namespace millrace::wds::detail
