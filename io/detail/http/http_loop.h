// HttpLoop: the thread that drives all transfers of an opener, on libcurl's multi interface.
//
// Connections are kept and reused, and serve one request at a time, those of HTTP/2 too. start(),
// resume() and cancel() only queue a command and wake the thread: none of them waits for the
// network.
//
// Threads: every member may be called from any thread.
#pragma once

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/thread_annotations.h"
#include "io/detail/http/http_transfer.h"

namespace millrace::io::detail {

class HttpLoop {
 public:
  HttpLoop();
  ~HttpLoop();
  HttpLoop(const HttpLoop&) = delete;
  HttpLoop& operator=(const HttpLoop&) = delete;

  void start(std::shared_ptr<HttpTransfer> transfer) { wish(Wish::kStart, std::move(transfer)); }
  /// Continues a transfer that paused because its buffer was full.
  void resume(std::shared_ptr<HttpTransfer> transfer) { wish(Wish::kResume, std::move(transfer)); }
  /// Aborts a transfer in any state; a finished one is left alone.
  void cancel(std::shared_ptr<HttpTransfer> transfer) { wish(Wish::kCancel, std::move(transfer)); }

 private:
  enum class Wish { kStart, kResume, kCancel };
  using Transfers = std::vector<std::shared_ptr<HttpTransfer>>;

  void wish(Wish what, std::shared_ptr<HttpTransfer> transfer);
  void run(const std::stop_token& stop);
  void await_sockets(const std::stop_token& stop);
  bool has_wishes();
  void grant_wishes();
  void grant(Wish what, const std::shared_ptr<HttpTransfer>& transfer);
  void collect_finished();
  void break_off_overdue();
  /// Removes the transfer from libcurl. Returns false if it was no longer running.
  bool remove(const HttpTransfer* transfer);

  CurlMulti multi_;
  Transfers running_;  // used only on the loop's thread
  Clock::TimePoint checked_{};
  Mutex mutex_;
  std::vector<std::pair<Wish, std::shared_ptr<HttpTransfer>>> wishes_ MILLRACE_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace millrace::io::detail
