// Command: one subcommand of the program: its name, its options, its work.
//
// The program creates one of each, passes the user's arguments to the one named, and turns what it
// throws into one line and an exit status (tools/program.h).
//
// Threads: one at a time.
#pragma once

#include <exception>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "tools/output.h"
#include "tools/signal_stop.h"

namespace CLI {
class App;
}

namespace millrace {
class Table;
class Tracer;
namespace trainer {
class TerminalLine;
}
}  // namespace millrace

namespace millrace::tools {

/// What every command is given.
struct CommandContext {
  /// Standard output: the command's result.
  Output& out;
  /// Standard error: text for people.
  Log log;
  /// Requested by the first signal that asks for an end.
  std::stop_token stop;
  /// Whether results are written as JSON, one object per line.
  bool json = false;
  /// The signals that request `stop`; null if none do.
  SignalStop* signals = nullptr;
  /// Where progress is shown, below the log's lines; null: nowhere.
  trainer::TerminalLine* terminal = nullptr;
  /// The command's options as parsed, borrowed: what several processes compare. Null: none.
  CLI::App* options = nullptr;
  /// Where what the command does is recorded, borrowed; null: nowhere (tools/trace_options.h).
  Tracer* trace = nullptr;
  /// False if another process of the run reports why it failed, or this one has.
  bool says_failure = true;
  /// Prints the one line that a failed run leaves on standard error, if `says_failure`, which it
  /// clears. Processes of a run call it before they end MPI, at which a launcher may end them.
  std::function<void(const std::exception&)> report = {};
};

class Command {
 public:
  virtual ~Command() = default;

  virtual std::string name() const = 0;
  /// One line for the list of commands.
  virtual std::string summary() const = 0;
  /// The end of --help: one or more command lines that work.
  virtual std::string example() const = 0;
  /// Of the components that the options name: --help SGD explains one.
  virtual std::vector<const Table*> tables() const { return {}; }
  /// Declares the options, bound to the command's own members.
  virtual void declare(CLI::App& app) = 0;
  /// Rejects what can never work; runs before any file is created or socket opened. Throws: Error,
  /// which is a usage error unless it is Exhausted or Io.
  virtual void check() {}
  /// Does the work. Throws: Error: kInvalidArgument is a usage error too, kCancelled an
  /// interruption, anything else a fault.
  virtual void run(CommandContext& context) = 0;
};

}  // namespace millrace::tools
