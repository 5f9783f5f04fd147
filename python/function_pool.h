// FunctionPool: Python functions of samples, run by processes of their own.
//
// A pipeline's thread that needs a function's array gives the sample to an idle process, and waits
// for the answer without the GIL. So no function holds up another one, nor the thread that
// iterates; and which process answers changes nothing.
//
// What a function raises is a fault of its sample. A process that ends, or does not answer within
// `patience`, fails the pool: check() throws that, and so does each call from then on.
//
// Threads: every member may be called from any thread. Order: none between calls. Buffers: each
// process has one sample and one array.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "decode/array.h"
#include "decode/sample_id.h"
#include "io/base/error.h"
#include "io/base/log.h"
#include "io/base/thread_annotations.h"
#include "pipeline/fields.h"
#include "pipeline/statistics.h"
#include "python/worker_channel.h"
#include "wds/sample.h"

namespace millrace::python {

struct FunctionSpec {
  std::string name = {};       ///< of the batch's field
  std::string described = {};  ///< "recipes.make_mel"
  decode::ArraySpec output = {};
  /// What it gets of a sample, each "jpg" or alternatives, "jpg;png"; empty: all members.
  std::vector<std::string> members = {};
};

class FunctionPool : public std::enable_shared_from_this<FunctionPool> {
 public:
  FunctionPool(std::vector<FunctionSpec> functions, std::chrono::milliseconds patience, Log log);
  ~FunctionPool();
  FunctionPool(const FunctionPool&) = delete;
  FunctionPool& operator=(const FunctionPool&) = delete;

  /// A process that takes calls. Takes both descriptors over.
  void add(int socket, int memory, int pid);
  int num_processes() const;
  bool has_failed() const;
  /// Throws: what failed the pool.
  void check() const;
  /// Gives each FunctionField of `fields`, in their order, its function here.
  void attach(std::vector<pipeline::FieldSpec>& fields);

  /// Fills the slot. Throws: NotFound without a member; Corrupt for what the function raises;
  /// Cancelled after pause(); Io as check().
  void call(std::size_t function, const wds::Sample& sample, const decode::SampleId& id,
            std::span<std::byte> slot);
  /// Calls return soon, by Cancelled, until resume(), which sets the counters to 0.
  void pause();
  void resume();
  /// Ends the processes' sockets, by which they end. From now on it is as it was made.
  void close();

  /// The whole traceback of what a function raised about the sample of this key, of the last few;
  /// empty: none.
  std::string traceback(const std::string& key) const;
  /// The stage "functions"; what decoding waited for it is no longer its work.
  void add_to(pipeline::Statistics& statistics) const;

 private:
  using Clock = std::chrono::steady_clock;
  struct Call;
  class Lease;

  WorkerChannel& acquire();
  void release(WorkerChannel& worker);
  void await(const Call& call, WorkerChannel& worker);
  [[noreturn]] void fail(const std::string& problem, const Call& call);
  [[noreturn]] void raise(const Call& call, std::string text);
  void throw_if_over() const MILLRACE_REQUIRES(mutex_);

  const std::vector<FunctionSpec> functions_;
  const std::chrono::milliseconds patience_;
  const Log log_;
  mutable Mutex mutex_;
  std::condition_variable_any changed_;
  std::vector<std::unique_ptr<WorkerChannel>> workers_ MILLRACE_GUARDED_BY(mutex_);
  std::vector<WorkerChannel*> idle_ MILLRACE_GUARDED_BY(mutex_);
  std::optional<Error> failure_ MILLRACE_GUARDED_BY(mutex_);
  std::deque<std::pair<std::string, std::string>> tracebacks_ MILLRACE_GUARDED_BY(mutex_);
  std::size_t traceback_bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  int calls_ MILLRACE_GUARDED_BY(mutex_) = 0;  ///< in this moment
  std::atomic<bool> paused_{false};
  std::atomic<std::uint64_t> num_calls_{0};
  std::atomic<std::uint64_t> num_bytes_{0};
  std::atomic<std::int64_t> busy_ns_{0};    ///< of processes
  std::atomic<std::int64_t> inside_ns_{0};  ///< of threads in call()
};

}  // namespace millrace::python
