// EvpDigest: one of OpenSSL's digests, fed bit by bit; what Sha256 and Sha1 are made of.
#pragma once

#include <openssl/evp.h>

#include <cstddef>
#include <span>
#include <string>

namespace millrace::detail {

/// Threads: one at a time.
class EvpDigest {
 public:
  /// Throws: std::bad_alloc.
  explicit EvpDigest(const EVP_MD* kind);
  ~EvpDigest();
  EvpDigest(const EvpDigest&) = delete;
  EvpDigest& operator=(const EvpDigest&) = delete;

  void update(std::span<const std::byte> data);
  /// What has come so far, in lower-case hex digits; more may follow.
  std::string hex() const;

 private:
  EvpDigest() = default;

  EVP_MD_CTX* context_ = EVP_MD_CTX_new();
};

}  // namespace millrace::detail
