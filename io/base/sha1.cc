#include "io/base/sha1.h"

#include "io/base/detail/evp_digest.h"

namespace millrace {

struct Sha1::State {
  detail::EvpDigest digest{EVP_sha1()};
};

Sha1::Sha1() : state_(std::make_unique<State>()) {}
Sha1::~Sha1() = default;
Sha1::Sha1(Sha1&&) noexcept = default;
Sha1& Sha1::operator=(Sha1&&) noexcept = default;

void Sha1::update(std::span<const std::byte> data) { state_->digest.update(data); }

std::string Sha1::hex() const { return state_->digest.hex(); }

}  // namespace millrace
