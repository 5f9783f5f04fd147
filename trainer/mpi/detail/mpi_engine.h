// MpiEngine: the one thread that calls MPI.
//
// Messages go over two communicators: data, whose buffers are the callers' own, and control, whose
// small messages (signs of life, the reason of an abort, the last word before the end) the engine
// keeps itself. While messages are under way the thread asks MPI again and again: without a pause
// for 50 us, then giving way to others, then with short sleeps.
//
// Processes that exchange messages tell each other once per second that they are there, and process
// 0 and the others likewise. Who asks another first watches it from then on, and is answered by its
// engine, whatever the rest of that process does.
//
// After an abort the receives that are under way are cancelled, so that MPI writes into no buffer
// whose owner has already thrown; sends that are under way are abandoned.
//
// Threads: exchange() and abort() from any.
#pragma once

#include <mpi.h>

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "trainer/mpi/detail/stuck_watch.h"
#include "trainer/mpi/mpi_processes.h"
#include "trainer/transport.h"

namespace millrace::trainer::detail {

class MpiEngine {
 public:
  /// Returns when MPI is initialised. Throws what went wrong with that.
  explicit MpiEngine(const MpiOptions& options);
  /// As ~MpiProcesses().
  ~MpiEngine();

  int process() const { return process_; }
  int processes() const { return processes_; }
  int node_process() const { return node_process_; }
  int node_processes() const { return node_processes_; }
  const std::string& host() const { return hosts_[static_cast<std::size_t>(process_)]; }
  const std::vector<std::string>& hosts() const { return hosts_; }

  /// As Transport::exchange().
  void exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming);
  /// Starts an operation of MPI's own on the engine's thread, and returns when it has ended.
  /// `start` gets the data's communicator and returns MPI's code; it works in memory that `memory`
  /// owns, which is kept where an abort leaves the operation behind.
  using Start = std::function<int(MPI_Comm, MPI_Request*)>;
  void operate(const Start& start, std::shared_ptr<void> memory);
  void abort(const std::string& reason) noexcept;
  /// As those of MpiProcesses.
  bool ended_by_another();
  std::string end_reason();

 private:
  using Clock = std::chrono::steady_clock;

  /// One call of exchange() or operate(), on its caller's stack.
  struct Exchange {
    std::span<const Outgoing> outgoing;
    std::span<const Incoming> incoming;
    const Start* start = nullptr;
    std::shared_ptr<void> memory = {};
    std::size_t open_requests = 0;
    std::exception_ptr fault = nullptr;
    bool is_done = false;
    std::condition_variable done{};
  };
  /// What MPI works on: request i belongs to owners_[i].
  struct Owner {
    Exchange* exchange = nullptr;
    std::size_t bytes = 0;
    int peer = 0;  ///< kAll: an operation, in which all take part
    bool is_receive = false;
  };
  static constexpr int kAll = -1;
  struct ControlMessage {
    std::string text;
    int to = 0;
    char kind = 0;
    MPI_Request request = MPI_REQUEST_NULL;
  };
  /// What is known of another process.
  struct Peer {
    bool talks = false;            ///< watched, and told that this one is there
    bool has_beat_to_get = false;  ///< the last one is still on its way
    Clock::time_point heard = {};
    std::optional<Clock::time_point> last_word = {};
  };

  void ask(Exchange& exchange);
  void initialise();
  void serve();
  void pause(std::unique_lock<std::mutex>& lock, Clock::time_point last_progress);

  void take_exchanges();
  void post(Exchange& exchange);
  void post_all(Exchange& exchange);
  /// True when a request has ended.
  bool test_requests();
  void request_ended(std::size_t place, const MPI_Status& status);
  void remove_ended();
  void finish(Exchange& exchange);

  Peer& peer(int process) { return peers_[static_cast<std::size_t>(process)]; }
  void talk_to(int process);
  void beat();
  void look_for_control();
  void receive_control(MPI_Status& status);
  void send_control(int to, char kind, const std::string& text);
  void tell_all(char kind, const std::string& text);
  void forget_sent_control();
  void check_peers();
  /// Time in which this process was stopped, or its machine suspended, is no silence of the others.
  void forgive_own_pause(Clock::time_point now);
  std::string silence_of(int process) const;
  bool waits_for(int peer) const;

  void begin_abort(const std::string& reason, bool tell);
  bool start_abort_if_due();
  void cancel_receives();
  void release_all();
  void give_up_run();
  /// False after an abort.
  bool wait_for_last_words();
  void end();

  std::string name_of(int process) const;

  MpiOptions options_;
  int process_ = 0;
  int processes_ = 1;
  int node_process_ = 0;
  int node_processes_ = 1;
  std::vector<std::string> hosts_;
  MPI_Comm data_ = MPI_COMM_NULL;
  MPI_Comm control_ = MPI_COMM_NULL;

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Exchange*> asked_;  ///< not yet posted
  std::vector<Exchange*> posted_;
  std::string reason_;  ///< of the abort; the first one stays
  bool is_aborted_ = false;
  bool is_ours_ = false;  ///< the abort began here: the others are to be told
  bool is_ending_ = false;

  // The engine thread's own.
  bool is_released_ = false;  ///< the abort has reached everybody here
  std::vector<MPI_Request> requests_;
  std::vector<Owner> owners_;
  std::vector<std::shared_ptr<void>> left_behind_;  ///< memory that MPI may still write to
  std::vector<int> ended_;
  std::vector<MPI_Status> statuses_;
  std::vector<std::unique_ptr<ControlMessage>> sent_;
  std::vector<Peer> peers_;
  Clock::time_point next_beat_;
  Clock::time_point last_check_;
  bool was_paused_ = false;

  std::jthread thread_;
};

}  // namespace millrace::trainer::detail
