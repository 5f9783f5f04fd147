#include "io/base/hash.h"

#include <isa-l/crc.h>

#include <algorithm>

#include "io/base/detail/evp_digest.h"

namespace millrace {

std::uint32_t crc32c(std::span<const std::byte> data, std::uint32_t crc) {
  constexpr std::size_t kMostAtOnce = std::size_t{1} << 30;  // ISA-L counts in an int
  std::uint32_t state = ~crc;
  while (!data.empty()) {
    const auto run = data.first(std::min(data.size(), kMostAtOnce));
    // ISA-L does not change the data, but does not say so.
    auto* bytes = reinterpret_cast<unsigned char*>(const_cast<std::byte*>(run.data()));
    state = ::crc32_iscsi(bytes, static_cast<int>(run.size()), state);
    data = data.subspan(run.size());
  }
  return ~state;
}

struct Sha256::State {
  detail::EvpDigest digest{EVP_sha256()};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> data) { state_->digest.update(data); }

std::string Sha256::hex() const { return state_->digest.hex(); }

}  // namespace millrace
