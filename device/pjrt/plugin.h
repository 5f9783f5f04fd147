// Plugin: a shared library with the PJRT C interface, through which XLA reaches an accelerator.
//
//   const pjrt::Plugin plugin("site-packages/libtpu/libtpu.so");
//   pjrt::Client client(plugin);            // device/pjrt/client.h
//
// Threads: from any.
#pragma once

#include <memory>
#include <string>
#include <vector>

namespace millrace::device::pjrt {

class Api;

/// Whether this build can load plugins: it had pjrt_c_api.h.
bool is_built();

class Plugin {
 public:
  /// Loads and initialises it; it stays loaded until the process ends. A plugin's library may start
  /// threads, and may end the process for environment variables that it does not like. Throws:
  /// NotFound for a file that is not there; InvalidArgument for one that is no plugin; Unsupported
  /// for another version of the interface, or a build without it; Io if it fails to initialise.
  explicit Plugin(const std::string& file);

  const std::string& file() const { return file_; }
  /// Of the interface: "0.81".
  const std::string& version() const { return version_; }
  const std::shared_ptr<const Api>& api() const { return api_; }

 private:
  std::string file_;
  std::string version_;
  std::shared_ptr<const Api> api_;
};

/// A file that may be a plugin.
struct PluginPlace {
  std::string name;  ///< of the Python package that has it: "libtpu", "xla_cuda12"
  std::string file;
};

/// The plugins of Python packages in the given folders (a Python's sys.path): those that name
/// themselves by the entry points jax_plugins and xla_plugins, or lie in a folder of that name, and
/// libtpu. In the order of the folders, then by name. Only looks at names: Plugin loads them.
std::vector<PluginPlace> find_plugins(const std::vector<std::string>& folders);

}  // namespace millrace::device::pjrt
