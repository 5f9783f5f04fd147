// A run's lock in an object store; run_lock.h has its rules.
#pragma once

#include <memory>
#include <string>

#include "trainer/run_lock.h"

namespace millrace::trainer::detail {

/// A mark that no other run has.
std::string new_run_mark();

/// Throws: as RunLock.
std::unique_ptr<RunLock::Holder> lock_in_store(const std::string& folder,
                                               const RunLockOptions& options);

}  // namespace millrace::trainer::detail
