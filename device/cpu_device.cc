#include "device/cpu_device.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>

#include <condition_variable>
#include <deque>
#include <string>
#include <thread>
#include <utility>

#include "io/base/check.h"
#include "io/base/thread_annotations.h"

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

}  // namespace

struct CpuDevice::State {
  explicit State(CpuDeviceOptions given)
      : options(std::move(given)), name("cpu:" + std::to_string(options.index)) {
    MILLRACE_CHECK(!options.cores.empty(), "a device needs a core");
    thread = std::jthread([this] { serve(); });
  }
  ~State() {
    {
      MutexLock lock(mutex);
      stopped = true;
    }
    changed.notify_all();
  }

  void serve() {
    if (options.pin) pin_to(options.cores);
    omp_set_num_threads(static_cast<int>(options.cores.size()));
    for (std::packaged_task<void()> work; take(work);) work();
  }

  bool take(std::packaged_task<void()>& work) {
    MutexLock lock(mutex);
    while (waiting.empty() && !stopped) changed.wait(lock);
    if (stopped) return false;
    work = std::move(waiting.front());
    waiting.pop_front();
    return true;
  }

  const CpuDeviceOptions options;
  const std::string name;
  Mutex mutex;
  std::condition_variable_any changed;
  std::deque<std::packaged_task<void()>> waiting MILLRACE_GUARDED_BY(mutex);
  bool stopped MILLRACE_GUARDED_BY(mutex) = false;
  std::jthread thread;
};

CpuDevice::CpuDevice(CpuDeviceOptions options)
    : state_(std::make_unique<State>(std::move(options))) {}
CpuDevice::~CpuDevice() = default;

int CpuDevice::index() const { return state_->options.index; }
const std::string& CpuDevice::name() const { return state_->name; }
const std::vector<int>& CpuDevice::cores() const { return state_->options.cores; }
int CpuDevice::num_threads() const { return static_cast<int>(state_->options.cores.size()); }

std::future<void> CpuDevice::submit(std::function<void()> work) {
  std::packaged_task<void()> task(std::move(work));
  std::future<void> done = task.get_future();
  {
    MutexLock lock(state_->mutex);
    state_->waiting.push_back(std::move(task));
  }
  state_->changed.notify_one();
  return done;
}

std::future<DeviceBatch> CpuDevice::land(pipeline::Batch batch) {
  std::promise<DeviceBatch> landed;
  landed.set_value(std::move(batch));
  return landed.get_future();
}

}  // namespace millrace::device
