#include "io/detail/http/http_loop.h"

#include <signal.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <string>

#include "io/base/error.h"
#include "io/base/threads.h"

namespace millrace::io::detail {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kCheckEvery{100};
constexpr milliseconds kIdle{600'000};
// Connections that are kept. libcurl's own limit, four for each transfer in flight, would close
// most of them whenever readers of distant objects come to an end.
constexpr long kMostIdle = 64;

// Signals are for the program's own threads; SIGPIPE from a TLS write to a closed socket must not
// kill it.
void block_signals() {
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
}

CurlMulti make_multi() {
  static std::once_flag once;
  std::call_once(once, [] { curl_global_init(CURL_GLOBAL_DEFAULT); });
  CurlMulti multi(curl_multi_init());
  if (!multi) throw Error(ErrorCode::kIo, "libcurl does not start");
  curl_multi_setopt(multi.get(), CURLMOPT_MAXCONNECTS, kMostIdle);
  // What shares a connection of HTTP/2 shares its rate, which begins low.
  curl_multi_setopt(multi.get(), CURLMOPT_MAX_CONCURRENT_STREAMS, 1L);
  return multi;
}

HttpTransfer* owner_of(CURL* handle) {
  void* transfer = nullptr;
  curl_easy_getinfo(handle, CURLINFO_PRIVATE, &transfer);
  return static_cast<HttpTransfer*>(transfer);
}

}  // namespace

HttpLoop::HttpLoop()
    : multi_(make_multi()),
      thread_(start_thread("for the network", [this](const std::stop_token& stop) { run(stop); })) {
}

HttpLoop::~HttpLoop() {
  thread_.request_stop();
  curl_multi_wakeup(multi_.get());
  thread_.join();
  for (const auto& transfer : running_) curl_multi_remove_handle(multi_.get(), transfer->handle());
}

void HttpLoop::wish(Wish what, std::shared_ptr<HttpTransfer> transfer) {
  {
    MutexLock lock(mutex_);
    wishes_.emplace_back(what, std::move(transfer));
  }
  curl_multi_wakeup(multi_.get());
}

void HttpLoop::run(const std::stop_token& stop) {
  block_signals();
  while (!stop.stop_requested()) {
    grant_wishes();
    int active = 0;
    curl_multi_perform(multi_.get(), &active);
    collect_finished();
    break_off_overdue();
    await_sockets(stop);
  }
}

// A reader is not woken for the little that one look at its socket brings while more is there.
void HttpLoop::await_sockets(const std::stop_token& stop) {
  int ready = 0;
  curl_multi_poll(multi_.get(), nullptr, 0, 0, &ready);
  if (ready > 0) {
    for (const auto& transfer : running_) transfer->announce_if_still();
    return;
  }
  for (const auto& transfer : running_) transfer->announce();
  if (stop.stop_requested() || has_wishes()) return;  // the look has taken their wake-up
  const milliseconds wait = running_.empty() ? kIdle : kCheckEvery;
  curl_multi_poll(multi_.get(), nullptr, 0, static_cast<int>(wait.count()), nullptr);
}

bool HttpLoop::has_wishes() {
  MutexLock lock(mutex_);
  return !wishes_.empty();
}

void HttpLoop::grant_wishes() {
  decltype(wishes_) wishes;
  {
    MutexLock lock(mutex_);
    wishes.swap(wishes_);
  }
  for (const auto& [what, transfer] : wishes) grant(what, transfer);
}

void HttpLoop::grant(Wish what, const std::shared_ptr<HttpTransfer>& transfer) {
  const bool here = std::find(running_.begin(), running_.end(), transfer) != running_.end();
  if (what == Wish::kStart) {
    running_.push_back(transfer);
    const CURLMcode code = curl_multi_add_handle(multi_.get(), transfer->handle());
    if (code == CURLM_OK) return;
    running_.pop_back();
    transfer->finish({.retry = false, .message = curl_multi_strerror(code)});
  } else if (what == Wish::kResume && here) {
    transfer->go_on();
  } else if (what == Wish::kCancel) {
    remove(transfer.get());
  }
}

bool HttpLoop::remove(const HttpTransfer* transfer) {
  const auto found = std::find_if(running_.begin(), running_.end(),
                                  [&](const auto& each) { return each.get() == transfer; });
  if (found == running_.end()) return false;
  curl_multi_remove_handle(multi_.get(), (*found)->handle());
  running_.erase(found);
  return true;
}

void HttpLoop::collect_finished() {
  int left = 0;
  while (const CURLMsg* message = curl_multi_info_read(multi_.get(), &left)) {
    if (message->msg != CURLMSG_DONE) continue;
    // Removing the handle frees the message, and perhaps the transfer.
    const CURLcode code = message->data.result;
    HttpTransfer* transfer = owner_of(message->easy_handle);
    transfer->finish(code);
    remove(transfer);
  }
}

void HttpLoop::break_off_overdue() {
  const Clock::TimePoint now = Clock::system().now();
  if (now - checked_ < kCheckEvery) return;
  checked_ = now;
  const Transfers running = running_;
  for (const auto& transfer : running) {
    std::optional<TransferEnd> end = transfer->overdue();
    if (!end) continue;
    remove(transfer.get());
    transfer->finish(*std::move(end));
  }
}

}  // namespace millrace::io::detail
