#include "tools/metrics_answer.h"

#include "io/base/text.h"
#include "tools/parse.h"

namespace millrace::tools {
namespace {

MetricsPage health_page(const MetricsPages& pages, const MetricsRequest& request) {
  if (!request.unknown.empty())
    return {.status = 400,
            .text = "no parameter " + printable(request.unknown) + ": there is within=SECONDS\n"};
  const std::int64_t limit = number_or_zero(request.within.value_or(""));
  if (request.within && limit <= 0)
    return {.status = 400, .text = "within: a whole number of seconds\n"};
  const bool stalls = limit > 0 && pages.seconds_since_progress() > static_cast<double>(limit);
  return {
      .status = stalls ? 503U : 200U, .type = "application/json", .text = pages.health() + "\n"};
}

}  // namespace

MetricsPage answer(const MetricsPages& pages, const MetricsRequest& request) {
  if (request.path == "/metrics")
    return {.type = "text/plain; version=0.0.4; charset=utf-8", .text = pages.metrics()};
  if (request.path == "/healthz") return health_page(pages, request);
  return {.status = request.path == "/" ? 200U : 404U, .text = "/metrics\n/healthz\n"};
}

}  // namespace millrace::tools
