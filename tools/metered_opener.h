// MeteredOpener: tells of every read and write through it, for those that show how far they are.
//
//   const MeteredOpener metered(opener, {.on_write = [&](std::size_t bytes) { sent += bytes; }});
//
// Threads: as the opener's; the functions are called on the threads that read and write, so that
// they must be callable from many. Lifetime: sources and sinks keep the functions.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "io/opener.h"

namespace millrace::tools {

struct OpenerHooks {
  /// After a read of `source`, which was opened as `url`, of so many bytes.
  std::function<void(const std::string& url, const io::ByteSource& source, std::size_t bytes)>
      on_read = {};
  /// After so many bytes were taken by a sink, which may still hold some of them.
  std::function<void(std::size_t bytes)> on_write = {};
};

class MeteredOpener final : public io::Opener {
 public:
  MeteredOpener(std::shared_ptr<const io::Opener> opener, OpenerHooks hooks);

  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options = {}) const override;
  bool can_list(const std::string& url) const override { return opener_->can_list(url); }
  std::vector<io::ListedObject> list(const std::string& prefix,
                                     const io::ListOptions& options = {}) const override {
    return opener_->list(prefix, options);
  }
  std::unique_ptr<io::ByteSink> open_sink(const std::string& url,
                                          const io::FileSinkOptions& options = {},
                                          const std::stop_token& stop = {}) const override;
  void remove(const std::string& url, const std::stop_token& stop = {}) const override {
    opener_->remove(url, stop);
  }
  void expect_digest(const std::string& url, const std::string& sha256) const override {
    opener_->expect_digest(url, sha256);
  }

 private:
  std::shared_ptr<const io::Opener> opener_;
  std::shared_ptr<const OpenerHooks> hooks_;
};

/// `opener` as one that is shared. Lifetime: `opener`'s.
inline std::shared_ptr<const io::Opener> borrowed(const io::Opener& opener) {
  return {std::shared_ptr<void>(), &opener};
}

}  // namespace millrace::tools
