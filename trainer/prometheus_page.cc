#include "trainer/prometheus_page.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>

#include "io/base/machine.h"
#include "io/base/text.h"

namespace millrace::trainer {
namespace {

/// A label's value: \, " and line breaks escaped. Names come from files, and need not be UTF-8.
std::string label_value(std::string_view text) {
  constexpr std::size_t kMostBytes = 200;
  std::string value;
  for (const char c : printable(text, kMostBytes)) {
    if (c == '\\' || c == '"') value += '\\';
    value += c;
  }
  return value;
}

/// As Prometheus writes numbers.
std::string number_text(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

PrometheusPage& PrometheusPage::value(double number, Labels labels) {
  std::string inside;
  for (const auto& [label, text] : labels)
    inside += fmt::format("{}{}=\"{}\"", inside.empty() ? "" : ",", label, label_value(text));
  text_ +=
      name_ + (inside.empty() ? inside : "{" + inside + "}") + " " + number_text(number) + "\n";
  return *this;
}

void PrometheusPage::add_process(const Topology& topology, double start) {
  gauge("millrace_process", "Number of this process").value(topology.process);
  gauge("millrace_processes", "Processes of the run").value(topology.processes);
  gauge("process_resident_memory_bytes", "Resident memory").value(resident_memory());
  gauge("process_start_time_seconds", "Begin of the command, since 1970").value(start);
}

void PrometheusPage::add_network(const NetworkState& network) {
  counter("millrace_network_retries_total", "Tries that were repeated").value(network.retries);
  counter("millrace_network_retry_wait_seconds_total", "Time between tries, summed over readers")
      .value(network.waited);
}

PrometheusPage& PrometheusPage::metric(std::string_view name, std::string_view type,
                                       std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
  return *this;
}

}  // namespace millrace::trainer
