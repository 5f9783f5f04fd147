#include "pipeline/detail/output_queue.h"

#include <utility>

namespace millrace::pipeline::detail {

void OutputQueue::push(Output output) {
  {
    MutexLock lock(mutex_);
    outputs_.push_back(std::move(output));
  }
  changed_.notify_one();
}

void OutputQueue::fail(std::exception_ptr error) {
  {
    MutexLock lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  changed_.notify_all();
}

Output OutputQueue::pop() {
  MutexLock lock(mutex_);
  while (outputs_.empty() && !error_) changed_.wait(lock);
  if (error_) std::rethrow_exception(error_);
  Output output = std::move(outputs_.front());
  outputs_.pop_front();
  return output;
}

}  // namespace millrace::pipeline::detail
