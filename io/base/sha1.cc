#include "io/base/sha1.h"

#include <openssl/evp.h>

#include <array>
#include <new>

namespace millrace {

struct Sha1::State {
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { EVP_MD_CTX_free(context); }
};

Sha1::Sha1() : state_(std::make_unique<State>()) {
  if (EVP_DigestInit_ex(state_->context, EVP_sha1(), nullptr) != 1) throw std::bad_alloc();
}
Sha1::~Sha1() = default;
Sha1::Sha1(Sha1&&) noexcept = default;
Sha1& Sha1::operator=(Sha1&&) noexcept = default;

void Sha1::update(std::span<const std::byte> data) {
  EVP_DigestUpdate(state_->context, data.data(), data.size());
}

std::string Sha1::hex() {
  std::array<unsigned char, 20> digest{};
  EVP_DigestFinal_ex(state_->context, digest.data(), nullptr);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace millrace
