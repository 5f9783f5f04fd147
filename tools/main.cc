#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "tools/commands.h"
#include "tools/program.h"
#include "tools/short_waits.h"
#include "tools/signal_stop.h"

namespace {

// Commands whose devices compute with several threads each.
bool computes(const std::vector<std::string>& words) {
  constexpr std::array<std::string_view, 4> kComputing = {"train", "eval", "predict", "bench"};
  return !words.empty() &&
         std::find(kComputing.begin(), kComputing.end(), words.front()) != kComputing.end();
}

}  // namespace

int main(int argc, char** argv) {
  millrace::tools::hold_signals();
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  if (computes(words)) millrace::tools::restart_with_short_waits(argv);
  millrace::tools::SignalStop signals;
  return millrace::tools::run_program(words, millrace::tools::all_commands(), signals);
}
