#include "tools/plugins/run_devices.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <future>
#include <numeric>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>

#include "device/pjrt/client.h"
#include "device/pjrt/pjrt_device.h"
#include "io/base/error.h"
#include "io/base/suggest.h"
#include "io/base/text.h"
#include "trainer/pjrt/backend.h"
#include "trainer/pjrt/program_store.h"

namespace millrace::tools {
namespace {

namespace pjrt = device::pjrt;
using SharedClient = std::shared_ptr<const pjrt::Client>;

/// What a kind of device is called, and the plugin that has it.
struct DeviceWord {
  std::string_view name;
  std::string_view plugin;  ///< in the plugin's name
  std::string_view pip;     ///< the package
  bool is_told = false;     ///< of other processes; a TPU pod's plugin finds them
};
constexpr std::array<DeviceWord, 5> kKinds = {{{"tpu", "libtpu", "libtpu"},
                                               {"cuda", "cuda", "jax-cuda13-pjrt", true},
                                               {"rocm", "rocm", "jax-rocm7-pjrt", true},
                                               {"oneapi", "oneapi", "jax-oneapi-pjrt", true},
                                               {"xla-cpu", "cpu", "xla-cpu-pjrt"}}};
constexpr std::int64_t kMostDevices = 1024;

std::vector<std::string> kind_names() {
  std::vector<std::string> names;
  for (const DeviceWord& kind : kKinds) names.emplace_back(kind.name);
  return names;
}

const DeviceWord* find_kind(std::string_view name) {
  const auto* const known = std::ranges::find(kKinds, name, &DeviceWord::name);
  return known == kKinds.end() ? nullptr : known;
}

[[noreturn]] void refuse_devices(const std::string& text, const std::string& why) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("--devices {}: {}; write a number as cuda:2, or a list as cuda:[0,3]",
                          printable(text), why));
}

std::int64_t number_of(const std::string& text, std::string_view word, std::int64_t least) {
  std::int64_t number = -1;
  const auto [end, fault] = std::from_chars(word.data(), word.data() + word.size(), number);
  if (fault != std::errc{} || end != word.data() + word.size() || number < least ||
      number >= kMostDevices)
    refuse_devices(text, fmt::format("'{}' is not a number from {} to {}", printable(word), least,
                                     kMostDevices - 1));
  return number;
}

std::vector<std::int64_t> numbers_of(const std::string& text, std::string_view words) {
  if (!words.starts_with('[')) {
    std::vector<std::int64_t> first(static_cast<std::size_t>(number_of(text, words, 1)));
    std::iota(first.begin(), first.end(), 0);
    return first;
  }
  if (!words.ends_with(']')) refuse_devices(text, "a list ends with ]");
  words = words.substr(1, words.size() - 2);
  std::vector<std::int64_t> numbers;
  for (;;) {
    const std::size_t end = words.find(',');
    numbers.push_back(number_of(text, words.substr(0, end), 0));
    if (std::ranges::count(numbers, numbers.back()) > 1)
      refuse_devices(text, fmt::format("device {} is listed twice", numbers.back()));
    if (end == std::string_view::npos) return numbers;
    words.remove_prefix(end + 1);
  }
}

/// The plugin's file.
std::string plugin_for(const DeviceChoice& choice, const PluginOptions& plugins,
                       const CommandContext& context) {
  if (!plugins.plugin.empty()) return plugins.plugin;
  const DeviceWord& kind = *find_kind(choice.kind);
  for (const pjrt::PluginPlace& place : plugins.find(context))
    if (place.name.find(kind.plugin) != std::string::npos) return place.file;
  throw Error(ErrorCode::kNotFound,
              fmt::format("no plugin for {} is installed where python3 looks: pip install {}, or "
                          "--plugin-path, or --plugin",
                          kind.name, kind.pip));
}

/// A plugin that hangs keeps its thread, which ends with the process.
SharedClient start_client(const std::string& file, const pjrt::ClientOptions& options,
                          const PluginOptions& plugins, const CommandContext& context) {
  using Clock = std::chrono::steady_clock;
  std::packaged_task<SharedClient()> start([file, options] {
    const pjrt::Plugin plugin(file);
    return std::make_shared<const pjrt::Client>(plugin, options);
  });
  std::future<SharedClient> started = start.get_future();
  std::thread(std::move(start)).detach();
  const auto begin = Clock::now();
  bool is_said = false;
  while (started.wait_for(std::chrono::milliseconds(50)) != std::future_status::ready) {
    if (context.stop.stop_requested())
      throw Error(ErrorCode::kCancelled, "stopped while a plugin started");
    const auto waited = Clock::now() - begin;
    if (waited > std::chrono::seconds(2) && !std::exchange(is_said, true))
      context.log.info("waiting for " + file + " to start its devices");
    if (waited > std::chrono::seconds(plugins.timeout))
      throw Error(ErrorCode::kExhausted,
                  fmt::format("{} has not started its devices within {} s (--plugin-timeout)", file,
                              plugins.timeout));
  }
  return started.get();
}

/// What only a plugin's devices obey is not left out silently.
void check_cores(const PluginOptions& plugins, const std::string& cores) {
  if (plugins.network != "yes") return;
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("--plugin-network yes: --devices {} are the CPU's cores, not a plugin's, "
                          "which are named as cuda:2",
                          cores));
}

}  // namespace

DeviceChoice DeviceChoice::parse(const std::string& text) {
  if (text == "cpu") return parse("1");
  constexpr std::string_view kCpu = "cpu:";
  const bool is_cpu = text.starts_with(kCpu);
  if (is_cpu || text.empty() || std::isalpha(static_cast<unsigned char>(text.front())) == 0) {
    const std::string cores = is_cpu ? text.substr(kCpu.size()) : text;
    static_cast<void>(device::DeviceSet::count(cores));
    return {.cores = cores};
  }
  const std::size_t colon = text.find(':');
  DeviceChoice choice{.kind = text.substr(0, colon)};
  if (colon != std::string::npos)
    choice.numbers = numbers_of(text, std::string_view(text).substr(colon + 1));
  if (choice.kind == "xla-cpu" && colon == std::string::npos) choice.numbers = {0};
  return choice;
}

DeviceChoice DeviceChoice::parse(const std::string& accelerator, const std::string& devices) {
  DeviceChoice choice = parse(devices);
  const std::string word = plain_name(accelerator);
  if (word == "auto") return choice;
  const auto* const kind = std::ranges::find_if(kKinds, [&](const DeviceWord& one) {
    return plain_name(one.name) == word || (word == "gpu" && one.name == "cuda");
  });
  const std::string name(kind == kKinds.end() ? (word == "cpu" ? "" : accelerator) : kind->name);
  if (choice.kind == name) return choice;
  if (!choice.is_cores())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("--accelerator {} and --devices {}", printable(accelerator), devices));
  return parse(name + ":" + devices);
}

bool DeviceChoice::is_told_of_others(const PluginOptions& plugins) const {
  if (is_cores()) return false;
  if (plugins.network != "auto") return plugins.network == "yes";
  const DeviceWord* const known = find_kind(kind);
  return known != nullptr && known->is_told;
}

int DeviceChoice::count() const {
  if (is_cores()) return device::DeviceSet::count(cores);
  return std::max(1, static_cast<int>(numbers.size()));
}

void DeviceChoice::check(const PluginOptions& plugins) const {
  plugins.check();
  if (is_cores()) return check_cores(plugins, cores);
  if (!plugins.plugin.empty() || find_kind(kind) != nullptr) return;
  const std::vector<std::string> names = kind_names();
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("--devices {}: there are {}{}; any other with --plugin FILE",
                          printable(kind), fmt::join(names, ", "), did_you_mean(kind, names)));
}

RunDevices start_devices(const DeviceChoice& choice, const PluginOptions& plugins,
                         const device::DeviceSetOptions& cores, const CommandContext& context,
                         const device::pjrt::Network& network) {
  if (choice.is_cores()) return {.set = device::DeviceSet::parse(choice.cores, cores)};
  choice.check(plugins);
  pjrt::ClientOptions options{.devices = choice.numbers, .network = network, .log = context.log};
  ::setenv("TF_CPP_MIN_LOG_LEVEL", "1", 0);  // plugins' own notes; warnings stay
  if (choice.kind == "xla-cpu") options.cpu_devices = 1 + *std::ranges::max_element(choice.numbers);
  SharedClient client =
      start_client(plugin_for(choice, plugins, context), options, plugins, context);
  if (client->devices().empty())
    throw Error(ErrorCode::kNotFound, "the plugin for " + choice.kind + " has no devices here");
  return {.set = pjrt::pjrt_devices(client, choice.kind), .client = std::move(client)};
}

std::unique_ptr<trainer::Backend> RunDevices::make_backend(const trainer::hlo::Normalisation& bytes,
                                                           const Log& log) const {
  if (client == nullptr) return nullptr;
  return trainer::make_pjrt_backend(client, {.assignment = assignment,
                                             .store = trainer::default_program_store(),
                                             .bytes = bytes,
                                             .log = log});
}

}  // namespace millrace::tools
