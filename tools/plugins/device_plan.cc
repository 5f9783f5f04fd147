#include "tools/plugins/device_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/base/wrap.h"
#include "io/opener.h"
#include "tools/progress.h"

namespace millrace::tools {
namespace {

namespace pjrt = device::pjrt;
using Json = nlohmann::ordered_json;

constexpr double kBillion = 1e9;
constexpr std::size_t kMostProgram = std::size_t{256} << 20;

// What the compiler says, and how long it took.
Json compile(const DevicePlanRequest& request, const Accelerator& accelerator) {
  // Without these libtpu waits for minutes for what only a TPU's machine has.
  ::setenv("TPU_SKIP_MDS_QUERY", "1", 0);
  ::setenv("TPU_WORKER_HOSTNAMES", "localhost", 0);
  const io::Bytes program = io::read_object(io::UrlOpener(), request.program, kMostProgram);
  const pjrt::Plugin plugin(request.plugins.plugin);
  const pjrt::Topology topology(plugin, accelerator.topology);
  pjrt::CompileOptions options = accelerator.compile;
  options.replicas = static_cast<int>(topology.devices().size());
  const auto start = std::chrono::steady_clock::now();
  const pjrt::ProgramCost cost = topology.compile(program.text(), options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  Json json{{"device", request.device},
            {"devices", topology.devices().size()},
            {"kind", topology.devices().empty() ? "" : topology.devices()[0].kind},
            {"compile_s", took.count()},
            {"argument_bytes", cost.argument_bytes},
            {"result_bytes", cost.result_bytes},
            {"aliased_bytes", cost.aliased_bytes},
            {"temporary_bytes", cost.temporary_bytes},
            {"memory_bytes", cost.memory_bytes()},
            {"device_memory_bytes", accelerator.memory_bytes},
            {"fits", static_cast<double>(cost.memory_bytes()) <= accelerator.memory_bytes}};
  if (cost.flops) {
    json["flops"] = *cost.flops;
    json["compute_s"] = *cost.flops / accelerator.flops_per_s;
  }
  if (cost.bytes_accessed) {
    json["bytes_accessed"] = *cost.bytes_accessed;
    json["memory_s"] = *cost.bytes_accessed / accelerator.bytes_per_s;
  }
  return json;
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

// By a process of its own.
Json compile_apart(const DevicePlanRequest& request, const Accelerator& accelerator,
                   Context& context) {
  const auto places = request.plugins.find(context);
  const auto place = std::ranges::find_if(places, [&](const pjrt::PluginPlace& each) {
    return each.name.find(accelerator.plugin) != std::string::npos;
  });
  if (place == places.end())
    throw Error(ErrorCode::kNotFound,
                fmt::format("no plugin compiles for {}: pip install {}, or name it with --plugin",
                            request.device, accelerator.pip));
  show_status(context.terminal, fmt::format("compiling for {} ({}), up to {} s", request.device,
                                            place->name, request.plugins.timeout));
  Json plan = request.plugins.ask_own({"plan", "--json", "--device", request.device, "--program",
                                       request.program, "--plugin", place->file},
                                      context);
  show_status(context.terminal, "");
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

void print_time(const Json& plan, const Accelerator& accelerator, std::int64_t batch_size,
                Output& out) {
  if (!plan.contains("flops") || !plan.contains("bytes_accessed"))
    return print_line("time:", "the compiler does not say what a step computes", out);
  const double compute = plan.at("compute_s").get<double>();
  const double memory = plan.at("memory_s").get<double>();
  const double least = std::max(compute, memory);
  print_line(
      "work:",
      fmt::format("{:.1f} GFLOP and {} of memory in each step and device",
                  plan.at("flops").get<double>() / kBillion, gigabytes(plan, "bytes_accessed")),
      out);
  print_line("time:",
             fmt::format("{} or more: products {} at {:.0f} TFLOP/s, memory {} at {:.0f} GB/s, "
                         "without the devices' sums",
                         ms(least), ms(compute), accelerator.flops_per_s / 1e12, ms(memory),
                         accelerator.bytes_per_s / kBillion),
             out);
  if (batch_size == 0 || least <= 0) return;
  const double rate = static_cast<double>(batch_size) / least;
  print_line("input:",
             fmt::format("{:.0f} samples/s for each device at most, {:.0f} for all {}; `millrace "
                         "bench SPEC` says what this machine's shards deliver",
                         rate, rate * accelerator.devices, accelerator.devices),
             out);
}

void print(const Json& plan, const DevicePlanRequest& request, const Accelerator& accelerator,
           Output& out) {
  print_line("device:",
             fmt::format("{} x {}, compiled in {:.1f} s", plan.at("devices").get<std::uint64_t>(),
                         printable(plan.at("kind").get<std::string>()),
                         plan.at("compile_s").get<double>()),
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
  print_time(plan, accelerator, request.batch_size, out);
}

}  // namespace

void plan_device(const DevicePlanRequest& request, Context& context) {
  const Accelerator accelerator = accelerator_of(request.device);
  const bool here = !request.plugins.plugin.empty();
  const Json plan =
      here ? compile_or_fault(request, accelerator) : compile_apart(request, accelerator, context);
  if (context.json) context.out.line(plan.dump());
  // Its own process is asked by a line alone.
  if (here && context.json) return;
  if (plan.contains("error"))
    throw Error(ErrorCode::kUnsupported,
                fmt::format("{}: {}", request.device, plan.at("error").get<std::string>()));
  if (!context.json) print(plan, request, accelerator, context.out);
}

}  // namespace millrace::tools
