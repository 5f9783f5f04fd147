// millrace devices: what a run can compute on: this machine's cores, and the devices of PJRT
// plugins.
//
// A plugin is started by a process of its own, `millrace devices --plugin FILE --json`: one that
// hangs, or ends its process, is a line of the list.
#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "device/pjrt/client.h"
#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/base/wrap.h"
#include "tools/commands.h"
#include "tools/plugins/plugin_options.h"
#include "tools/progress.h"
#include "trainer/nn/plan.h"

namespace millrace::tools {
namespace {

namespace pjrt = device::pjrt;
using Json = nlohmann::ordered_json;

// What a plugin's own process says of it.
struct Report {
  std::string name;
  std::string file;
  std::string version = {};
  std::string platform = {};
  std::vector<pjrt::DeviceInfo> devices = {};
  std::string error = {};  // then the plugin did not start
};

Json json_of(const Report& report) {
  Json json{{"name", report.name}, {"plugin", report.file}};
  if (!report.error.empty()) {
    json["error"] = report.error;
    return json;
  }
  json["interface"] = report.version;
  json["platform"] = report.platform;
  json["devices"] = Json::array();
  for (const pjrt::DeviceInfo& device : report.devices) {
    Json one{{"id", device.id}, {"kind", device.kind}};
    if (device.memory) one["memory_bytes"] = *device.memory;
    json["devices"].push_back(std::move(one));
  }
  return json;
}

Report report_of(const Json& json, const pjrt::PluginPlace& place) {
  Report report{.name = place.name, .file = place.file};
  report.error = json.value("error", "");
  report.version = json.value("interface", "");
  report.platform = json.value("platform", "");
  for (const Json& one : json.value("devices", Json::array())) {
    pjrt::DeviceInfo device{.id = json_integer<std::int64_t>(one.at("id"), "id"),
                            .kind = one.at("kind")};
    if (one.contains("memory_bytes"))
      device.memory = json_integer<std::int64_t>(one["memory_bytes"], "memory_bytes", 0);
    report.devices.push_back(std::move(device));
  }
  return report;
}

Report start_plugin(const pjrt::PluginPlace& place) {
  Report report{.name = place.name, .file = place.file};
  try {
    const pjrt::Plugin plugin(place.file);
    const pjrt::Client client(plugin);
    report.version = plugin.version();
    report.platform = client.platform();
    report.devices = client.devices();
  } catch (const Error& error) {
    report.error = error.message();
  }
  return report;
}

class DevicesCommand final : public Command {
 public:
  std::string name() const override { return "devices"; }
  std::string summary() const override {
    return "Lists this machine's cores and the devices of PJRT plugins";
  }
  std::string example() const override {
    return "  millrace devices\n"
           "  millrace devices --plugin my_plugin.so --json\n";
  }
  void declare(CLI::App& app) override {
    plugins_.declare(app, "Seconds that a plugin may take to start");
  }
  void check() override { plugins_.check(); }

  void run(CommandContext& context) override {
    if (!plugins_.plugin.empty()) {
      const std::string name = std::filesystem::path(plugins_.plugin).stem().string();
      const Report report = start_plugin({.name = name, .file = plugins_.plugin});
      if (!context.json && !report.error.empty()) throw Error(ErrorCode::kIo, report.error);
      return print(report, context);
    }
    print_cores(context);
    if (!pjrt::is_built()) {
      context.log.info(
          "PJRT plugins: this build loads none; tools/bootstrap.sh --accelerators, "
          "and a new build, do");
      return;
    }
    const std::vector<pjrt::PluginPlace> places = plugins_.find(context);
    for (const pjrt::PluginPlace& place : places) print(ask(place, context), context);
    if (places.empty())
      context.log.info(
          "No PJRT plugins were found. For TPUs: pip install libtpu; NVIDIA: pip "
          "install jax-cuda13-pjrt; AMD: pip install jax-rocm7-pjrt; --plugin-path "
          "names other folders");
  }

 private:
  static void print_cores(CommandContext& context) {
    const int cores = usable_cores();
    const std::string library = trainer::nn::compute_library();
    if (context.json) {
      context.out.line(Json{{"name", "cpu"},
                            {"cores", cores},
                            {"library", library},
                            {"memory_bytes", usable_memory()}}
                           .dump());
      return;
    }
    print_line("cpu",
               counted(static_cast<std::uint64_t>(cores), "core") + ", " + gib(usable_memory()) +
                   (library.empty() ? "" : ", " + library),
               context);
  }

  static void print(const Report& report, CommandContext& context) {
    if (context.json) return context.out.line(json_of(report).dump());
    if (!report.error.empty())
      return print_line(report.name, "does not start: " + report.error, context);
    std::string text = report.platform + ": " + devices_text(report.devices);
    print_line(report.name, text + "; interface " + report.version + ", " + report.file, context);
  }

  static void print_line(const std::string& name, const std::string& text,
                         CommandContext& context) {
    constexpr std::size_t kColumn = 16;
    context.out.line(fmt::format("{:<{}}{}", name + ' ', kColumn, wrapped(text, kColumn, kColumn)));
  }

  // "2 x TPU v5e of 16.0 GiB".
  static std::string devices_text(const std::vector<pjrt::DeviceInfo>& devices) {
    std::map<std::pair<std::string, std::int64_t>, int> kinds;
    for (const pjrt::DeviceInfo& device : devices)
      ++kinds[{device.kind, device.memory.value_or(0)}];
    std::string text;
    for (const auto& [kind, count] : kinds) {
      text += fmt::format("{}{} x {}", text.empty() ? "" : ", ", count, kind.first);
      if (kind.second > 0) text += " of " + gib(static_cast<std::uint64_t>(kind.second));
    }
    return text.empty() ? "no devices" : text;
  }
  static std::string gib(std::uint64_t bytes) {
    return fmt::format("{:.1f} GiB", static_cast<double>(bytes) / (1 << 30));
  }

  // By a process of its own.
  Report ask(const pjrt::PluginPlace& place, const CommandContext& context) const {
    show_status(context.terminal, "starting " + place.name);
    try {
      return report_of(plugins_.ask_own({"devices", "--json", "--plugin", place.file}, context),
                       place);
    } catch (const Error& error) {
      if (context.stop.stop_requested()) throw;
      return {.name = place.name, .file = place.file, .error = error.message()};
    }
  }

  PluginOptions plugins_;
};

}  // namespace

std::unique_ptr<Command> make_devices_command() { return std::make_unique<DevicesCommand>(); }

}  // namespace millrace::tools
