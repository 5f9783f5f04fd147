// Client: the devices of a plugin, arrays in their memory, and compiled programs.
//
//   pjrt::Client client(plugin, {.cpu_devices = 2});
//   const pjrt::Program program = client.compile(stablehlo, {.replicas = 2});
//   const pjrt::Buffer x = client.copy_in(0, {.shape = spec, .data = bytes});
//   std::vector<std::vector<pjrt::Buffer>> results = program.run({{&x}, {&y}});
//
// Errors of a plugin become Error by their status: InvalidArgument, NotFound, PermissionDenied,
// Exhausted (memory, or a device that does not answer), Unsupported, Cancelled, else Io.
//
// Threads: from any, but one at a time for a Buffer that a program consumes.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "decode/array.h"
#include "device/pjrt/key_value_store.h"
#include "device/pjrt/plugin.h"
#include "io/base/log.h"

namespace millrace::device::pjrt {

struct DeviceInfo {
  std::int64_t id = 0;  ///< over all processes
  std::string kind;     ///< "TPU v5e", "NVIDIA H100 80GB HBM3", "cpu"
  /// Bytes; nullopt where the plugin does not say.
  std::optional<std::int64_t> memory = {};
};

struct ClientOptions {
  /// Devices that a plugin for the CPU makes; 0: its own number. Others refuse a number.
  std::int64_t cpu_devices = 0;
  /// Which of this process's the client has, by their places among them; empty: all.
  std::vector<std::int64_t> devices = {};
  /// Processes whose devices the plugin is to connect: asked of plugins that can (GPUs'); a TPU
  /// pod's finds its own.
  Network network = {};
  /// How long a device may take for what is waited for; 0: without limit. After two seconds the log
  /// says for what.
  std::chrono::seconds limit{600};
  Log log = {};
};

/// An array of the host.
struct HostArray {
  const decode::ArraySpec& spec;
  std::span<const std::byte> data;  ///< dense, in the order of the spec's axes
};

/// An array in a device's memory.
class Buffer {
 public:
  Buffer(Buffer&&) noexcept;
  Buffer& operator=(Buffer&&) noexcept;
  ~Buffer();

  /// Copies it to the host, in the order of its axes, when the program that makes it is done.
  /// Requires: `to` is as large. Throws: what that program failed with.
  void read(std::span<std::byte> to) const;
  /// Waits until it is there. Throws: as read().
  void wait() const;

 private:
  friend class Client;
  friend class Program;
  struct State;
  explicit Buffer(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

struct CompileOptions {
  int replicas = 1;  ///< of which each runs on a device of its own, the first ones
  /// Or on these, DeviceInfo::id of each, also of other processes that the plugin has connected.
  std::vector<std::int64_t> assignment = {};
  /// Runs on any one device (run_on()) instead.
  bool portable = false;
  /// XLA's own flags: {"xla_gpu_autotune_level", 0}.
  std::vector<std::pair<std::string, std::int64_t>> flags = {};
};

/// A compiled program.
class Program {
 public:
  Program(Program&&) noexcept;
  Program& operator=(Program&&) noexcept;
  ~Program();

  /// Runs it on all devices of this process: arguments[r] are those of its replica r, in the
  /// program's order, and results[r] what it returns. Where other processes have replicas, all call
  /// it. Returns while the devices may still work. Arguments that the
  /// program donates (its attributes say which) are consumed: they are lost even if this throws.
  std::vector<std::vector<Buffer>> run(
      const std::vector<std::vector<const Buffer*>>& arguments) const;
  /// Runs a portable program on devices()[device]; otherwise as run().
  std::vector<Buffer> run_on(std::size_t device, const std::vector<const Buffer*>& arguments) const;
  std::size_t num_results() const;
  /// What Client::load() takes, in a process with the same plugin and kind of device. Nullopt if
  /// the plugin cannot.
  std::optional<std::string> serialised() const;

 private:
  friend class Client;
  struct State;
  explicit Program(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

class Client {
 public:
  /// Starts the plugin's devices: may take minutes where they are not there (libtpu without a TPU).
  /// Throws: as above, with the plugin's message; InvalidArgument for a device that is not there.
  explicit Client(const Plugin& plugin, const ClientOptions& options = {});
  ~Client();
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  const std::string& platform() const;          ///< "tpu", "cuda", "cpu"
  const std::string& platform_version() const;  ///< the plugin's own text, of one line or more
  /// Those of this process, or of them those that it was made with.
  const std::vector<DeviceInfo>& devices() const;
  /// DeviceInfo::id of all processes' devices; this process's alone where nothing connects them.
  const std::vector<std::int64_t>& all_devices() const;
  /// By the plugin's own count: 0 where nothing connects them.
  int process() const;

  /// Copies an array to the memory of devices()[device]. Throws: Exhausted.
  Buffer copy_in(std::size_t device, const HostArray& array) const;
  /// Compiles a StableHLO module, as text or bytecode. Throws: InvalidArgument with the compiler's
  /// message; Exhausted for a program that does not fit the device.
  Program compile(std::string_view stablehlo, const CompileOptions& options = {}) const;
  /// A compiled program again; `options` as they were. Throws: Unsupported if the plugin cannot; as
  /// compile() for another plugin's.
  Program load(std::string_view serialised, const CompileOptions& options = {}) const;

 private:
  friend class Buffer;
  friend class Program;
  struct State;
  std::shared_ptr<State> state_;  // which buffers and programs share
};

}  // namespace millrace::device::pjrt
