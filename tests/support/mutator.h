// Mutators: one random damage to a document or a tar, selected by a number. The same number gives
// the same mutant on every machine.
//
// Bits are flipped, files truncated, ranges removed, repeated or zeroed; and, specific to a format:
// numbers out of range, duplicate keys, values of another type, endless nesting, headers that claim
// data that is not there (with correct checksums).
#pragma once

#include <cstdint>
#include <string>

namespace millrace::testing {

/// A mutant of a text in JSON or TOML.
std::string mutated_text(const std::string& text, std::uint64_t number);

/// A mutant of an uncompressed tar.
std::string mutated_tar(const std::string& tar, std::uint64_t number);

/// A mutant of a packed tar: damaged bytes, frames that a decoder skips, another format's start.
std::string mutated_pack(const std::string& packed, std::uint64_t number);

}  // namespace millrace::testing
