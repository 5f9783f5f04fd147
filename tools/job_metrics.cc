#include "tools/job_metrics.h"

#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "trainer/prometheus_page.h"

namespace millrace::tools {

JobMetrics::JobMetrics(WatchedJob job, const Clock& clock)
    : job_(std::move(job)),
      clock_(clock),
      wall_start_(trainer::seconds_since_1970()),
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
  trainer::PrometheusPage page;
  page.add_process(job_.topology, wall_start_);
  if (job_.network) page.add_network(job_.network());
  MutexLock lock(mutex_);
  page.counter("millrace_job_samples_total", "Samples done").value(samples_);
  page.gauge("millrace_job_expected_samples", "Samples to be done in all; 0: unknown")
      .value(expected_);
  page.counter("millrace_job_skipped_samples_total", "Samples that the fault policy has skipped")
      .value(skipped_);
  page.counter("millrace_job_read_bytes_total", "Bytes of the input that were read")
      .value(read_bytes_);
  page.counter("millrace_job_shards_total", "Shards written").value(shards_);
  page.counter("millrace_job_written_bytes_total", "Bytes of these shards").value(bytes_);
  page.gauge("millrace_seconds_since_progress", "Since something was read or done")
      .value(idle_seconds());
  return page.take();
}

}  // namespace millrace::tools
