#include "tools/metrics_answer.h"

#include "tools/parse.h"

namespace millrace::tools {
namespace {

MetricsPage health_page(const MetricsPages& pages, const std::string& within) {
  const std::int64_t limit = number_or_zero(within);
  if (!within.empty() && limit <= 0)
    return {.status = 400, .text = "within: a whole number of seconds\n"};
  const bool stalls = limit > 0 && pages.seconds_since_progress() > static_cast<double>(limit);
  return {
      .status = stalls ? 503U : 200U, .type = "application/json", .text = pages.health() + "\n"};
}

}  // namespace

MetricsPage answer(const MetricsPages& pages, const MetricsRequest& request) {
  if (request.path == "/metrics")
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .text = pages.metrics()};
  if (request.path == "/healthz") return health_page(pages, request.within);
  return {.status = request.path == "/" ? 200U : 404U, .text = "/metrics\n/healthz\n"};
}

}  // namespace millrace::tools
