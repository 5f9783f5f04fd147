// HttpLoop: the one thread that drives all transfers of an opener, on libcurl's multi interface.
//
// Connections are kept and used again, and HTTP/2 streams share one. start(), resume() and cancel()
// only queue a wish and wake the thread: none of them waits for the network.
//
// Threads: every member may be called from any thread.
#pragma once

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/thread_annotations.h"
#include "io/detail/http_transfer.h"

namespace millrace::io::detail {

class HttpLoop {
 public:
  HttpLoop();
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  void start(std::shared_ptr<HttpTransfer> transfer) { wish(Wish::kStart, std::move(transfer)); }
  /// Goes on with a transfer that paused because its buffer was full.
  void resume(std::shared_ptr<HttpTransfer> transfer) { wish(Wish::kResume, std::move(transfer)); }
  /// Breaks a transfer off, wherever it is.
  void cancel(std::shared_ptr<HttpTransfer> transfer) { wish(Wish::kCancel, std::move(transfer)); }

 private:
  enum class Wish { kStart, kResume, kCancel };
  using Transfers = std::vector<std::shared_ptr<HttpTransfer>>;

  void wish(Wish what, std::shared_ptr<HttpTransfer> transfer);
  void run(const std::stop_token& stop);
  void grant_wishes();
  void grant(Wish what, const std::shared_ptr<HttpTransfer>& transfer);
  void collect_finished();
  void break_off_overdue();
  /// Takes the transfer out of libcurl's hands. False when it was not there any more.
  bool remove(const HttpTransfer* transfer);

  CurlMulti multi_;
  Transfers running_;  // the loop's thread alone
  Clock::TimePoint checked_{};
  Mutex mutex_;
  std::vector<std::pair<Wish, std::shared_ptr<HttpTransfer>>> wishes_ MILLRACE_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace millrace::io::detail
