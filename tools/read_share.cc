#include "tools/read_share.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "io/base/thread_annotations.h"
#include "tools/metered_opener.h"

namespace millrace::tools {

class ReadShare::State {
 public:
  State(std::span<const std::string> shards, OnRead on_read) : on_read_(std::move(on_read)) {
    for (const std::string& shard : shards) shares_.emplace(shard, 0.0);
  }

  void take(const std::string& url, const io::ByteSource& source, std::size_t bytes)
      MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    bytes_ += bytes;
    const auto shard = shares_.find(url);
    const std::uint64_t size = source.size().value_or(0);
    if (shard != shares_.end() && size > 0)
      reach(shard->second, static_cast<double>(source.position()) / static_cast<double>(size));
    if (on_read_) on_read_(share_of_all(), bytes_);
  }

  double share() const MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return share_of_all();
  }
  std::uint64_t bytes() const MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    return bytes_;
  }
  void forget() MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    on_read_ = {};
  }

 private:
  // One that is read twice has been read.
  void reach(double& share, double place) MILLRACE_REQUIRES(mutex_) {
    const double further = std::max(share, std::min(1.0, place));
    sum_ += further - share;
    share = further;
  }
  double share_of_all() const MILLRACE_REQUIRES(mutex_) {
    return shares_.empty() ? 0.0 : std::min(1.0, sum_ / static_cast<double>(shares_.size()));
  }

  mutable Mutex mutex_;
  OnRead on_read_ MILLRACE_GUARDED_BY(mutex_);
  std::unordered_map<std::string, double> shares_ MILLRACE_GUARDED_BY(mutex_);
  double sum_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
};

ReadShare::ReadShare(std::shared_ptr<const io::Opener> opener, std::span<const std::string> shards,
                     OnRead on_read)
    : state_(std::make_shared<State>(shards, std::move(on_read))),
      opener_(std::make_shared<MeteredOpener>(
          std::move(opener),
          OpenerHooks{.on_read = [state = state_](const std::string& url, const auto& source,
                                                  std::size_t bytes) {
            state->take(url, source, bytes);
          }})) {}

ReadShare::~ReadShare() { state_->forget(); }

double ReadShare::share() const { return state_->share(); }
std::uint64_t ReadShare::bytes() const { return state_->bytes(); }

}  // namespace millrace::tools
