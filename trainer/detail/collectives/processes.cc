#include "trainer/detail/collectives/processes.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <span>
#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "trainer/detail/collectives/process_messages.h"

namespace millrace::trainer::detail {

std::string reason_of(const std::exception_ptr& error, const Topology& topology) noexcept {
  const auto with_process = [&](const char* what) {
    if (topology.processes == 1) return std::string(what);
    return "process " + std::to_string(topology.process) + " failed: " + what;
  };
  return with_process(fault_text(error).c_str());
}

Processes::Processes(Cluster* given, int devices)
    : own_(given == nullptr ? make_local_cluster(devices) : nullptr),
      cluster_(given == nullptr ? *own_ : *given) {
  guard([&] {
    require(cluster_.topology().devices == devices,
            "the cluster has " + std::to_string(cluster_.topology().devices) +
                " devices per process, this process has " + std::to_string(devices));
  });
}

std::string Processes::decide(const std::function<std::string()>& decision) {
  Told told = tell_decision(cluster_, decision);
  if (told.failure) throw_alike(told.failure);
  return std::move(told.text);
}

void Processes::first_does(const std::function<void()>& work) {
  decide([&] {
    work();
    return std::string();
  });
}

std::vector<std::string> Processes::gather(const std::string& own) {
  std::vector<std::string> all;
  for (const auto& bytes : cluster_.all_gather(std::as_bytes(std::span(own))))
    all.emplace_back(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return all;
}

std::vector<std::int64_t> Processes::gather_numbers(std::int64_t own) {
  std::vector<std::int64_t> all;
  for (const auto& bytes : cluster_.all_gather(std::as_bytes(std::span(&own, 1)))) {
    all.emplace_back();
    std::memcpy(&all.back(), bytes.data(), sizeof(own));
  }
  return all;
}

std::int64_t Processes::sum(std::int64_t own) {
  const auto all = gather_numbers(own);
  return std::accumulate(all.begin(), all.end(), std::int64_t{0});
}

std::int64_t Processes::max(std::int64_t own) { return std::ranges::max(gather_numbers(own)); }

void Processes::copy_from_first(Backend& backend, DeviceSpan values) {
  if (is_alone()) return;
  std::vector<float> floats(values.size());
  if (is_first()) backend.read(values, floats);
  cluster_.broadcast(std::as_writable_bytes(std::span(floats)), 0);
  if (!is_first()) backend.write(floats, values);
}

void Processes::throw_any(const std::exception_ptr& own) { detail::throw_any(cluster_, own); }

void Processes::throw_stopped(const std::string& message) {
  throw_alike(std::make_exception_ptr(Error(ErrorCode::kCancelled, message)));
}

void Processes::throw_alike(const std::exception_ptr& error) {
  cluster_.fail_alike();
  std::rethrow_exception(error);
}

}  // namespace millrace::trainer::detail
