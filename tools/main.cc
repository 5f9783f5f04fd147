#include <string>
#include <vector>

#include "tools/commands.h"
#include "tools/program.h"
#include "tools/signal_stop.h"

int main(int argc, char** argv) {
  const millrace::tools::SignalStop signals;
  const std::vector<std::string> words(argv + (argc > 0 ? 1 : 0), argv + argc);
  return millrace::tools::run_program(words, millrace::tools::all_commands(), signals);
}
