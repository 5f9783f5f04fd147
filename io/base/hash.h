// Checksums: CRC-32 for members (as gzip, zip and PNG have it), SHA-256 for whole objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace {

/// CRC-32 (polynomial 0xEDB88320) of `data`, going on from `crc`, the value of what came before.
std::uint32_t crc32(std::span<const std::byte> data, std::uint32_t crc = 0);

/// SHA-256, fed in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> data);
  /// The digest so far as 64 lower-case hex digits; more may be fed afterwards.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
