// RunWatch and JobWatch: --metrics-listen, by which a run, or a command that works through a set,
// answers whoever watches it (tools/metrics_answer.h).
//
//   RunWatch watch(options, topology, log);
//   const trainer::PrometheusMetrics::Watched watched(watch.metrics(), {.train = &train});
//   fit(input, options, {&watch.metrics()});
//
//   JobWatch watch(options, {.command = "reshard"}, log);
//   watch.metrics().at(samples);
//
// Threads: one at a time; its server has one of its own.
#pragma once

#include <string>

#include "io/base/log.h"
#include "io/base/topology.h"
#include "tools/job_metrics.h"
#include "tools/metrics_server.h"
#include "trainer/prometheus_metrics.h"

namespace CLI {
class App;
}

namespace millrace::tools {

/// --metrics-listen.
struct MetricsOptions {
  std::string listen = {};  ///< empty: no server

  void declare(CLI::App& app);
  /// Throws: InvalidArgument.
  void check() const;
  /// That of this process: those of one machine have the ports that follow.
  ListenAddress address(const Topology& topology) const;
};

class RunWatch {
 public:
  /// Listens, and says where. Throws: as MetricsServer.
  RunWatch(const MetricsOptions& options, const Topology& topology, const Log& log);

  trainer::PrometheusMetrics& metrics() { return metrics_; }

 private:
  trainer::PrometheusMetrics metrics_;
  MetricsServer server_;
};

class JobWatch {
 public:
  /// Listens, and says where. Throws: as MetricsServer.
  JobWatch(const MetricsOptions& options, const WatchedJob& job, const Log& log);

  JobMetrics& metrics() { return metrics_; }

 private:
  JobMetrics metrics_;
  MetricsServer server_;
};

}  // namespace millrace::tools
