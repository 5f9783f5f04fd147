// Failure: the first exception on any replica's thread, which ends all the others.
//
// Threads: every member from any thread.
#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <utility>

namespace millrace::trainer::detail {

class Failure {
 public:
  /// `end_all` makes every replica's waiting calls throw; called once, at the first failure, with
  /// that failure.
  explicit Failure(std::function<void(const std::exception_ptr&)> end_all)
      : end_all_(std::move(end_all)) {}

  /// Runs `work`; keeps its exception if it is the first.
  template <typename Work>
  void guard(const Work& work) noexcept {
    try {
      work();
    } catch (...) {
      record(std::current_exception());
    }
  }

  /// The first failure; null if there is none. Requires: every guarded work has ended.
  const std::exception_ptr& first() const { return first_; }
  /// Throws the first failure, if there is one. Requires: every guarded work has ended.
  void rethrow() const {
    if (first_) std::rethrow_exception(first_);
  }

 private:
  void record(std::exception_ptr error) noexcept {
    const std::lock_guard lock(mutex_);
    if (first_) return;
    first_ = std::move(error);
    end_all_(first_);
  }

  std::function<void(const std::exception_ptr&)> end_all_;
  std::mutex mutex_;
  std::exception_ptr first_;
};

}  // namespace millrace::trainer::detail
