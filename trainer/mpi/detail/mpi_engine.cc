#include "trainer/mpi/detail/mpi_engine.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "io/base/error.h"
#include "io/base/threads.h"
#include "trainer/mpi/detail/launcher_guard.h"
#include "trainer/mpi/detail/mpi_start.h"

namespace millrace::trainer::detail {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

// Kinds of control messages: their MPI tags.
constexpr char kBeat = 'B';
constexpr char kAbort = 'A';
constexpr char kLastWord = 'L';

constexpr milliseconds kBeatInterval{1000};
constexpr milliseconds kIdlePause{5};
constexpr milliseconds kSettleTime{200};     ///< for messages that an abort finds half sent
constexpr milliseconds kLastWordTime{2000};  ///< for the others, after an abort
constexpr milliseconds kLeftAlone{2000};     ///< a message for a process that has ended

/// MPI counts bytes in an int.
constexpr std::size_t kPartBytes = std::size_t{1} << 30;

/// Calls part(begin, bytes) for each part of a message, once for an empty one.
template <typename Part>
void for_each_part(std::size_t bytes, const Part& part) {
  std::size_t begin = 0;
  do {
    const std::size_t size = std::min(bytes - begin, kPartBytes);
    part(begin, size);
    begin += size;
  } while (begin < bytes);
}

}  // namespace

MpiEngine::MpiEngine(const MpiOptions& options) : options_(options) {
  const auto run = [this] {
    serve();
    end();
  };
  thread_ = start_thread(
      "for MPI", [this] { initialise(); }, run);
}

MpiEngine::~MpiEngine() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
    wake_.notify_all();
  }
  thread_.join();
}

void MpiEngine::initialise() {
  MpiStart start(options_);
  start.connect();
  process_ = start.process();
  hosts_ = start.hosts();
  processes_ = static_cast<int>(hosts_.size());
  start.make_communicators(data_, control_);
  start.count_node(node_process_, node_processes_);
  const auto now = Clock::now();
  peers_.assign(hosts_.size(), Peer{.heard = now});
  last_check_ = now;
  for (int other = 0; other < processes_; ++other)
    if (other != process_ && (process_ == 0 || other == 0)) talk_to(other);
  next_beat_ = now;
}

void MpiEngine::exchange(std::span<const Outgoing> outgoing, std::span<const Incoming> incoming) {
  Exchange exchange{.outgoing = outgoing, .incoming = incoming};
  ask(exchange);
}

void MpiEngine::operate(const Start& start, std::shared_ptr<void> memory) {
  Exchange exchange{.outgoing = {}, .incoming = {}, .start = &start, .memory = std::move(memory)};
  ask(exchange);
}

void MpiEngine::ask(Exchange& exchange) {
  std::unique_lock lock(mutex_);
  if (is_aborted_) throw Error(ErrorCode::kCancelled, reason_);
  asked_.push_back(&exchange);
  wake_.notify_all();
  exchange.done.wait(lock, [&] { return exchange.is_done; });
  if (exchange.fault) std::rethrow_exception(exchange.fault);
}

void MpiEngine::abort(const std::string& reason) noexcept {
  const std::lock_guard lock(mutex_);
  if (is_aborted_) return;
  is_aborted_ = true;
  is_ours_ = true;
  reason_ = reason;
  wake_.notify_all();
}

bool MpiEngine::ended_by_another() {
  const std::lock_guard lock(mutex_);
  return is_aborted_ && !is_ours_;
}

std::string MpiEngine::end_reason() {
  const std::lock_guard lock(mutex_);
  return reason_;
}

void MpiEngine::serve() {
  auto last_progress = Clock::now();
  for (;;) {
    take_exchanges();
    if (test_requests()) last_progress = Clock::now();
    look_for_control();
    beat();
    check_peers();
    if (start_abort_if_due()) last_progress = Clock::now();
    std::unique_lock lock(mutex_);
    if (is_ending_ && asked_.empty() && posted_.empty()) return;
    pause(lock, last_progress);
  }
}

void MpiEngine::pause(std::unique_lock<std::mutex>& lock, Clock::time_point last_progress) {
  const auto due = [&] { return !asked_.empty() || is_ending_ || (is_aborted_ && !is_released_); };
  if (requests_.empty()) {
    wake_.wait_for(lock, kIdlePause, due);
    return;
  }
  const auto since = Clock::now() - last_progress;
  if (since < microseconds(50)) return;
  if (since > milliseconds(2)) {
    wake_.wait_for(lock, microseconds(100), due);
    return;
  }
  lock.unlock();
  std::this_thread::yield();
}

// What other threads asked for, or is left of it after an abort.
void MpiEngine::take_exchanges() {
  for (;;) {
    Exchange* exchange = nullptr;
    {
      const std::lock_guard lock(mutex_);
      if (asked_.empty()) return;
      exchange = asked_.front();
      asked_.pop_front();
      posted_.push_back(exchange);
      if (is_aborted_) return;  // start_abort_if_due() releases it
    }
    post(*exchange);
  }
}

void MpiEngine::post(Exchange& exchange) {
  try {
    post_all(exchange);
  } catch (...) {
    exchange.fault = std::current_exception();
    // MPI still has parts of it, in buffers that its caller wants back: the run cannot continue.
    if (exchange.open_requests > 0) abort("MPI refused a message");
  }
  if (exchange.open_requests == 0) finish(exchange);
}

void MpiEngine::post_all(Exchange& exchange) {
  const auto add = [&](MPI_Request request, const Owner& owner) {
    requests_.push_back(request);
    owners_.push_back(owner);
    ++exchange.open_requests;
  };
  if (exchange.start != nullptr) {
    for (int other = 0; other < processes_; ++other) talk_to(other);
    MPI_Request request = MPI_REQUEST_NULL;
    check_mpi((*exchange.start)(data_, &request), "an operation");
    add(request, {.exchange = &exchange, .peer = kAll});
  }
  for (const Incoming& one : exchange.incoming) {
    talk_to(one.process);
    for_each_part(one.data.size(), [&](std::size_t begin, std::size_t bytes) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Irecv(one.data.data() + begin, static_cast<int>(bytes), MPI_BYTE, one.process,
                          static_cast<int>(one.tag), data_, &request),
                "receiving");
      add(request,
          {.exchange = &exchange, .bytes = bytes, .peer = one.process, .is_receive = true});
    });
  }
  for (const Outgoing& one : exchange.outgoing) {
    talk_to(one.process);
    for_each_part(one.data.size(), [&](std::size_t begin, std::size_t bytes) {
      MPI_Request request = MPI_REQUEST_NULL;
      check_mpi(MPI_Isend(one.data.data() + begin, static_cast<int>(bytes), MPI_BYTE, one.process,
                          static_cast<int>(one.tag), data_, &request),
                "sending");
      add(request, {.exchange = &exchange, .bytes = bytes, .peer = one.process});
    });
  }
}

bool MpiEngine::test_requests() {
  if (requests_.empty()) return false;
  const int count = static_cast<int>(requests_.size());
  ended_.resize(requests_.size());
  statuses_.resize(requests_.size());
  int ended = 0;
  const int code = MPI_Testsome(count, requests_.data(), &ended, ended_.data(), statuses_.data());
  if (ended == MPI_UNDEFINED || ended == 0) return false;
  for (int i = 0; i < ended; ++i) {
    MPI_Status& status = statuses_[static_cast<std::size_t>(i)];
    if (code != MPI_ERR_IN_STATUS) status.MPI_ERROR = MPI_SUCCESS;
    request_ended(static_cast<std::size_t>(ended_[static_cast<std::size_t>(i)]), status);
  }
  remove_ended();
  return true;
}

void MpiEngine::request_ended(std::size_t place, const MPI_Status& status) {
  const Owner owner = owners_[place];
  Exchange& exchange = *owner.exchange;
  int is_cancelled = 0;
  int bytes = 0;
  MPI_Test_cancelled(&status, &is_cancelled);
  if (owner.is_receive && is_cancelled == 0) MPI_Get_count(&status, MPI_BYTE, &bytes);
  const bool has_other_size =
      status.MPI_ERROR == MPI_ERR_TRUNCATE ||
      (owner.is_receive && is_cancelled == 0 && static_cast<std::size_t>(bytes) != owner.bytes);
  try {
    require(!has_other_size, "a message has another size than the place for it");
    if (is_cancelled != 0) throw Error(ErrorCode::kCancelled, reason_);
    check_mpi(status.MPI_ERROR, "a message");
  } catch (...) {
    if (!exchange.fault) exchange.fault = std::current_exception();
  }
  owners_[place].exchange = nullptr;
  if (--exchange.open_requests == 0) finish(exchange);
}

void MpiEngine::remove_ended() {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < requests_.size(); ++i) {
    if (owners_[i].exchange == nullptr) continue;
    requests_[kept] = requests_[i];
    owners_[kept++] = owners_[i];
  }
  requests_.resize(kept);
  owners_.resize(kept);
}

void MpiEngine::finish(Exchange& exchange) {
  const std::lock_guard lock(mutex_);
  std::erase(posted_, &exchange);
  exchange.is_done = true;
  exchange.done.notify_one();  // under the lock: its owner may destroy it right after
}

void MpiEngine::talk_to(int process) {
  if (process == process_ || peer(process).talks) return;
  peer(process).talks = true;
  peer(process).heard = Clock::now();
  next_beat_ = Clock::now();  // it learns at once that it is watched
}

// A beat that cannot be delivered is not followed by others.
void MpiEngine::beat() {
  const auto now = Clock::now();
  if (now < next_beat_) return;
  next_beat_ = now + kBeatInterval;
  forget_sent_control();
  for (int to = 0; to < processes_; ++to) {
    if (!peer(to).talks || peer(to).has_beat_to_get) continue;
    peer(to).has_beat_to_get = true;
    send_control(to, kBeat, "");
  }
}

void MpiEngine::look_for_control() {
  for (;;) {
    int is_there = 0;
    MPI_Status status{};
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, control_, &is_there, &status);
    if (is_there == 0) return;
    receive_control(status);
  }
}

void MpiEngine::receive_control(MPI_Status& status) {
  int bytes = 0;
  MPI_Get_count(&status, MPI_CHAR, &bytes);
  std::string text(static_cast<std::size_t>(bytes), '\0');
  const int from = status.MPI_SOURCE;
  const int kind = status.MPI_TAG;
  MPI_Recv(text.data(), bytes, MPI_CHAR, from, kind, control_, MPI_STATUS_IGNORE);
  talk_to(from);
  peer(from).heard = Clock::now();
  if (kind == kLastWord) peer(from).last_word = Clock::now();
  if (kind == kAbort) begin_abort(fmt::format("{}: {}", name_of(from), text), false);
}

void MpiEngine::send_control(int to, char kind, const std::string& text) {
  sent_.push_back(std::make_unique<ControlMessage>());
  ControlMessage& message = *sent_.back();
  message.text = text;
  message.to = to;
  message.kind = kind;
  MPI_Isend(message.text.data(), static_cast<int>(message.text.size()), MPI_CHAR, to, kind,
            control_, &message.request);
}

void MpiEngine::tell_all(char kind, const std::string& text) {
  for (int to = 0; to < processes_; ++to)
    if (to != process_) send_control(to, kind, text);
}

void MpiEngine::forget_sent_control() {
  std::erase_if(sent_, [this](const std::unique_ptr<ControlMessage>& message) {
    int is_sent = 0;
    MPI_Test(&message->request, &is_sent, MPI_STATUS_IGNORE);
    if (is_sent != 0 && message->kind == kBeat) peer(message->to).has_beat_to_get = false;
    return is_sent != 0;
  });
}

void MpiEngine::forgive_own_pause(Clock::time_point now) {
  const auto pause = now - last_check_;
  last_check_ = now;
  const bool is_second = std::exchange(was_paused_, pause >= 2 * kBeatInterval);
  if (!was_paused_ || is_second) return;  // one behind the other are MPI's own waits for a peer
  for (Peer& one : peers_) one.heard += pause;
}

std::string MpiEngine::silence_of(int process) const {
  const auto seconds = std::chrono::duration<double>(options_.heartbeat_timeout).count();
  return fmt::format("{} has not been heard from for {} s by {}", name_of(process), seconds,
                     name_of(process_));
}

// A process that is silent, or has ended while a message is still expected from it.
void MpiEngine::check_peers() {
  const auto now = Clock::now();
  forgive_own_pause(now);
  for (int other = 0; other < processes_; ++other) {
    if (other == process_ || is_released_) continue;
    const Peer& one = peer(other);
    if (one.last_word) {
      if (now - *one.last_word > kLeftAlone && waits_for(other))
        begin_abort(fmt::format("{} has ended before the others", name_of(other)), true);
    } else if (one.talks && options_.heartbeat_timeout.count() > 0 &&
               now - one.heard > options_.heartbeat_timeout) {
      begin_abort(silence_of(other), true);
    }
  }
}

bool MpiEngine::waits_for(int peer) const {
  return std::any_of(owners_.begin(), owners_.end(),
                     [&](const Owner& owner) { return owner.peer == peer || owner.peer == kAll; });
}

void MpiEngine::begin_abort(const std::string& reason, bool tell) {
  {
    const std::lock_guard lock(mutex_);
    if (is_aborted_) return;
    is_aborted_ = true;
    is_ours_ = tell;
    reason_ = reason;
  }
  if (options_.on_end) options_.on_end();
}

bool MpiEngine::start_abort_if_due() {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    if (!is_aborted_ || is_released_) return false;
    if (is_ours_) reason = reason_;
    is_released_ = true;
  }
  if (is_ours_) tell_all(kAbort, reason);
  cancel_receives();
  release_all();
  return true;
}

// A receive that no message has reached yet is cancelled at once. One that is under way ends when
// the other side, which also waits a little here, has sent the rest.
void MpiEngine::cancel_receives() {
  for (std::size_t i = 0; i < requests_.size(); ++i)
    if (owners_[i].is_receive) MPI_Cancel(&requests_[i]);
  const auto limit = Clock::now() + kSettleTime;
  while (!requests_.empty() && Clock::now() < limit) {
    if (!test_requests()) std::this_thread::yield();
  }
  requests_.clear();
  owners_.clear();
}

void MpiEngine::release_all() {
  const std::lock_guard lock(mutex_);
  posted_.insert(posted_.end(), asked_.begin(), asked_.end());
  asked_.clear();
  for (Exchange* exchange : posted_) {
    left_behind_.push_back(std::move(exchange->memory));
    exchange->fault = std::make_exception_ptr(Error(ErrorCode::kCancelled, reason_));
    exchange->is_done = true;
    exchange->done.notify_one();
  }
  posted_.clear();
}

// All wait for each other's last word: a process that ends without one would be taken for dead.
bool MpiEngine::wait_for_last_words() {
  for (int other = 0; other < processes_; ++other) talk_to(other);
  tell_all(kLastWord, "");
  peer(process_).last_word = Clock::now();
  std::optional<Clock::time_point> limit;
  for (;;) {
    look_for_control();
    beat();
    check_peers();
    if (start_abort_if_due() || is_released_) limit = limit.value_or(Clock::now() + kLastWordTime);
    const bool all = std::all_of(peers_.begin(), peers_.end(),
                                 [](const Peer& one) { return one.last_word.has_value(); });
    if (all || (limit && Clock::now() > *limit)) return !is_released_;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

// Where all processes are on one machine, the launcher has nobody to wait for.
void MpiEngine::give_up_run() {
  const bool is_spread = std::any_of(hosts_.begin(), hosts_.end(),
                                     [&](const std::string& one) { return one != host(); });
  if (is_spread) guard_launcher(options_.launcher_patience);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

void MpiEngine::end() {
  if (!wait_for_last_words()) return give_up_run();
  StuckWatch watch(
      {.name = name_of(process_), .limit = options_.start_timeout, .log = options_.log});
  watch.at("the work is done, but the other processes have not ended MPI (MPI_Finalize)");
  for (const auto& message : sent_) MPI_Wait(&message->request, MPI_STATUS_IGNORE);
  sent_.clear();
  MPI_Comm_free(&control_);
  MPI_Comm_free(&data_);
  MPI_Finalize();
}

std::string MpiEngine::name_of(int process) const {
  return fmt::format("process {} on {}", process, hosts_[static_cast<std::size_t>(process)]);
}

}  // namespace millrace::trainer::detail
