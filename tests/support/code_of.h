// code_of: which error a call ends with.
#pragma once

#include <gtest/gtest.h>

#include <functional>

#include "io/base/error.h"

namespace millrace::testing {

/// The code of the Error that `call` throws; a failure of the test if it throws none.
inline ErrorCode code_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.code();
  }
  ADD_FAILURE() << "nothing was thrown";
  return ErrorCode::kIo;
}

}  // namespace millrace::testing
