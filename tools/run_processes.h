// RunProcesses: the processes of a run, as the program sees them: this one alone, or those that
// mpirun or srun started, where the program was built with MPI.
//
//   RunProcesses processes(context, {.devices = run.devices});
//   processes.guard(context, [&] { fit({..., .cluster = &processes.cluster()}, options); });
//
// Process 0 alone logs.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tools/command.h"
#include "tools/plugins/run_devices.h"
#include "trainer/cluster.h"
#include "trainer/setting.h"

namespace CLI {
class App;
}

namespace millrace::tools {

/// Seconds without a sign of life from another process until the run ends. 0: without limit.
inline constexpr std::int64_t kHeartbeatTimeout = 30;

/// Declares --heartbeat-timeout.
void declare_heartbeat_timeout(CLI::App& app, std::int64_t& seconds);

struct ProcessOptions {
  DeviceChoice devices = {.cores = "1"};
  PluginOptions plugins = {};
  trainer::ClusterOptions cluster = {};
  std::int64_t heartbeat_timeout = kHeartbeatTimeout;
};

class RunProcesses {
 public:
  /// Makes this process's devices. Under a launcher that started several processes it waits until
  /// all have called it. Throws, on all: InvalidArgument where their number is not what the
  /// launcher's environment says, where this program has no MPI, and where another process has
  /// other options (tools/option_settings.h), or is another build of the program.
  explicit RunProcesses(CommandContext& context, const ProcessOptions& options = {});
  /// Under a launcher: waits until all processes have called it.
  ~RunProcesses();
  RunProcesses(const RunProcesses&) = delete;
  RunProcesses& operator=(const RunProcesses&) = delete;

  trainer::Cluster& cluster() { return *cluster_; }
  Topology topology() const { return cluster_->topology(); }
  bool is_alone() const { return topology().processes == 1; }
  bool is_first() const { return topology().process == 0; }
  const device::DeviceSet& devices() const { return devices_->set; }
  /// Where progress is shown: process 0's terminal; null for the others, and without one.
  trainer::TerminalLine* terminal_of(const CommandContext& context) const {
    return is_first() ? context.terminal : nullptr;
  }
  /// Of this process's devices. Null: the CPU's.
  std::unique_ptr<trainer::Backend> make_backend(const trainer::hlo::Normalisation& bytes,
                                                 const CommandContext& context) const {
    return devices_->make_backend(bytes, context.log);
  }
  /// Says which hosts, ranks and threads a run of several processes has, and what in its launcher's
  /// settings keeps it from ending well. A collective.
  void print_places(const CommandContext& context);

  /// Runs the command's work. What one process throws ends the others; it is reported once, before
  /// any of them ends. A signal that stopped one process is every process's exit status.
  template <typename Work>
  void guard(CommandContext& context, const Work& work) {
    try {
      work();
    } catch (const std::exception& error) {
      failed(context, error);
      throw;
    }
  }

 private:
  class Started;
  struct Share;

  void start(const ProcessOptions& options, CommandContext& context);
  /// Throws: InvalidArgument on all processes, which all call it alike, unless `is_so`.
  void require_on_all(bool is_so, const std::string& otherwise);
  void start_plugin(const ProcessOptions& options, CommandContext& context);
  void join(int devices, const ProcessOptions& options);
  /// Makes the devices of all processes one program's, where the plugin connects them. A
  /// collective. Throws: InvalidArgument, on all processes, if it has to and does not.
  void connect(const ProcessOptions& options);
  /// This process's share of its machine's cores. Throws: InvalidArgument on all processes where
  /// one has other options, or is another build of the program.
  Share compare(int devices, const CommandContext& context);
  /// Throws: InvalidArgument on all processes where two have the same device of a plugin.
  void check_own_devices();
  std::vector<trainer::Setting> settings(int devices, const CommandContext& context) const;
  /// Whether the processes are on more than one host; "process 1 on node2".
  bool is_spread() const;
  std::string name() const;
  void advise(const CommandContext& context) const;
  /// Throws what is to be reported instead of `error`, if something else is.
  void failed(CommandContext& context, const std::exception& error);
  void tell_others(CommandContext& context, const std::exception& error);
  void failed_alone(CommandContext& context, const std::exception& error);

  bool has_launcher_ = false;
  int cores_ = 1;
  std::int64_t heartbeat_timeout_ = kHeartbeatTimeout;
  std::string kind_;                  ///< of its devices; empty: cores
  std::unique_ptr<Started> started_;  ///< null: this process alone
  std::unique_ptr<trainer::Cluster> cluster_;
  std::optional<RunDevices> devices_;
};

}  // namespace millrace::tools
