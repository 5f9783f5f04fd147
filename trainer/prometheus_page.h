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

#include <concepts>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/topology.h"
#include "trainer/prometheus_metrics.h"

namespace millrace::trainer {

double seconds_since_1970();

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
  PrometheusPage& value(double number, Labels labels = {});
  template <typename Integer>
  requires std::integral<Integer> PrometheusPage& value(Integer number, Labels labels = {}) {
    return value(static_cast<double>(number), labels);
  }

  /// `start`: seconds_since_1970() when the command began.
  void add_process(const Topology& topology, double start);
  void add_network(const NetworkState& network);

  std::string take() { return std::move(text_); }

 private:
  PrometheusPage& metric(std::string_view name, std::string_view type, std::string_view help);

  std::string name_;
  std::string text_;
};

}  // namespace millrace::trainer
