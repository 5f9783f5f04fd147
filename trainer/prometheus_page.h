// PrometheusPage: metrics in Prometheus' text format, each followed by its values, and those that
// every command has.
//
//   PrometheusPage page;
//   page.add_process(topology, start);
//   page.gauge("millrace_epoch", "Epoch, from 1").value(3);
//   page.counter("millrace_faults_total", "Samples lost").value(2, {{"fault", "truncated"}});
//   serve(page.take());
//
// Threads: one at a time.
#pragma once

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/base/topology.h"
#include "trainer/prometheus_metrics.h"

namespace millrace::trainer {

inline double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

class PrometheusPage {
 public:
  using Labels = std::initializer_list<std::pair<std::string_view, std::string_view>>;

  PrometheusPage& gauge(std::string_view name, std::string_view help) {
    return metric(name, "gauge", help);
  }
  PrometheusPage& counter(std::string_view name, std::string_view help) {
    return metric(name, "counter", help);
  }
  /// Of the metric before.
  PrometheusPage& value(double number, Labels labels = {}) {
    std::string inside;
    for (const auto& [label, text] : labels)
      inside += fmt::format("{}{}=\"{}\"", inside.empty() ? "" : ",", label, label_value(text));
    text_ +=
        name_ + (inside.empty() ? inside : "{" + inside + "}") + " " + number_text(number) + "\n";
    return *this;
  }
  template <typename Integer>
  requires std::integral<Integer> PrometheusPage& value(Integer number, Labels labels = {}) {
    return value(static_cast<double>(number), labels);
  }

  /// `start`: seconds_since_1970() when the command began.
  void add_process(const Topology& topology, double start) {
    gauge("millrace_process", "Number of this process").value(topology.process);
    gauge("millrace_processes", "Processes of the run").value(topology.processes);
    gauge("process_resident_memory_bytes", "Resident memory").value(resident_memory());
    gauge("process_start_time_seconds", "Begin of the command, since 1970").value(start);
  }
  void add_network(const NetworkState& network) {
    counter("millrace_network_retries_total", "Tries that were repeated").value(network.retries);
    counter("millrace_network_retry_wait_seconds_total", "Time between tries, summed over readers")
        .value(network.waited);
  }

  std::string take() { return std::move(text_); }

 private:
  /// \, " and line breaks are escaped. Names come from files, and need not be UTF-8.
  static std::string label_value(std::string_view text) {
    constexpr std::size_t kMostBytes = 200;
    std::string value;
    for (const char c : printable(text, kMostBytes)) {
      if (c == '\\' || c == '"') value += '\\';
      value += c;
    }
    return value;
  }

  static std::string number_text(double value) {
    if (std::isnan(value)) return "NaN";
    if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
    return fmt::format("{}", value);
  }

  PrometheusPage& metric(std::string_view name, std::string_view type, std::string_view help) {
    name_ = name;
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n", name, type, help);
    return *this;
  }

  std::string name_;
  std::string text_;
};

}  // namespace millrace::trainer
