// Mutators: one damage at one place of a document or a tar, drawn by a number. The same number gives
// the same mutant, on every machine.
//
// Bits flip, ends are cut, ranges are lost, doubled or zeroed; and what a format's own parser must
// withstand: numbers beyond their range, keys that stand twice, values of another kind, nesting
// without end, members whose headers claim what is not there (their checksums put right).
#pragma once

#include <cstdint>
#include <string>

namespace millrace::testing {

/// A mutant of a text in JSON or TOML.
std::string mutated_text(const std::string& text, std::uint64_t number);

/// A mutant of an uncompressed tar.
std::string mutated_tar(const std::string& tar, std::uint64_t number);

}  // namespace millrace::testing
