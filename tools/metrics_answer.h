// What a run or a job answers whoever watches it: /metrics, for Prometheus, and /healthz, for
// probes.
//
// Threads: any.
#pragma once

#include <functional>
#include <string>

#include "tools/metrics_server.h"

namespace millrace::tools {

/// What is asked, of a run or a job.
struct MetricsPages {
  std::function<std::string()> metrics;
  std::function<std::string()> health;
  std::function<double()> seconds_since_progress;
};

/// Of PrometheusMetrics and JobMetrics, borrowed.
template <typename Metrics>
MetricsPages pages_of(const Metrics& metrics) {
  return {[&] { return metrics.text(); }, [&] { return metrics.health(); },
          [&] { return metrics.seconds_since_progress(); }};
}

/// The page that a request is answered with. /healthz?within=600 is 503 where there has been no
/// progress for more than 600 s; without `within` it is 200 as long as there is a run.
MetricsPage answer(const MetricsPages& pages, const MetricsRequest& request);

}  // namespace millrace::tools
