#include "tools/metrics_watch.h"

#include <fmt/format.h>

#include <CLI/App.hpp>

#include "io/base/error.h"
#include "tools/metrics_answer.h"
#include "tools/option_settings.h"

namespace millrace::tools {
namespace {

template <typename Metrics>
MetricsServer::Answer answers(const Metrics& metrics) {
  return
      [pages = pages_of(metrics)](const MetricsRequest& request) { return answer(pages, request); };
}

void say_where(const MetricsServer& server, const Log& log) {
  const ListenAddress& at = server.address();
  log.info(fmt::format("metrics for Prometheus at http://{}/metrics{}", at.text(),
                       at.is_loopback() ? "" : ", for whoever reaches this machine"));
}

}  // namespace

void MetricsOptions::declare(CLI::App& app) {
  app.add_option(
         "--metrics-listen", listen,
         "Serve this address over HTTP: /metrics for Prometheus, /healthz for probes; a port "
         "alone is one of 127.0.0.1; 0.0.0.0:9400 can be reached from other machines")
      ->type_name("ADDRESS:PORT")
      ->check(of_this_start());
}

void MetricsOptions::check() const {
  try {
    if (!listen.empty()) static_cast<void>(parse_listen_address(listen));
  } catch (const Error& error) {
    throw Error(error.code(), "--metrics-listen: " + error.message());
  }
}

ListenAddress MetricsOptions::address(const Topology& topology) const {
  ListenAddress address = parse_listen_address(listen);
  if (address.port == 0) return address;
  const int port = address.port + topology.node_process;
  require(port <= 65'535, fmt::format("--metrics-listen {}: process {} of this machine has no port",
                                      listen, topology.node_process));
  address.port = static_cast<std::uint16_t>(port);
  return address;
}

RunWatch::RunWatch(const MetricsOptions& options, const Topology& topology, const Log& log)
    : metrics_(MILLRACE_VERSION), server_(options.address(topology), answers(metrics_)) {
  say_where(server_, log);
}

JobWatch::JobWatch(const MetricsOptions& options, const WatchedJob& job, const Log& log)
    : metrics_(job), server_(options.address(job.topology), answers(metrics_)) {
  say_where(server_, log);
}

}  // namespace millrace::tools
