// HashingOpener: hashes an object while it is read through the source that it opens. Such a source
// never skips, since every byte must be hashed.
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
  /// `opener` is borrowed and must outlive this.
  explicit HashingOpener(const io::Opener& opener);
  ~HashingOpener() override;

  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override;
  /// Size in bytes and SHA-256 of the whole object. The unread rest is read now, from a new source;
  /// all of it is read if more than one source was opened, since their bytes are in no order.
  /// Requires: the first was opened at the object's beginning. Throws: as opening and reading.
  std::pair<std::uint64_t, std::string> finish(const io::Opener& opener, const std::string& url,
                                               const std::stop_token& stop = {}) const;

 private:
  struct Count;
  const io::Opener& opener_;
  std::shared_ptr<Count> count_;
};

}  // namespace millrace::wds
