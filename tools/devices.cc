// millrace devices: what a run can compute on: this machine's cores, and the devices of PJRT
// plugins.
//
// A plugin is started by a process of its own, `millrace devices --plugin FILE --json`: one that
// hangs, or ends its process, is a line of the list.
#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/pjrt/client.h"
#include "io/base/error.h"
#include "io/base/json.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/base/wrap.h"
#include "io/byte_source.h"
#include "io/opener.h"
#include "tools/commands.h"
#include "tools/progress.h"
#include "tools/values.h"
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

Report report_of(const std::string& line, const pjrt::PluginPlace& place) {
  Report report{.name = place.name, .file = place.file};
  const auto json = parse_json<Json>(line, "the plugin's process");
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

// One word of a shell.
std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

// What a command writes to its standard output. Throws: Cancelled when the command is stopped, or
// has not ended in time; Io if it fails.
std::string output_of(const std::string& command, std::chrono::seconds most,
                      const std::stop_token& stop) {
  std::stop_source late;
  const std::stop_callback forward(stop, [&late] { late.request_stop(); });
  std::mutex mutex;
  std::condition_variable_any ended;
  const std::jthread clock([&](const std::stop_token& done) {
    std::unique_lock lock(mutex);
    if (!ended.wait_for(lock, done, most, [] { return false; }) && !done.stop_requested())
      late.request_stop();
  });
  constexpr std::size_t kMost = std::size_t{1} << 20;
  io::UrlOpenerOptions options;
  options.allow_pipe = true;
  const auto source =
      io::UrlOpener(options).open("pipe:" + command + " 2>/dev/null", {.stop = late.get_token()});
  const io::Bytes bytes = io::read_all(*source, kMost);
  const auto text = bytes.span();
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) throw Error(ErrorCode::kIo, "/proc/self/exe cannot be read");
  return {path.data(), static_cast<std::size_t>(length)};
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
    app.add_option("--plugin", plugin_, "Start this plugin alone, in this process")
        ->option_text("FILE")
        ->check(existing_file());
    app.add_option("--plugin-path", folders_,
                   "Look for plugins in these folders of Python packages; else in those of the "
                   "python3 in PATH")
        ->option_text("DIR ...")
        ->check(existing_folder());
    app.add_option("--timeout", timeout_, "Seconds that a plugin may take to start")
        ->transform(whole_number(1, 3600));
  }
  void check() override {
    if (!plugin_.empty() && !folders_.empty())
      throw Error(ErrorCode::kInvalidArgument, "--plugin and --plugin-path: one of them");
  }

  void run(Context& context) override {
    if (!plugin_.empty()) {
      const std::string name = std::filesystem::path(plugin_).stem().string();
      return print(start_plugin({.name = name, .file = plugin_}), context);
    }
    print_cores(context);
    if (!pjrt::is_built()) {
      context.log.info(
          "PJRT plugins: this build loads none; tools/bootstrap.sh --accelerators, "
          "and a new build, do");
      return;
    }
    const std::vector<pjrt::PluginPlace> places = pjrt::find_plugins(package_folders(context));
    for (const pjrt::PluginPlace& place : places) print(ask(place, context), context);
    if (places.empty())
      context.log.info(
          "No PJRT plugins were found. For TPUs: pip install libtpu; NVIDIA: pip "
          "install jax-cuda13-pjrt; AMD: pip install jax-rocm7-pjrt; --plugin-path "
          "names other folders");
  }

 private:
  static void print_cores(Context& context) {
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

  static void print(const Report& report, Context& context) {
    if (context.json) return context.out.line(json_of(report).dump());
    if (!report.error.empty())
      return print_line(report.name, "does not start: " + report.error, context);
    std::string text = report.platform + ": " + devices_text(report.devices);
    print_line(report.name, text + "; interface " + report.version + ", " + report.file, context);
  }

  static void print_line(const std::string& name, const std::string& text, Context& context) {
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

  std::vector<std::string> package_folders(const Context& context) const {
    if (!folders_.empty()) return folders_;
    try {
      std::istringstream lines(
          output_of(R"(exec python3 -c 'import sys; print("\n".join(sys.path))')",
                    std::chrono::seconds(timeout_), context.stop));
      std::vector<std::string> folders;
      for (std::string line; std::getline(lines, line);) folders.push_back(line);
      return folders;
    } catch (const Error& error) {
      if (context.stop.stop_requested()) throw;
      context.log.info("python3 names no folders: " + error.message());
      return {};
    }
  }

  // By a process of its own.
  Report ask(const pjrt::PluginPlace& place, const Context& context) const {
    show_status(context.terminal, "starting " + place.name);
    try {
      const std::string command = "exec " + shell_word(own_program()) +
                                  " devices --json --plugin " + shell_word(place.file);
      return report_of(output_of(command, std::chrono::seconds(timeout_), context.stop), place);
    } catch (const Error& error) {
      if (context.stop.stop_requested()) throw;
      const bool late = error.code() == ErrorCode::kCancelled;
      return {.name = place.name,
              .file = place.file,
              .error =
                  late ? fmt::format("it has not in {} s (--timeout)", timeout_) : error.message()};
    }
  }

  std::string plugin_;
  std::vector<std::string> folders_;
  std::int64_t timeout_ = 30;
};

}  // namespace

std::unique_ptr<Command> make_devices_command() { return std::make_unique<DevicesCommand>(); }

}  // namespace millrace::tools
