// Processes: the processes of a call of fit(), evaluate() or predict(); what process 0 decides, the
// others get from here.
//
// Every process makes the same calls in the same order. A process that fails by itself ends the
// others through guard(); an exception that all of them throw does not need to.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "trainer/backend.h"
#include "trainer/cluster.h"

namespace millrace::trainer::detail {

/// "process 1 failed: no space left", or without the process if it is alone.
std::string reason_of(const std::exception_ptr& error, const Topology& topology) noexcept;

class Processes {
 public:
  /// `given` is borrowed; null: this process alone. Throws: InvalidArgument for a cluster of
  /// another number of devices.
  Processes(Cluster* given, int devices);

  Cluster& cluster() const { return cluster_; }
  /// Whether this is process 0, which decides, writes and reports.
  bool is_first() const { return cluster_.topology().process == 0; }
  bool is_alone() const { return cluster_.topology().processes == 1; }
  /// Whether every process throws the exception that this one threw last.
  bool has_thrown_alike() const { return cluster_.fails_alike(); }

  /// Runs this process's whole work. An exception of this process alone ends the others, with its
  /// reason.
  template <typename Work>
  auto guard(const Work& work) {
    try {
      return work();
    } catch (...) {
      if (!has_thrown_alike())
        cluster_.abort(reason_of(std::current_exception(), cluster_.topology()));
      throw;
    }
  }

  /// As trainer::decide().
  std::string decide(const std::function<std::string()>& decision);
  /// The same for work without a result.
  void first_does(const std::function<void()>& work);
  /// Each process's text, in the order of the processes.
  std::vector<std::string> gather(const std::string& own);
  /// The sum over the processes, and the largest.
  std::int64_t sum(std::int64_t own);
  std::int64_t max(std::int64_t own);
  bool any(bool own) { return sum(own ? 1 : 0) > 0; }
  /// Copies process 0's values to all.
  void copy_from_first(Backend& backend, DeviceSpan values);
  /// As detail::throw_any().
  void throw_any(const std::exception_ptr& own);
  /// Throws `error`. Requires: every process does.
  [[noreturn]] void throw_alike(const std::exception_ptr& error);
  /// Throws Cancelled, likewise.
  [[noreturn]] void throw_stopped(const std::string& message);

 private:
  std::vector<std::int64_t> gather_numbers(std::int64_t own);

  std::unique_ptr<Cluster> own_;
  Cluster& cluster_;
};

}  // namespace millrace::trainer::detail
