// Command: one subcommand of the program: what it is called, what it takes, what it does.
//
// The program makes one of each, gives the user's words to the one that is named, and turns what it
// throws into one line and an exit status (tools/program.h).
//
// Threads: one at a time.
#pragma once

#include <stop_token>
#include <string>

#include "io/base/log.h"
#include "tools/output.h"

namespace CLI {
class App;
}

namespace millrace::tools {

/// What every command works with.
struct Context {
  /// Standard output: the command's result.
  Output& out;
  /// Standard error: text for people.
  Log log;
  /// Asked to stop by the first SIGINT or SIGTERM.
  std::stop_token stop;
  /// Whether results are written as JSON, one object a line.
  bool json = false;
};

class Command {
 public:
  virtual ~Command() = default;

  virtual std::string name() const = 0;
  /// One line for the list of commands.
  virtual std::string summary() const = 0;
  /// What --help ends with: one or more command lines that work.
  virtual std::string example() const = 0;
  /// Declares the options, bound to the command's own members.
  virtual void declare(CLI::App& app) = 0;
  /// Refuses what can never work; runs before a file is made or a socket opened. Whatever it throws
  /// is a usage error.
  virtual void check() {}
  /// Does the work. Throws: Error; kInvalidArgument is a usage error too, kCancelled an
  /// interruption, all others a fault.
  virtual void run(Context& context) = 0;
};

}  // namespace millrace::tools
