// LogLines: lines that C++ threads log, kept until a thread of Python passes them to `logging`.
//
// A pipeline's threads never take the GIL, so that none of them waits for Python, or for its end.
//
//   options.log = lines.log();     // from any thread
//   lines.pass_on();               // with the GIL: to logging.getLogger("millrace")
//
// Threads: every member may be called from any thread. Buffers: kMostLines lines; what comes beyond
// is counted.
#pragma once

#include <cstddef>
#include <memory>

#include "io/base/log.h"

namespace millrace::python {

class LogLines {
 public:
  static constexpr std::size_t kMostLines = 1000;

  LogLines();
  Log log() const;
  /// Requires: the GIL. Throws: what a handler of `logging` throws.
  void pass_on();

 private:
  struct Kept;
  std::shared_ptr<Kept> kept_;  ///< shared with the Log, which may outlive this
};

}  // namespace millrace::python
