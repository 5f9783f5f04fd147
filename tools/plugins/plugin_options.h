// PluginOptions: where PJRT plugins are looked for, and their work in processes of their own: a
// plugin may hang, or end its process.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "device/pjrt/plugin.h"
#include "tools/command.h"

namespace CLI {
class Option;
}

namespace millrace::tools {

struct PluginOptions {
  std::string plugin = {};  ///< a file: it alone, in this process and without
                            ///< a limit; empty: any
  std::vector<std::string> folders =
      {};                     ///< of Python packages; empty: those of the python3 in PATH
  std::int64_t timeout = 30;  ///< seconds that a plugin's process may take
  /// Whether the plugin connects the devices of several processes: auto (where plugins of its kind
  /// can), yes or no.
  std::string network = "auto";

  /// `sentence` says what the time is for.
  void declare(CLI::App& app, const std::string& sentence);
  /// For a command that computes on a plugin's devices in this process: --plugin, --plugin-path,
  /// --plugin-timeout, each process's own, and --plugin-network.
  void declare_for_run(CLI::App& app);
  /// Throws: InvalidArgument.
  void check() const;

  /// Those that pip has installed. If python3 does not say where, the log says why.
  std::vector<device::pjrt::PluginPlace> find(const CommandContext& context) const;
  /// The JSON object that this program writes to its standard output when it is run with these
  /// words, by a process of its own that may take `timeout`: its last line that looks like one, as
  /// a plugin may write there too. Throws: Exhausted if it took longer; Io if it failed; Corrupt
  /// for no object; Cancelled.
  nlohmann::ordered_json ask_own(const std::vector<std::string>& words,
                                 const CommandContext& context) const;

 private:
  CLI::Option* declare_folders(CLI::App& app);
  std::string output_of(const std::string& command, const CommandContext& context) const;
};

}  // namespace millrace::tools
