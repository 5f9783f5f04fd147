// WorkerChannel: a process that runs Python functions, as this side sees it: a socket, and memory
// that both have.
//
// A call lies in the memory: the sample's seed, key, url and members, each behind its length. What
// goes over the socket are numbers alone. The answer takes the same place. The memory has no name
// in any file system, so that nothing of it is left whatever ends either process; and the end of
// one is the end of the other's socket.
//
// Threads: one at a time.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::python {

/// What a function is called with. Lifetime: until call() returns.
struct FunctionCall {
  std::uint32_t function = 0;  ///< its number
  std::uint64_t seed = 0;      ///< of its random choices about this sample
  std::string_view key = {};
  std::string_view url = {};
  struct Member {
    std::string_view suffix;
    std::span<const std::byte> data;
  };
  std::vector<Member> members = {};
  std::size_t output_bytes = 0;
};

class WorkerChannel {
 public:
  /// Takes both descriptors over. `pid`: a child of this process.
  WorkerChannel(int socket, int memory, int pid);
  ~WorkerChannel();
  WorkerChannel(const WorkerChannel&) = delete;
  WorkerChannel& operator=(const WorkerChannel&) = delete;

  int pid() const { return pid_; }
  /// Whether a call was made whose answer has not come.
  bool is_busy() const { return busy_; }
  /// Begins a call. Returns false if the process has ended. Throws: Exhausted without memory for
  /// it. Requires: not is_busy().
  bool call(const FunctionCall& call);

  enum class State { kRunning, kAnswered, kEnded };
  /// Waits for the answer. Requires: is_busy().
  State wait_for(std::chrono::milliseconds timeout);
  /// Whether the function raised. Of the last answer, as answer(). Requires: kAnswered.
  bool has_raised() const { return raised_; }
  /// The array, or what was raised as text. Lifetime: until the next call().
  std::span<const std::byte> answer() const { return {memory_, answer_bytes_}; }
  /// "signal 9 (Killed)", "exit code 3": how the process ended, if that is known in a moment.
  std::string how_it_ended() const;

 private:
  void grow(std::size_t bytes);
  State receive();
  std::byte* put(std::byte* at, std::span<const std::byte> bytes);

  int socket_;
  int memory_file_;
  int pid_;
  std::byte* memory_ = nullptr;
  std::size_t memory_bytes_ = 0;
  std::size_t answer_bytes_ = 0;
  std::uint64_t call_ = 0;                  ///< the last one's number
  std::array<std::uint64_t, 3> message_{};  ///< of the answer's, so much has come
  std::size_t received_ = 0;
  bool busy_ = false;
  bool raised_ = false;
};

}  // namespace millrace::python
