#include "tools/plugins/device_plan.h"

#include <fmt/format.h>
#include <stdlib.h>  // for mkdtemp

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/base/wrap.h"
#include "io/byte_sink.h"
#include "tools/progress.h"

namespace millrace::tools {
namespace {

namespace pjrt = device::pjrt;
namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr double kBillion = 1e9;

// What the compiler says, and how long it took.
Json compile(const DevicePlanRequest& request, const Accelerator& accelerator) {
  // Without these libtpu waits for minutes for what only a TPU's machine has.
  ::setenv("TPU_SKIP_MDS_QUERY", "1", 0);
  ::setenv("TPU_WORKER_HOSTNAMES", "localhost", 0);
  const pjrt::Plugin plugin(request.plugins.plugin);
  const pjrt::Topology topology(plugin, accelerator.topology);
  pjrt::CompileOptions options = accelerator.compile;
  options.replicas = static_cast<int>(topology.devices().size());
  const auto start = std::chrono::steady_clock::now();
  const pjrt::ProgramCost cost = topology.compile(request.program, options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Json json{{"device", request.device},
            {"devices", topology.devices().size()},
            {"kind", topology.devices().empty() ? "" : topology.devices()[0].kind},
            {"compile_s", took.count()},
            {"argument_bytes", cost.argument_bytes},
            {"result_bytes", cost.result_bytes},
            {"aliased_bytes", cost.aliased_bytes},
            {"temporary_bytes", cost.temporary_bytes},
            {"memory_bytes", cost.memory_bytes()}};
  if (cost.flops) json["flops"] = *cost.flops;
  if (cost.bytes_accessed) json["bytes_accessed"] = *cost.bytes_accessed;
  return json;
}

// What that means on the device.
void add_limits(Json& plan, const Accelerator& accelerator, const DevicePlanRequest& request) {
  plan["device_memory_bytes"] = accelerator.memory_bytes;
  plan["fits"] = plan.at("memory_bytes").get<double>() <= accelerator.memory_bytes;
  if (!plan.contains("flops") || !plan.contains("bytes_accessed")) return;
  const double compute = plan.at("flops").get<double>() / accelerator.flops_per_s;
  const double memory = plan.at("bytes_accessed").get<double>() / accelerator.bytes_per_s;
  const double least = std::max(compute, memory);
  plan["compute_s"] = compute;
  plan["memory_s"] = memory;
  plan["step_s"] = least;
  if (request.batch_size == 0 || least <= 0) return;
  const double rate = static_cast<double>(request.batch_size) / least * accelerator.devices;
  plan["samples_per_s"] = rate;
  if (request.input_rate > 0) plan["input_share"] = request.input_rate / rate;
}

Json compile_or_fault(const DevicePlanRequest& request, const Accelerator& accelerator) {
  try {
    return compile(request, accelerator);
  } catch (const Error& error) {
    return Json{{"device", request.device},
                {"error", error.message()},
                {"code", error_code_name(error.code())}};
  }
}

void write_file(const std::string& path, const std::string& text, io::Replace replace) {
  const auto sink = io::open_file_sink(path, {.replace = replace});
  sink->write(std::as_bytes(std::span(text)));
  sink->finish();
}

// Goes with all that is in it.
class ScratchFolder {
 public:
  ScratchFolder() : path_((fs::temp_directory_path() / "millrace-plan-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr)
      throw Error(ErrorCode::kIo, "cannot create " + path_ + " for the step's program");
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// What a plugin's compiler has said of a program. A file that is damaged, or cannot be written, is
// as good as none.
class PlanStore {
 public:
  PlanStore(const DevicePlanRequest& request, const std::string& plugin) {
    const std::string folder = cache_folder("plans");
    std::error_code fault;
    const auto bytes = fs::file_size(plugin, fault);
    if (folder.empty() || fault) return;
    const auto written = fs::last_write_time(plugin, fault).time_since_epoch().count();
    Sha256 hash;
    for (const std::string& text :
         {request.program, request.device, plugin, fmt::format("{} {}", bytes, written)}) {
      hash.update(std::as_bytes(std::span(text)));
      hash.update(std::as_bytes(std::span("\0", 1)));
    }
    path_ = folder + "/" + hash.hex() + ".json";
  }

  std::optional<Json> find() const {
    std::ifstream file(path_, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    if (text.empty()) return std::nullopt;
    try {
      Json plan = parse_json<Json>(text, path_);
      for (const char* key : {"devices", "kind", "compile_s", "argument_bytes", "result_bytes",
                              "aliased_bytes", "temporary_bytes", "memory_bytes"})
        static_cast<void>(plan.at(key));
      plan["kept"] = true;
      return plan;
    } catch (const std::exception&) {
      return std::nullopt;
    }
  }

  void keep(const Json& plan) const {
    if (path_.empty()) return;
    try {
      fs::create_directories(fs::path(path_).parent_path());
      write_file(path_, plan.dump(1) + "\n", io::Replace::kAtomically);
    } catch (const std::exception&) {  // a full disk: the next time compiles again
    }
  }

 private:
  std::string path_;
};

// By a process of its own.
Json compile_apart(const DevicePlanRequest& request, const Accelerator& accelerator,
                   CommandContext& context) {
  const auto places = request.plugins.find(context);
  const auto place = std::ranges::find_if(places, [&](const pjrt::PluginPlace& each) {
    return each.name.find(accelerator.plugin) != std::string::npos;
  });
  if (place == places.end())
    throw Error(ErrorCode::kNotFound,
                fmt::format("no plugin compiles for {}: pip install {}, or name it with --plugin",
                            request.device, accelerator.pip));
  const PlanStore store(request, place->file);
  if (std::optional<Json> kept = store.find()) return *std::move(kept);
  show_status(context.terminal, fmt::format("compiling for {} ({}), up to {} s", request.device,
                                            place->name, request.plugins.timeout));
  const ScratchFolder scratch;
  const std::string program = scratch.path() + "/step.mlir";
  write_file(program, request.program, io::Replace::kNever);
  Json plan = request.plugins.ask_own(
      {"plan", "--json", "--device", request.device, "--program", program, "--plugin", place->file},
      context);
  show_status(context.terminal, "");
  if (!plan.contains("error")) store.keep(plan);
  return plan;
}

std::string gigabytes(const Json& plan, const char* key) {
  return fmt::format("{:.2f} GB", plan.at(key).get<double>() / kBillion);
}

// 12.3 ms.
std::string ms(double seconds) { return fmt::format("{:.2f} ms", seconds * 1e3); }

void print_line(std::string_view label, const std::string& text, Output& out) {
  constexpr std::size_t kColumn = 9;
  out.line(fmt::format("{:<{}}{}", label, kColumn, wrapped(text, kColumn, kColumn)));
}

// "they wait for a machine that delivers 1900: 0.02 of that, as 48 such machines would".
std::string input_verdict(double share, double rate) {
  if (share >= 1)
    return fmt::format("this machine's {:.0f} are enough, {:.1f} times that", rate, share);
  return fmt::format(
      "this machine's {:.0f} are {:.2g} of that: devices may wait, and {:.0f} such "
      "machines would do",
      rate, share, std::ceil(1 / share));
}

void print_input(const Json& plan, const Accelerator& accelerator, double input_rate, Output& out) {
  if (!plan.contains("samples_per_s")) return;
  const double rate = plan.at("samples_per_s").get<double>();
  const std::string verdict =
      plan.contains("input_share")
          ? input_verdict(plan.at("input_share").get<double>(), input_rate)
          : "`millrace bench SPEC` says what this machine's shards deliver (--input-rate)";
  print_line("input:",
             fmt::format("{:.0f} samples/s for each device at most, {:.0f} for all {}; {}",
                         rate / accelerator.devices, rate, accelerator.devices, verdict),
             out);
}

void print_time(const Json& plan, const Accelerator& accelerator, Output& out) {
  if (!plan.contains("step_s"))
    return print_line("time:", "the compiler does not say what a step computes", out);
  print_line(
      "work:",
      fmt::format("{:.1f} GFLOP and {} of memory in each step and device",
                  plan.at("flops").get<double>() / kBillion, gigabytes(plan, "bytes_accessed")),
      out);
  print_line("time:",
             fmt::format("{} or more: products {} at {:.0f} TFLOP/s, memory {} at {:.0f} GB/s, "
                         "without the devices' sums",
                         ms(plan.at("step_s").get<double>()),
                         ms(plan.at("compute_s").get<double>()), accelerator.flops_per_s / 1e12,
                         ms(plan.at("memory_s").get<double>()), accelerator.bytes_per_s / kBillion),
             out);
}

void print(const Json& plan, const DevicePlanRequest& request, const Accelerator& accelerator,
           Output& out) {
  print_line(
      "device:",
      fmt::format("{} x {}, compiled {}in {:.1f} s", plan.at("devices").get<std::uint64_t>(),
                  printable(plan.at("kind").get<std::string>()),
                  plan.contains("kept") ? "before, " : "", plan.at("compile_s").get<double>()),
      out);
  const double own = plan.at("result_bytes").get<double>() - plan.at("aliased_bytes").get<double>();
  print_line(
      "memory:",
      fmt::format("{} of {}: {}. {} of arguments, {} of temporaries, {:.2f} GB of results of "
                  "their own",
                  gigabytes(plan, "memory_bytes"), gigabytes(plan, "device_memory_bytes"),
                  plan.at("fits").get<bool>() ? "it fits" : "IT DOES NOT FIT",
                  gigabytes(plan, "argument_bytes"), gigabytes(plan, "temporary_bytes"),
                  own / kBillion),
      out);
  print_time(plan, accelerator, out);
  print_input(plan, accelerator, request.input_rate, out);
}

}  // namespace

void plan_device(const DevicePlanRequest& request, CommandContext& context) {
  const Accelerator accelerator = accelerator_of(request.device);
  const bool here = !request.plugins.plugin.empty();
  Json plan =
      here ? compile_or_fault(request, accelerator) : compile_apart(request, accelerator, context);
  if (!plan.contains("error")) add_limits(plan, accelerator, request);
  if (context.json) context.out.line(plan.dump());
  // Its own process is asked by a line alone.
  if (here && context.json) return;
  if (plan.contains("error"))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: {}", request.device, plan.at("error").get<std::string>()));
  if (!context.json) print(plan, request, accelerator, context.out);
}

}  // namespace millrace::tools
