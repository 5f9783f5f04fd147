#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/fault_text.h"
#include "tools/commands.h"
#include "tools/program.h"
#include "tools/short_waits.h"
#include "tools/signal_stop.h"

namespace {

// Commands whose devices compute with several threads each, unless they only tell of themselves.
bool computes(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 4> kComputing = {"train", "eval", "predict", "bench"};
  return !words.empty() && std::ranges::find(kComputing, words.front()) != kComputing.end() &&
         std::ranges::find(words, "--help") == words.end();
}

/// What no stage handled, on any thread: one line, and a status that says fault.
[[noreturn]] void end_in_fault() noexcept {
  const std::exception_ptr fault = std::current_exception();
  if (!fault) std::abort();
  ::dprintf(STDERR_FILENO, "millrace: %s\n", millrace::fault_text(fault).c_str());
  ::_exit(millrace::tools::kFault);
}

}  // namespace

int main(int argc, char** argv) {
  std::set_terminate(end_in_fault);
  millrace::tools::hold_signals();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (computes(words)) millrace::tools::restart_with_short_waits(argv);
  millrace::tools::SignalStop signals;
  return millrace::tools::run_program(words, millrace::tools::all_commands(), signals);
}
