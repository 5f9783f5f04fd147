#include "io/base/hash.h"

#include <isa-l/crc.h>
#include <openssl/evp.h>

#include <algorithm>
#include <array>
#include <new>

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
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  if (EVP_DigestInit_ex(state_->context, EVP_sha256(), nullptr) != 1) throw std::bad_alloc();
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

void Sha256::update(std::span<const std::byte> data) {
  EVP_DigestUpdate(state_->context, data.data(), data.size());
}

std::string Sha256::hex() const {
  State copy;  // EVP_DigestFinal_ex ends a context, and update() may follow
  EVP_MD_CTX_copy_ex(copy.context, state_->context);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(copy.context, digest.data(), &size);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

}  // namespace millrace
