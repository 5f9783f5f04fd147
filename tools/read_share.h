// ReadShare: how much of some shards has been read, where samples cannot be counted before. Each
// shard counts alike, by how far its reading has come in its bytes.
//
//   ReadShare reads(opener, shards, [&](double share, std::uint64_t bytes) { draw(share); });
//   read(*reads.opener());
//
// Threads: any. `on_read` is called on the threads that read, one at a time, and no longer once
// this object is gone, which sources of opener() may outlive.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "io/opener.h"

namespace millrace::tools {

class ReadShare {
 public:
  using OnRead = std::function<void(double share, std::uint64_t bytes)>;

  ReadShare(std::shared_ptr<const io::Opener> opener, std::span<const std::string> shards,
            OnRead on_read);
  ~ReadShare();
  ReadShare(const ReadShare&) = delete;
  ReadShare& operator=(const ReadShare&) = delete;

  const std::shared_ptr<const io::Opener>& opener() const { return opener_; }
  /// Of 1, of all shards; shards whose size is not told (pipes) stay at 0.
  double share() const;
  /// Read of anything, the indexes included.
  std::uint64_t bytes() const;

 private:
  class State;
  std::shared_ptr<State> state_;
  std::shared_ptr<const io::Opener> opener_;
};

}  // namespace millrace::tools
