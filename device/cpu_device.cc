#include "device/cpu_device.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <future>
#include <latch>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device/detail/device_thread.h"
#include "io/base/check.h"
#include "io/base/threads.h"

namespace millrace::device {
namespace {

/// Binds this thread and those that it creates. If the process may not use the cores, the device
/// runs unbound.
void pin_to(const std::vector<int>& cores) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (const int core : cores) CPU_SET(static_cast<std::size_t>(core), &set);
  pthread_setaffinity_np(pthread_self(), sizeof set, &set);
}

/// Whether there are `count` more threads to be had at once.
void try_threads(int count, const std::string& purpose) {
  std::vector<std::jthread> trial;
  trial.reserve(static_cast<std::size_t>(count));
  std::latch end(1);
  try {
    for (int i = 0; i < count; ++i) trial.push_back(start_thread(purpose, [&end] { end.wait(); }));
  } catch (...) {
    end.count_down();
    throw;
  }
  end.count_down();
}

/// Starts this thread's OpenMP team. Where it gets no thread for it, libgomp ends the process.
void start_team(int threads, const std::string& device) {
  omp_set_num_threads(threads);
  if (threads < 2) return;
  try_threads(threads - 1, "to compute on " + device);
#pragma omp parallel num_threads(threads)
  static_cast<void>(omp_get_thread_num());
}

}  // namespace

struct CpuDevice::State {
  explicit State(CpuDeviceOptions given)
      : options(std::move(given)),
        name("cpu:" + std::to_string(options.index)),
        thread(name, [this] { enter(); }) {}

  void enter() const {
    MILLRACE_CHECK(!options.cores.empty(), "a device needs a core");
    if (options.pin) pin_to(options.cores);
    start_team(static_cast<int>(options.cores.size()), name);
  }

  const CpuDeviceOptions options;
  const std::string name;
  DeviceThread thread;
};

CpuDevice::CpuDevice(CpuDeviceOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
CpuDevice::~CpuDevice() = default;

int CpuDevice::index() const { return state_->options.index; }
const std::string& CpuDevice::name() const { return state_->name; }
const std::vector<int>& CpuDevice::cores() const { return state_->options.cores; }
int CpuDevice::num_threads() const { return static_cast<int>(state_->options.cores.size()); }

std::future<void> CpuDevice::submit(std::function<void()> work) {
  return state_->thread.submit(std::move(work));
}

std::future<DeviceBatch> CpuDevice::land(pipeline::Batch batch, const Landing& /*landing*/) {
  std::promise<DeviceBatch> landed;
  landed.set_value(std::move(batch));
  return landed.get_future();
}

}  // namespace millrace::device
