// HashingOpener: hashes an object as it passes through the source it opens. Such a source never
// skips: every byte counts.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <utility>

#include "io/opener.h"

namespace millrace::wds {

class HashingOpener final : public io::Opener {
 public:
  /// Lifetime: `opener` is borrowed, and must outlive this.
  explicit HashingOpener(const io::Opener& opener);
  ~HashingOpener() override;

  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override;
  /// Size and SHA-256 of the whole object. What was not read of it is read now, from a new source;
  /// all of it when more than one source was opened, whose bytes are in no order.
  /// Requires: the first was opened at the object's beginning. Throws: what opening and reading throw.
  std::pair<std::uint64_t, std::string> finish(const io::Opener& opener, const std::string& url,
                                               const std::stop_token& stop = {}) const;

 private:
  struct Count;
  const io::Opener& opener_;
  std::shared_ptr<Count> count_;
};

}  // namespace millrace::wds
