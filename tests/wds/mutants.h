// Mutants of a shard: every way to damage a small tar in one place.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::testing {

enum class Damage {
  kCutPayload,
  kCutHeader,
  kCutEnd,
  kFlippedHeader,
  kZeroedHeader,
  kFlippedPayload
};
inline constexpr int kNumDamages = 6;
const char* damage_name(Damage damage);

struct Mutant {
  Damage damage;
  std::string tar;
};

/// A shard of `samples` samples of two members, ustar, with its end marker.
std::string small_shard(int samples);
/// Truncated at every 512-byte boundary and at 8 places in between, every header byte flipped,
/// every header zeroed, every 7th payload byte flipped.
std::vector<Mutant> mutants_of(const std::string& tar, int samples);

/// How `mutant` differs from `tar`, on one line: "KIND cut LENGTH" or "KIND set OFFSET HEX".
std::string edit_of(const Mutant& mutant, const std::string& tar);

}  // namespace millrace::testing
