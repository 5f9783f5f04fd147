// What a run answers whoever watches it: /metrics, for Prometheus, and /healthz, for probes.
//
// Threads: any.
#pragma once

#include "tools/metrics_server.h"
#include "trainer/prometheus_metrics.h"

namespace millrace::tools {

/// The page that a request is answered with. /healthz?within=600 is 503 where the run has made no
/// progress for more than 600 s; without `within` it is 200 as long as there is a run.
MetricsPage answer(const trainer::PrometheusMetrics& metrics, const MetricsRequest& request);

}  // namespace millrace::tools
