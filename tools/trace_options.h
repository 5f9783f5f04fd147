// TraceFileOptions: --trace, of commands that can record what their threads do (io/base/trace.h).
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "io/base/log.h"
#include "io/base/topology.h"
#include "io/base/trace.h"
#include "io/opener.h"
#include "tools/command.h"

namespace CLI {
class App;
}

namespace millrace::trainer {
class Cluster;
}

namespace millrace::tools {

struct TraceFileOptions {
  std::string path = {};  ///< empty: none
  /// "100:120": from the beginning of the first step to the end of the last one; empty: all.
  std::string steps = {};
  bool layers = false;
  std::int64_t most_events = 1'000'000;

  /// `has_steps`: whether the command trains, so that there are steps and layers.
  void declare(CLI::App& app, bool has_steps);
  /// Throws: InvalidArgument; as check_output_file().
  void check() const;
  /// The name of this process's file: "t-1.json.gz" of process 1 of several, else `path`.
  std::string path_of(const Topology& topology) const;
  /// Null without a path.
  std::unique_ptr<Tracer> make() const;
  /// Warns if a run whose last step was `step` has taken none of those that were to be traced.
  void warn_if_not_reached(std::int64_t step, const Log& log) const;
};

/// Marks, in a trace, a moment at which all processes are here. A collective; `tracer` may be null,
/// on all processes alike.
void meet(trainer::Cluster& cluster, Tracer* tracer);

/// Writes this process's file and says so. Throws: as open_output_file().
void write_trace_file(Tracer& tracer, const TraceFileOptions& options, const io::Opener& opener,
                      const Topology& topology, const Log& log);

/// Does `work`, which is recorded in context.trace if there is to be a trace, and writes the file,
/// also if `work` throws: then what is wrong with the file is logged only.
template <typename Work>
void trace_work(const TraceFileOptions& options, const io::Opener& opener, const Topology& topology,
                CommandContext& context, const Work& work) {
  const auto tracer = options.make();
  context.trace = tracer.get();
  const auto write = [&] {
    context.trace = nullptr;
    if (tracer) write_trace_file(*tracer, options, opener, topology, context.log);
  };
  try {
    work();
  } catch (...) {
    try {
      write();
    } catch (const std::exception& error) {
      context.log.warn(std::string("no trace is written: ") + error.what());
    }
    throw;
  }
  write();
}

}  // namespace millrace::tools
