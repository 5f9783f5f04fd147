#include "tools/trace_options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/gzip_sink.h"
#include "io/trace_file.h"
#include "tools/help.h"
#include "tools/option_settings.h"
#include "tools/output_path.h"
#include "tools/output_place.h"
#include "tools/parse.h"
#include "tools/values.h"
#include "trainer/cluster.h"

namespace millrace::tools {
namespace {

/// "100:120", "100:" or ":120".
std::pair<std::int64_t, std::int64_t> parse_steps(const std::string& text) {
  const std::size_t colon = text.find(':');
  const auto check = [&](bool holds) {
    require(holds,
            "--trace-steps: " + printable(text) + " is not FIRST:LAST, from 1 on, as in 100:120");
  };
  const auto number = [&](const std::string& part, std::int64_t otherwise) {
    if (part.empty()) return otherwise;
    const std::int64_t value = number_or_zero(part);
    check(value > 0);
    return value;
  };
  check(colon != std::string::npos && text.size() > 1);
  const std::int64_t first = number(text.substr(0, colon), 1);
  const std::int64_t last = number(text.substr(colon + 1), 0);
  require(last == 0 || last >= first, "--trace-steps: the last step is before the first one");
  return {first, last};
}

}  // namespace

void TraceFileOptions::declare(CLI::App& app, bool has_steps) {
  app.add_option("--trace", path,
                 "Write what each thread and device does, and how full the queues are, to this "
                 "file, for ui.perfetto.dev or chrome://tracing; packed if its name ends in .gz")
      ->type_name("FILE")
      ->transform(output_path())
      ->check(of_this_start());
  app.add_option("--trace-events", most_events,
                 "The most spans and counters that are kept, of about 150 bytes each")
      ->transform(whole_number(1, 100'000'000))
      ->check(of_this_start());
  if (!has_steps) return;
  app.add_option("--trace-steps", steps,
                 "Trace only these steps, counted over the run from 1: 100:120")
      ->type_name("FIRST:LAST")
      ->check(of_this_start());
  app.add_flag("--trace-layers", layers,
               "Time each layer, too, which costs some of the step's time")
      ->check(of_this_start());
}

void TraceFileOptions::check() const {
  require(!path.empty() || (steps.empty() && !layers),
          "--trace-steps and --trace-layers belong to --trace");
  if (!steps.empty()) static_cast<void>(parse_steps(steps));
  if (!path.empty()) check_output_file(path, io::Replace::kAtomically);
}

std::string TraceFileOptions::path_of(const Topology& topology) const {
  if (topology.processes == 1) return path;
  const std::size_t name = path.rfind('/') == std::string::npos ? 0 : path.rfind('/') + 1;
  const std::size_t dot = std::min(path.find('.', name + 1), path.size());
  return fmt::format("{}-{}{}", path.substr(0, dot), topology.process, path.substr(dot));
}

std::unique_ptr<Tracer> TraceFileOptions::make() const {
  if (path.empty()) return nullptr;
  TraceOptions options{.max_events = static_cast<std::size_t>(most_events), .layers = layers};
  if (!steps.empty()) std::tie(options.first_step, options.last_step) = parse_steps(steps);
  return std::make_unique<Tracer>(options);
}

void TraceFileOptions::warn_if_not_reached(std::int64_t step, const Log& log) const {
  if (steps.empty() || parse_steps(steps).first <= step) return;
  log.warn(fmt::format("--trace-steps {}: the run ended after step {}, so the trace is empty",
                       printable(steps), step));
}

// The meeting's name is the same for all, and of this run alone.
void meet(trainer::Cluster& cluster, Tracer* tracer) {
  if (tracer == nullptr || cluster.topology().processes == 1) return;
  std::string name = trainer::decide(cluster, [] {
    return std::to_string(std::chrono::system_clock::now().time_since_epoch().count());
  });
  trainer::all_do(cluster, [] {});
  tracer->meet(std::move(name));
}

void write_trace_file(Tracer& tracer, const TraceFileOptions& options, const io::Opener& opener,
                      const Topology& topology, const Log& log) {
  const std::string path = options.path_of(topology);
  auto sink = open_output_file(opener, path, io::Replace::kAtomically);
  if (io::has_gzip_name(path)) sink = io::gzip_sink(std::move(sink));
  const std::size_t left_out = io::write_trace(
      tracer, {.process = topology.process, .processes = topology.processes}, *sink);
  const std::string place = io::printable_url(path);
  log.info(fmt::format("{}: {:.1f} MB of trace, for ui.perfetto.dev", place,
                       1e-6 * static_cast<double>(sink->position())));
  if (left_out > 0)
    log.warn(fmt::format("{}: {} events of the end are left out: --trace-events is {}", place,
                         left_out, options.most_events));
}

}  // namespace millrace::tools
