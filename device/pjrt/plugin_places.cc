// Where pip puts plugins.
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <system_error>

#include "device/pjrt/plugin.h"

namespace millrace::device::pjrt {
namespace {

namespace fs = std::filesystem;

// Sorted, and none of a folder that cannot be read.
std::vector<fs::path> entries_of(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault))
    entries.push_back(at->path());
  std::ranges::sort(entries);
  return entries;
}

class Places {
 public:
  void add_folder(const fs::path& folder) {
    for (const fs::path& entry : entries_of(folder)) {
      if (entry.extension() == ".dist-info") add_entry_points(folder, entry / "entry_points.txt");
    }
    for (const char* group : {"jax_plugins", "xla_plugins"}) {
      for (const fs::path& package : entries_of(folder / group)) add_package(package);
    }
    add_package(folder / "libtpu");
  }
  std::vector<PluginPlace> take() { return std::move(places_); }

 private:
  // Lines "name = module.of.package" below "[jax_plugins]" or "[xla_plugins]".
  void add_entry_points(const fs::path& folder, const fs::path& file) {
    std::ifstream lines(file);
    bool named = false;
    for (std::string line; std::getline(lines, line);) {
      if (line.ends_with('\r')) line.pop_back();
      if (line.starts_with('[')) named = line == "[jax_plugins]" || line == "[xla_plugins]";
      const std::size_t equals = line.find('=');
      if (!named || equals == std::string::npos) continue;
      const std::size_t begin = line.find_first_not_of(' ', equals + 1);
      if (begin == std::string::npos) continue;
      std::string module = line.substr(begin, line.find_first_of(": ", begin) - begin);
      std::ranges::replace(module, '.', '/');
      add_package(folder / module);
    }
  }

  // A package's own library may lie beside others.
  void add_package(const fs::path& package) {
    for (const fs::path& file : entries_of(package)) {
      const std::string name = file.stem().string();
      const bool is_plugin = name.find("pjrt") != std::string::npos ||
                             name.find("plugin") != std::string::npos || name == "libtpu";
      if (file.extension() != ".so" || !is_plugin) continue;
      std::error_code fault;
      const fs::path real = fs::canonical(file, fault);
      if (!fault && seen_.insert(real).second)
        places_.push_back({package.filename().string(), file.string()});
    }
  }

  std::set<fs::path> seen_;
  std::vector<PluginPlace> places_;
};

}  // namespace

std::vector<PluginPlace> find_plugins(const std::vector<std::string>& folders) {
  Places places;
  for (const std::string& folder : folders) places.add_folder(folder);
  return places.take();
}

}  // namespace millrace::device::pjrt
