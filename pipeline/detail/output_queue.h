// OutputQueue: from the end of the graph to the consumer, in order; errors in order too.
//
// Buffers: as many batches as the merge has permits. Threads: push() and fail() from any, pop()
// from one at a time.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>

#include "io/base/thread_annotations.h"
#include "pipeline/batch.h"

namespace millrace::pipeline::detail {

struct Output {
  enum class Kind { kBatch, kMasked, kEpochEnd, kFault };
  Kind kind = Kind::kBatch;
  std::uint32_t epoch = 0;
  Batch batch = {};
  std::int64_t index = 0;   ///< kMasked: of the first
  std::int64_t repeat = 1;  ///< kMasked: how many
  std::exception_ptr error = nullptr;
};

class OutputQueue {
 public:
  void push(Output output);
  /// Overtakes everything in the queue: pop() throws `error` from now on. The first call counts.
  void fail(std::exception_ptr error);
  /// Waits for the next output. Throws: what fail() was given.
  Output pop();

 private:
  Mutex mutex_;
  std::condition_variable_any changed_;
  std::deque<Output> outputs_ MILLRACE_GUARDED_BY(mutex_);
  std::exception_ptr error_ MILLRACE_GUARDED_BY(mutex_);
};

}  // namespace millrace::pipeline::detail
