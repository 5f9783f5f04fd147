#include "tools/plugins/plugin_options.h"

#include <fmt/format.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <sstream>
#include <stop_token>
#include <thread>

#include "io/base/error.h"
#include "io/byte_source.h"
#include "io/opener.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

constexpr std::uint64_t kDay = 24ULL * 3600;  // seconds

// One word of a shell.
std::string shell_word(const std::string& word) {
  std::string text = "'";
  for (const char c : word) text += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return text + "'";
}

std::string own_program() {
  std::array<char, 4096> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  if (length <= 0) throw Error(ErrorCode::kIo, "/proc/self/exe cannot be read");
  return {path.data(), static_cast<std::size_t>(length)};
}

}  // namespace

void PluginOptions::declare(CLI::App& app, const std::string& sentence) {
  app.add_option("--plugin", plugin, "Start this plugin alone, in this process")
      ->option_text("FILE")
      ->check(existing_file());
  app.add_option("--plugin-path", folders,
                 "Look for plugins in these folders of Python packages; else in those of the "
                 "python3 in PATH")
      ->option_text("DIR ...")
      ->check(existing_folder());
  app.add_option("--timeout", timeout, sentence)->transform(whole_number(1, kDay));
}

void PluginOptions::check() const {
  if (!plugin.empty() && !folders.empty())
    throw Error(ErrorCode::kInvalidArgument, "--plugin and --plugin-path: one of them");
}

std::string PluginOptions::output_of(const std::string& command, const Context& context) const {
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
    const auto source =
        io::UrlOpener(options).open("pipe:" + command + " 2>/dev/null", {.stop = late.get_token()});
    const io::Bytes bytes = io::read_all(*source, kMost);
    return {reinterpret_cast<const char*>(bytes.span().data()), bytes.size()};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kCancelled || context.stop.stop_requested()) throw;
    throw Error(ErrorCode::kExhausted, fmt::format("it has not in {} s (--timeout)", timeout));
  }
}

std::vector<device::pjrt::PluginPlace> PluginOptions::find(const Context& context) const {
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

std::string PluginOptions::run_own(const std::vector<std::string>& words,
                                   const Context& context) const {
  std::string command = "exec " + shell_word(own_program());
  for (const std::string& word : words) command += ' ' + shell_word(word);
  return output_of(command, context);
}

}  // namespace millrace::tools
