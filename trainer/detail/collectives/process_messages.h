// What one process of a run sends the others: a decision of process 0, or an error, as bytes.
//
// Threads: functions.
#pragma once

#include <exception>
#include <functional>
#include <string>
#include <string_view>

#include "io/base/error.h"
#include "trainer/cluster.h"

namespace millrace::trainer::detail {

/// `error` as bytes; an exception that is no Error becomes a Cancelled one with its text.
std::string pack_error(const std::exception_ptr& error);
/// The reverse. Throws: Corrupt for bytes that are not from pack_error().
Error unpack_error(std::string_view packed);

/// The outcome of process 0's decision: a text, or a failure.
struct Told {
  std::string text = {};
  std::exception_ptr failure = {};  ///< null: none
};

/// Runs `decision` on process 0, and returns its outcome on all. Throws: what the cluster throws.
Told tell_decision(Cluster& cluster, const std::function<std::string()>& decision);

/// Throws on every process when one has failed: there its own failure, elsewhere that of the first
/// such process, with its number. `own`: null where nothing failed.
void throw_any(Cluster& cluster, const std::exception_ptr& own);

}  // namespace millrace::trainer::detail
