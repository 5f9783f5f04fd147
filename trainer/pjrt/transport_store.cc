#include "trainer/pjrt/transport_store.h"

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/threads.h"

namespace millrace::trainer {
namespace {

using std::chrono::milliseconds;
using Clock = std::chrono::steady_clock;

// Groups of replicas count theirs from 0; every MPI has tags up to 32,767.
constexpr std::uint32_t kTag = 32'000;
// How often a process asks again for what it waits for.
constexpr milliseconds kPause{20};

enum class Ask : std::uint64_t { kPut, kGet, kEnd };

// What goes ahead of a question's key and value, and of an answer's value: both sides know sizes.
struct QuestionHead {
  Ask ask = Ask::kEnd;
  std::uint64_t key = 0;
  std::uint64_t value = 0;
};
struct AnswerHead {
  std::uint64_t is_found = 0;
  std::uint64_t value = 0;
};

template <typename T>
std::span<const std::byte> head_bytes(const T& one) {
  return std::as_bytes(std::span(&one, 1));
}

class Link {
 public:
  Link(Transport& transport, int process) : transport_(transport), process_(process) {}

  void send(std::span<const std::byte> data) const {
    const Outgoing outgoing{.process = process_, .tag = kTag, .data = data};
    transport_.exchange({&outgoing, 1}, {});
  }
  void send(const std::string& text) const {
    if (!text.empty()) send(std::as_bytes(std::span(text)));
  }
  void receive(std::span<std::byte> to) const {
    const Incoming incoming{.process = process_, .tag = kTag, .data = to};
    transport_.exchange({}, {&incoming, 1});
  }
  template <typename T>
  T receive() const {
    T one;
    receive(std::as_writable_bytes(std::span(&one, 1)));
    return one;
  }
  std::string receive_text(std::uint64_t size) const {
    std::string text(size, '\0');
    if (size > 0) receive(std::as_writable_bytes(std::span(text)));
    return text;
  }

 private:
  Transport& transport_;
  int process_;
};

// Process 0's.
class KeepingStore final : public device::pjrt::KeyValueStore {
 public:
  KeepingStore(Transport& transport, int processes) {
    for (int process = 1; process < processes; ++process)
      threads_.push_back(start_thread("to answer another process's plugin",
                                      [this, link = Link(transport, process)] { serve(link); }));
  }
  KeepingStore(const KeepingStore&) = delete;
  KeepingStore& operator=(const KeepingStore&) = delete;
  /// Waits until the others have ended theirs.
  ~KeepingStore() override = default;

  void put(const std::string& key, const std::string& value) override {
    const std::scoped_lock lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::optional<std::string> get(const std::string& key, milliseconds patience) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [&] { return values_.contains(key) || is_stopped_; });
    const auto known = values_.find(key);
    return known == values_.end() ? std::nullopt : std::optional(known->second);
  }
  void stop() noexcept override {
    const std::scoped_lock lock(mutex_);
    is_stopped_ = true;
    changed_.notify_all();
  }

 private:
  // An aborted run ends it.
  void serve(const Link& link) {
    try {
      while (answer(link)) {
      }
    } catch (const Error&) {
    }
  }
  bool answer(const Link& link) {
    const auto head = link.receive<QuestionHead>();
    if (head.ask == Ask::kEnd) return false;
    const std::string key = link.receive_text(head.key);
    std::optional<std::string> value;
    if (head.ask == Ask::kPut) put(key, link.receive_text(head.value));
    if (head.ask == Ask::kGet) value = get(key, milliseconds(0));
    link.send(
        head_bytes(AnswerHead{.is_found = value ? 1U : 0U, .value = value ? value->size() : 0}));
    if (value) link.send(*value);
    return true;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
  bool is_stopped_ = false;
  std::vector<std::jthread> threads_;
};

// Another process's: asks process 0, one question at a time.
class AskingStore final : public device::pjrt::KeyValueStore {
 public:
  explicit AskingStore(Transport& transport) : link_(transport, 0) {}
  AskingStore(const AskingStore&) = delete;
  AskingStore& operator=(const AskingStore&) = delete;
  ~AskingStore() override { AskingStore::stop(); }

  void put(const std::string& key, const std::string& value) override {
    static_cast<void>(ask(Ask::kPut, key, value));
  }
  std::optional<std::string> get(const std::string& key, milliseconds patience) override {
    const auto until = Clock::now() + patience;
    for (;;) {
      auto value = ask(Ask::kGet, key, {});
      if (value || Clock::now() >= until) return value;
      std::this_thread::sleep_for(kPause);
    }
  }
  void stop() noexcept override {
    const std::scoped_lock lock(mutex_);
    if (std::exchange(is_stopped_, true)) return;
    try {
      link_.send(head_bytes(QuestionHead{}));
    } catch (const std::exception&) {  // aborted: nobody waits for it
    }
  }

 private:
  std::optional<std::string> ask(Ask what, const std::string& key, const std::string& value) {
    const std::scoped_lock lock(mutex_);
    if (is_stopped_) throw Error(ErrorCode::kCancelled, "the plugin was given up");
    link_.send(head_bytes(QuestionHead{.ask = what, .key = key.size(), .value = value.size()}));
    link_.send(key);
    link_.send(value);
    const auto found = link_.receive<AnswerHead>();
    if (found.is_found == 0) return std::nullopt;
    return link_.receive_text(found.value);
  }

  std::mutex mutex_;
  bool is_stopped_ = false;
  Link link_;
};

}  // namespace

std::shared_ptr<device::pjrt::KeyValueStore> make_transport_store(Transport& transport, int process,
                                                                  int processes) {
  if (process == 0) return std::make_shared<KeepingStore>(transport, processes);
  return std::make_shared<AskingStore>(transport);
}

}  // namespace millrace::trainer
