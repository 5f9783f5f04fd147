// Writes what readers hand to a cache: one thread writes, another completes entries and fetches
// what their readers left out. Readers wait for neither.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "io/base/thread_annotations.h"
#include "io/byte_source.h"
#include "io/cache.h"
#include "io/detail/cache/cache_partial.h"

namespace millrace::io::detail {

/// An entry in the making and the sources that feed it. Opens the object's rest, if it is asked to.
struct Gathering {
  using Fetch = std::function<std::unique_ptr<ByteSource>(std::uint64_t offset,
                                                          std::uint64_t length, std::stop_token)>;
  Gathering(const CacheOptions& options, CachedObject object, std::string the_url, Fetch the_fetch)
      : entry(options.folder, options.max_bytes, std::move(object)),
        url(std::move(the_url)),
        fetch(std::move(the_fetch)) {}

  PartialEntry entry;
  const std::string url;  ///< with its secrets: it stays in memory
  const Fetch fetch;
  std::atomic<int> sources = 0;
  std::atomic<bool> filled = false;
};

/// Threads: any.
class CacheWriter {
 public:
  explicit CacheWriter(const CacheOptions& options);
  /// Writes what was handed over and completes what is complete, unless a stop was requested.
  ~CacheWriter();
  CacheWriter(const CacheWriter&) = delete;
  CacheWriter& operator=(const CacheWriter&) = delete;

  /// Takes bytes of an object, or drops them if too many wait.
  void hand_over(std::shared_ptr<Gathering> of, std::uint64_t offset, std::vector<std::byte> bytes);
  /// One of its sources is gone, after all that it handed over.
  void left(std::shared_ptr<Gathering> of);
  void expect_digest(const std::string& url, const std::string& sha256);

 private:
  struct Piece {
    std::shared_ptr<Gathering> of;
    std::uint64_t offset = 0;
    std::vector<std::byte> bytes = {};  // none: a source has left
  };
  struct Task {
    std::shared_ptr<Gathering> of;
    bool complete = false;  // or fill
  };

  void close();
  void write_pieces();
  void write(Piece& piece);
  void settle(const std::shared_ptr<Gathering>& of, Kept kept);
  void push_task(Task task);
  void run_tasks();
  void complete(Gathering& of);
  void fill(const std::shared_ptr<Gathering>& of);
  bool fill_hole(const std::shared_ptr<Gathering>& of, std::uint64_t offset, std::uint64_t length);
  void warn_once(std::atomic<bool>& said, const std::string& line);

  const CacheOptions options_;
  Mutex mutex_;
  std::condition_variable_any woken_;
  std::deque<Piece> pieces_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t waiting_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::deque<Task> tasks_ MILLRACE_GUARDED_BY(mutex_);
  bool closing_ MILLRACE_GUARDED_BY(mutex_) = false;
  bool written_ MILLRACE_GUARDED_BY(mutex_) = false;  // nothing will be written any more
  std::unordered_map<std::string, std::string> digests_ MILLRACE_GUARDED_BY(mutex_);
  std::atomic<bool> said_slow_ = false;
  std::atomic<bool> said_fault_ = false;
  std::atomic<bool> said_room_ = false;
  std::stop_source stop_fills_;
  std::stop_callback<std::function<void()>> on_stop_;
  std::jthread writing_;  // last: they use all of the above, and end when it is closed
  std::jthread completing_;
};

}  // namespace millrace::io::detail
