// A network within the test's process, for several processes of a run.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "io/base/error.h"
#include "trainer/transport.h"

namespace millrace::testing {

class FakeNetwork {
 public:
  explicit FakeNetwork(int processes) {
    for (int process = 0; process < processes; ++process)
      ends_.push_back(std::make_unique<End>(*this, process));
  }

  trainer::Transport& transport(int process) { return *ends_[static_cast<std::size_t>(process)]; }

 private:
  using Link = std::tuple<int, int, std::uint32_t>;  // from, to, tag
  using Message = std::vector<std::byte>;

  class End final : public trainer::Transport {
   public:
    End(FakeNetwork& network, int process) : network_(network), process_(process) {}
    void exchange(std::span<const trainer::Outgoing> outgoing,
                  std::span<const trainer::Incoming> incoming) override {
      for (const auto& one : outgoing)
        network_.send({process_, one.process, one.tag}, {one.data.begin(), one.data.end()});
      for (const auto& one : incoming) {
        const Message message = network_.receive({one.process, process_, one.tag});
        if (message.size() != one.data.size())
          throw Error(ErrorCode::kInvalidArgument, "a message has another size than its place");
        if (!message.empty()) std::memcpy(one.data.data(), message.data(), message.size());
      }
    }
    void abort(const std::string& reason) noexcept override { network_.abort(reason); }

   private:
    FakeNetwork& network_;
    int process_;
  };

  void send(const Link& link, Message message) {
    const std::lock_guard lock(mutex_);
    throw_if_aborted();
    messages_[link].push_back(std::move(message));
    changed_.notify_all();
  }

  Message receive(const Link& link) {
    std::unique_lock lock(mutex_);
    auto& waiting = messages_[link];
    changed_.wait(lock, [&] { return !waiting.empty() || is_aborted_; });
    throw_if_aborted();
    Message message = std::move(waiting.front());
    waiting.pop_front();
    return message;
  }

  void abort(const std::string& reason) noexcept {
    const std::lock_guard lock(mutex_);
    if (!is_aborted_) reason_ = reason;
    is_aborted_ = true;
    changed_.notify_all();
  }

  void throw_if_aborted() const {
    if (is_aborted_) throw Error(ErrorCode::kCancelled, reason_);
  }

  std::vector<std::unique_ptr<End>> ends_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<Link, std::deque<Message>> messages_;
  bool is_aborted_ = false;
  std::string reason_;
};

}  // namespace millrace::testing
