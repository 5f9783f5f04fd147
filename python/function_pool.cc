#include "python/function_pool.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>
#include <variant>

#include "io/base/rng.h"
#include "io/opener.h"
#include "python/process_guard.h"

namespace millrace::python {
namespace {

using namespace std::chrono_literals;

constexpr Purpose kFunctions = purpose_of("a function of Python");
/// How long a thread sleeps at most before it sees pause().
constexpr auto kCallSlice = 20ms;
/// After which a call that goes on is said to.
constexpr auto kLong = 2s;
/// Of samples that were read ahead, too: whoever is handed a fault asks for its own.
constexpr std::size_t kKeptTracebackBytes = std::size_t{4} << 20;

std::int64_t ns(std::chrono::steady_clock::duration time) {
  return std::chrono::nanoseconds(time).count();
}

std::vector<FunctionCall::Member> members_of(const wds::Sample& sample, const FunctionSpec& spec) {
  std::vector<FunctionCall::Member> members;
  for (const wds::Field& field : sample.fields)
    if (spec.members.empty()) members.push_back({field.suffix, field.data.span()});
  for (const std::string& suffixes : spec.members) {
    const wds::Field* field = sample.find_any(suffixes);
    if (field == nullptr)
      throw Error(ErrorCode::kNotFound,
                  "the sample has none of the members " + suffixes + " of field " + spec.name);
    members.push_back({field->suffix, field->data.span()});
  }
  return members;
}

/// Of the function's random choices about the sample.
std::uint64_t seed_of(decode::SampleId id, const FunctionSpec& spec) {
  id.view = static_cast<std::uint64_t>(purpose_of(spec.name));
  KeyedRng rng = id.rng(kFunctions);
  const std::uint64_t high = rng();
  return high << 32U | rng();
}

}  // namespace

/// One call, for messages about it.
struct FunctionPool::Call {
  const FunctionSpec& function;
  const wds::Sample& sample;

  std::string url() const { return sample.url ? io::printable_url(*sample.url) : ""; }
  std::string text() const {
    return fmt::format("function {} ({})", function.name, function.described);
  }
};

/// A process for one call.
class FunctionPool::Lease {
 public:
  explicit Lease(FunctionPool& pool) : pool_(pool), worker_(pool.acquire()) {}
  ~Lease() { pool_.release(worker_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  WorkerChannel& worker() const { return worker_; }

 private:
  FunctionPool& pool_;
  WorkerChannel& worker_;
};

FunctionPool::FunctionPool(std::vector<FunctionSpec> functions, std::chrono::milliseconds patience,
                           Log log)
    : functions_(std::move(functions)), patience_(patience), log_(std::move(log)) {}

FunctionPool::~FunctionPool() { close(); }

void FunctionPool::add(int socket, int memory, int pid) {
  ProcessGuard::enter();
  auto worker = std::make_unique<WorkerChannel>(socket, memory, pid);
  MutexLock lock(mutex_);
  idle_.push_back(worker.get());
  workers_.push_back(std::move(worker));
}

int FunctionPool::num_processes() const {
  MutexLock lock(mutex_);
  return static_cast<int>(workers_.size());
}

bool FunctionPool::has_failed() const {
  MutexLock lock(mutex_);
  return failure_.has_value();
}

void FunctionPool::check() const {
  MutexLock lock(mutex_);
  if (failure_) throw Error(*failure_);
}

void FunctionPool::attach(std::vector<pipeline::FieldSpec>& fields) {
  std::size_t number = 0;
  for (pipeline::FieldSpec& field : fields) {
    auto* function = std::get_if<pipeline::FunctionField>(&field);
    if (function == nullptr) continue;
    function->decode = [pool = shared_from_this(), number](
                           const wds::Sample& sample, const decode::SampleId& id,
                           std::span<std::byte> slot) { pool->call(number, sample, id, slot); };
    ++number;
  }
}

void FunctionPool::throw_if_over() const {
  if (failure_) throw Error(*failure_);
  if (paused_) throw Error(ErrorCode::kCancelled, "the loader's functions were stopped");
}

WorkerChannel& FunctionPool::acquire() {
  MutexLock lock(mutex_);
  throw_if_over();
  while (idle_.empty()) {
    changed_.wait_for(lock, kCallSlice);
    throw_if_over();
  }
  ++calls_;
  auto one = std::ranges::find_if(idle_, [](const auto* worker) { return !worker->is_busy(); });
  if (one == idle_.end()) one = std::prev(idle_.end());
  WorkerChannel& worker = **one;
  idle_.erase(one);
  return worker;
}

void FunctionPool::release(WorkerChannel& worker) {
  MutexLock lock(mutex_);
  --calls_;
  idle_.push_back(&worker);
  changed_.notify_all();
}

void FunctionPool::call(std::size_t function, const wds::Sample& sample, const decode::SampleId& id,
                        std::span<std::byte> slot) {
  const auto begin = Clock::now();
  const Call call{.function = functions_[function], .sample = sample};
  FunctionCall given{.function = static_cast<std::uint32_t>(function),
                     .seed = seed_of(id, call.function),
                     .key = sample.key,
                     .members = members_of(sample, call.function),
                     .output_bytes = slot.size()};
  const std::string url = call.url();
  given.url = url;
  const Lease lease(*this);
  WorkerChannel& worker = lease.worker();
  if (worker.is_busy()) await(call, worker);  // with a call that pause() left
  const auto called = Clock::now();
  if (!worker.call(given)) fail("its process ended by " + worker.how_it_ended(), call);
  await(call, worker);
  const auto end = Clock::now();
  busy_ns_ += ns(end - called);
  inside_ns_ += ns(end - begin);
  ++num_calls_;
  for (const FunctionCall::Member& member : given.members) num_bytes_ += member.data.size();
  const auto answer = worker.answer();
  if (worker.has_raised())
    raise(call, std::string(reinterpret_cast<const char*>(answer.data()), answer.size()));
  if (answer.size() != slot.size()) fail("its process answered what it was not asked", call);
  std::memcpy(slot.data(), answer.data(), slot.size());
}

void FunctionPool::await(const Call& call, WorkerChannel& worker) {
  const auto begin = Clock::now();
  bool said = false;
  for (;;) {
    const auto state = worker.wait_for(kCallSlice);
    if (state == WorkerChannel::State::kAnswered) return;
    if (state == WorkerChannel::State::kEnded)
      fail("its process ended by " + worker.how_it_ended(), call);
    {
      MutexLock lock(mutex_);
      throw_if_over();
    }
    const auto waited = Clock::now() - begin;
    if (waited >= patience_)
      fail(fmt::format("it has not returned within {} s (function_timeout), in process {}",
                       std::chrono::duration<double>(patience_).count(), worker.pid()),
           call);
    if (waited < kLong || std::exchange(said, true)) continue;
    log_.warn(fmt::format("{} has run for 2 s, in process {}: sample {} of {}", call.text(),
                          worker.pid(), printable(call.sample.key), call.url()));
  }
}

void FunctionPool::fail(const std::string& problem, const Call& call) {
  const Error failure(ErrorCode::kIo, call.text() + ": " + problem,
                      {.url = call.url(), .key = call.sample.key, .stage = "functions"});
  MutexLock lock(mutex_);
  if (!failure_) failure_ = failure;
  changed_.notify_all();
  throw Error(*failure_);
}

/// `text`: a line, and behind a zero byte the traceback.
void FunctionPool::raise(const Call& call, std::string text) {
  const std::size_t end = std::min(text.find('\0'), text.size());
  {
    MutexLock lock(mutex_);
    tracebacks_.emplace_back(call.sample.key, text.substr(std::min(end + 1, text.size())));
    traceback_bytes_ += tracebacks_.back().second.size();
    while (traceback_bytes_ > kKeptTracebackBytes) {
      traceback_bytes_ -= tracebacks_.front().second.size();
      tracebacks_.pop_front();
    }
  }
  text.resize(end);
  throw Error(ErrorCode::kCorrupt, call.text() + ": " + text, {.stage = "functions"});
}

void FunctionPool::pause() {
  paused_ = true;
  MutexLock lock(mutex_);
  changed_.notify_all();
}

void FunctionPool::resume() {
  num_calls_ = num_bytes_ = 0;
  busy_ns_ = inside_ns_ = 0;
  paused_ = false;
}

void FunctionPool::close() {
  pause();
  MutexLock lock(mutex_);
  while (calls_ > 0) changed_.wait_for(lock, kCallSlice);  // each sees pause() within a slice
  idle_.clear();
  workers_.clear();
  failure_.reset();
}

std::string FunctionPool::traceback(const std::string& key) const {
  MutexLock lock(mutex_);
  for (auto one = tracebacks_.rbegin(); one != tracebacks_.rend(); ++one)
    if (one->first == key) return one->second;
  return {};
}

void FunctionPool::add_to(pipeline::Statistics& statistics) const {
  using std::chrono::nanoseconds;
  const int processes = num_processes();
  pipeline::StageStatistics stage{.name = "functions",
                                  .items = num_calls_,
                                  .bytes = num_bytes_,
                                  .busy = nanoseconds(busy_ns_),
                                  .threads = std::max(1, processes)};
  stage.waiting = std::max(nanoseconds(0), stage.threads * statistics.elapsed - stage.busy);
  for (auto& other : statistics.stages) {
    if (other.name != "decode") continue;
    const nanoseconds waited = std::min(other.busy, nanoseconds(inside_ns_));
    other.busy -= waited;
    other.waiting += waited;
  }
  statistics.stages.push_back(std::move(stage));
}

}  // namespace millrace::python
