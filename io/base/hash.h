// Checksums: CRC-32 for members (as gzip, zip and PNG have it), CRC-32C for what Google Cloud
// Storage compares, SHA-256 for whole objects.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

namespace millrace {

/// CRC-32 (polynomial 0xEDB88320) of `data`, continued from `crc`, that of the preceding bytes.
std::uint32_t crc32(std::span<const std::byte> data, std::uint32_t crc = 0);

/// CRC-32C (polynomial 0x82F63B78) of `data`, continued from `crc`.
std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc = 0);

/// Incremental SHA-256. Threads: one at a time.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  void update(std::span<const std::byte> data);
  /// The digest so far as 64 lower-case hex digits; update() may be called again afterwards.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
