#include "tools/plugins/plugin_options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stop_token>
#include <string_view>
#include <thread>

#include "io/base/error.h"
#include "io/base/json.h"
#include "io/opener.h"
#include "tools/option_settings.h"
#include "tools/shell_word.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

constexpr std::uint64_t kDay = 24ULL * 3600;  // seconds

// The last line that is to be one; a plugin may have written others.
std::string_view last_object(std::string_view output) {
  while (!output.empty()) {
    if (output.ends_with('\n')) output.remove_suffix(1);
    const std::size_t begin = output.rfind('\n') + 1;  // npos + 1 is 0
    if (output.substr(begin).starts_with('{')) return output.substr(begin);
    output = output.substr(0, begin);
  }
  return {};
}

}  // namespace

void PluginOptions::declare(CLI::App& app, const std::string& sentence) {
  app.add_option("--plugin", plugin,
                 "Start this plugin alone, in this process, for as long as it takes")
      ->type_name("FILE")
      ->check(existing_file());
  declare_folders(app);
  app.add_option("--timeout", timeout, sentence)->transform(whole_number(1, kDay));
}

CLI::Option* PluginOptions::declare_folders(CLI::App& app) {
  return app
      .add_option("--plugin-path", folders,
                  "Look for plugins in these folders of Python packages; else in those of the "
                  "python3 in PATH")
      ->type_name("DIR")
      ->check(existing_folder());
}

void PluginOptions::declare_for_run(CLI::App& app) {
  app.add_option("--plugin", plugin, "The PJRT plugin that has the devices, of any kind")
      ->type_name("FILE")
      ->check(existing_file())
      ->check(own_of_process());
  declare_folders(app)->check(own_of_process());
  app.add_option("--plugin-timeout", timeout, "Seconds that a plugin's devices may take to start")
      ->transform(whole_number(1, kDay))
      ->check(own_of_process());
  app.add_option("--plugin-network", network,
                 "Several processes: whether the plugin connects their devices, as those of GPUs "
                 "and of a TPU pod do; no: the processes sum gradients on the host")
      ->transform(one_of({"auto", "yes", "no"}));
}

void PluginOptions::check() const {
  if (!plugin.empty() && !folders.empty())
    throw Error(ErrorCode::kInvalidArgument, "--plugin and --plugin-path: one of them");
}

std::string PluginOptions::output_of(const std::string& command,
                                     const CommandContext& context) const {
  std::stop_source late;
  const std::stop_callback forward(context.stop, [&late] { late.request_stop(); });
  std::mutex mutex;
  std::condition_variable_any ended;
  const std::jthread clock([&](const std::stop_token& done) {
    std::unique_lock lock(mutex);
    ended.wait_for(lock, done, std::chrono::seconds(timeout), [] { return false; });
    if (!done.stop_requested()) late.request_stop();
  });
  constexpr std::size_t kMost = std::size_t{1} << 20;
  io::UrlOpenerOptions options;
  options.allow_pipe = true;
  try {
    const io::Bytes output = io::read_object(
        io::UrlOpener(options), "pipe:" + command + " 2>/dev/null", kMost, late.get_token());
    return std::string(output.text());
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || context.stop.stop_requested()) throw;
    throw Error(ErrorCode::kExhausted, fmt::format("it has not in {} s (--timeout)", timeout));
  }
}

std::vector<device::pjrt::PluginPlace> PluginOptions::find(const CommandContext& context) const {
  if (!folders.empty()) return device::pjrt::find_plugins(folders);
  try {
    std::istringstream lines(
        output_of(R"(exec python3 -c 'import sys; print("\n".join(sys.path))')", context));
    std::vector<std::string> found;
    for (std::string line; std::getline(lines, line);) found.push_back(line);
    return device::pjrt::find_plugins(found);
  } catch (const Error& error) {
    if (context.stop.stop_requested()) throw;
    context.log.info("python3 names no folders of packages: " + error.message());
    return {};
  }
}

nlohmann::ordered_json PluginOptions::ask_own(const std::vector<std::string>& words,
                                              const CommandContext& context) const {
  std::string command = "exec " + shell_word(std::filesystem::read_symlink("/proc/self/exe"));
  for (const std::string& word : words) command += ' ' + shell_word(word);
  const std::string output = output_of(command, context);
  return parse_json<nlohmann::ordered_json>(last_object(output), "the plugin's process");
}

}  // namespace millrace::tools
