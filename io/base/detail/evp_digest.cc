#include "io/base/detail/evp_digest.h"

#include <array>
#include <new>

namespace millrace::detail {

EvpDigest::EvpDigest(const EVP_MD* kind) {
  if (EVP_DigestInit_ex(context_, kind, nullptr) == 1) return;
  EVP_MD_CTX_free(context_);
  throw std::bad_alloc();
}

EvpDigest::~EvpDigest() { EVP_MD_CTX_free(context_); }

void EvpDigest::update(std::span<const std::byte> data) {
  EVP_DigestUpdate(context_, data.data(), data.size());
}

std::string EvpDigest::hex() const {
  EvpDigest copy;  // EVP_DigestFinal_ex ends a context
  EVP_MD_CTX_copy_ex(copy.context_, context_);
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(copy.context_, digest.data(), &size);
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (unsigned int i = 0; i < size; ++i) {
    text += kDigits[digest[i] >> 4];
    text += kDigits[digest[i] & 15];
  }
  return text;
}

}  // namespace millrace::detail
