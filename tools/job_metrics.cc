#include "tools/job_metrics.h"

#include <fmt/format.h>

#include <chrono>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "io/base/machine.h"

namespace millrace::tools {
namespace {

/// Single values in Prometheus' text format.
class Values {
 public:
  template <typename Number>
  void gauge(std::string_view name, std::string_view help, Number value) {
    add(name, "gauge", help, static_cast<double>(value));
  }
  template <typename Number>
  void counter(std::string_view name, std::string_view help, Number value) {
    add(name, "counter", help, static_cast<double>(value));
  }
  const std::string& text() const { return text_; }

 private:
  void add(std::string_view name, std::string_view type, std::string_view help, double value) {
    text_ += fmt::format("# HELP {0} {2}\n# TYPE {0} {1}\n{0} {3}\n", name, type, help, value);
  }

  std::string text_;
};

double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

JobMetrics::JobMetrics(WatchedJob job, const Clock& clock)
    : job_(std::move(job)),
      clock_(clock),
      wall_start_(seconds_since_1970()),
      progress_(clock.now()) {}

void JobMetrics::expect(std::uint64_t samples) {
  MutexLock lock(mutex_);
  expected_ = samples;
}

void JobMetrics::at(std::uint64_t samples) {
  MutexLock lock(mutex_);
  samples_ = samples;
  progressed();
}

void JobMetrics::skipped(std::uint64_t samples) {
  MutexLock lock(mutex_);
  if (std::exchange(skipped_, samples) != samples) progressed();
}

void JobMetrics::read(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  read_bytes_ += bytes;
  progressed();
}

void JobMetrics::add_shard(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  ++shards_;
  bytes_ += bytes;
  progressed();
}

double JobMetrics::idle_seconds() const {
  return std::chrono::duration<double>(clock_.now() - progress_).count();
}

double JobMetrics::seconds_since_progress() const {
  MutexLock lock(mutex_);
  return idle_seconds();
}

std::string JobMetrics::health() const {
  MutexLock lock(mutex_);
  return nlohmann::ordered_json{{"command", job_.command},
                                {"samples", samples_},
                                {"expected", expected_},
                                {"seconds_since_progress", idle_seconds()}}
      .dump();
}

std::string JobMetrics::text() const {
  Values page;
  page.gauge("millrace_process", "Number of this process", job_.topology.process);
  page.gauge("millrace_processes", "Processes of the run", job_.topology.processes);
  page.gauge("process_resident_memory_bytes", "Resident memory", resident_memory());
  page.gauge("process_start_time_seconds", "Begin of the command, since 1970", wall_start_);
  if (job_.network) {
    const trainer::NetworkState network = job_.network();
    page.counter("millrace_network_retries_total", "Tries that were repeated", network.retries);
    page.counter("millrace_network_retry_wait_seconds_total",
                 "Time between tries, summed over readers", network.waited);
  }
  MutexLock lock(mutex_);
  page.counter("millrace_job_samples_total", "Samples done", samples_);
  page.gauge("millrace_job_expected_samples", "Samples to be done in all; 0: unknown", expected_);
  page.counter("millrace_job_skipped_samples_total", "Samples that the fault policy has skipped",
               skipped_);
  page.counter("millrace_job_read_bytes_total", "Bytes of the input that were read", read_bytes_);
  page.counter("millrace_job_shards_total", "Shards written", shards_);
  page.counter("millrace_job_written_bytes_total", "Bytes of these shards", bytes_);
  page.gauge("millrace_seconds_since_progress", "Since something was read or done", idle_seconds());
  return page.text();
}

}  // namespace millrace::tools
