// SHA-1, for what other formats wrote with it: it finds damage, and proves nothing against forgers.
//
//   Sha1 hash;
//   hash.update(bytes);
//   if (hash.hex() != listed) ...
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

namespace millrace {

/// Incremental SHA-1. Threads: one at a time.
class Sha1 {
 public:
  Sha1();
  ~Sha1();
  Sha1(Sha1&&) noexcept;
  Sha1& operator=(Sha1&&) noexcept;

  void update(std::span<const std::byte> data);
  /// The digest as 40 lower-case hex digits; more may follow.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace millrace
