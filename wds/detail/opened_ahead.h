// OpenedAhead: an opener that opens one object before it is asked for, so that what is needed first
// and the object itself take one round trip together.
//
// Threads: one at a time.
#pragma once

#include <exception>
#include <memory>
#include <string>

#include "io/opener.h"

namespace millrace::wds::detail {

class OpenedAhead final : public io::Opener {
 public:
  /// `opener` is borrowed. A fault is left to the open() that asks for the object.
  OpenedAhead(const io::Opener& opener, const std::string& url, const io::OpenOptions& options);

  /// The source that was opened ahead, if it is what is asked for, or begins a little before it,
  /// and once. Throws: as the opener's.
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override;

 private:
  const io::Opener& opener_;
  std::string url_;
  io::OpenOptions options_;
  mutable std::unique_ptr<io::ByteSource> source_;
  mutable std::exception_ptr fault_;
};

}  // namespace millrace::wds::detail
