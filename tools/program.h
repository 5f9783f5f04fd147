// The program: runs a command and turns what it throws into one line and an exit status.
//
// Exit status: 0 done; 1 a fault in data, network, disk or training; 2 a usage error, found before
// anything is written or opened; 130, 138 and 143 interrupted by SIGINT, SIGUSR1 and SIGTERM.
#pragma once

#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/signal_stop.h"

namespace millrace::tools {

inline constexpr int kDone = 0;
inline constexpr int kFault = 1;
inline constexpr int kUsage = 2;

/// Declares the options of `command`, and those that every command has, in `app`, which outlives
/// it. `json` is bound to --json.
void declare_options(CLI::App& app, Command& command, bool& json);

/// Declares the options of `command` in `app`, which outlives it, and parses `words`, without the
/// command's name. Throws: InvalidArgument; CLI::Success if help or the version is asked for.
void parse_words(Command& command, CLI::App& app, std::span<const std::string> words);

/// Runs the command that `words` (without the program's own name) ask for; returns the exit
/// status.
int run_program(std::span<const std::string> words,
                std::span<const std::unique_ptr<Command>> commands, SignalStop& signals);

}  // namespace millrace::tools
