#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <omp.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "device/cpu_device.h"
#include "io/base/error.h"

namespace millrace::device {
namespace {

TEST(CpuDevice, RunsItsWorkInOrderOnOneThreadOfItsOwn) {
  CpuDevice device({.index = 3, .cores = {0}});
  EXPECT_EQ(device.name(), "cpu:3");
  std::vector<int> order;
  std::vector<std::thread::id> threads;
  for (int i = 0; i < 20; ++i) {
    device.submit([&, i] {
      order.push_back(i);
      threads.push_back(std::this_thread::get_id());
    });
  }
  device.run([] {});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
    EXPECT_EQ(threads[static_cast<std::size_t>(i)], threads[0]);
  }
  EXPECT_NE(threads[0], std::this_thread::get_id());
}

TEST(CpuDevice, RethrowsWhatItsWorkThrowsAndContinues) {
  CpuDevice device({});
  EXPECT_THROW(device.run([] { throw std::runtime_error("mine"); }), std::runtime_error);
  bool ran = false;
  device.run([&] { ran = true; });
  EXPECT_TRUE(ran);
}

TEST(CpuDevice, HasATeamAsLargeAsItsSliceOfCores) {
  CpuDevice one({.cores = {0}});
  CpuDevice three({.cores = {0, 1, 0}});
  int in_one = 0;
  int in_three = 0;
  one.run([&] { in_one = omp_get_max_threads(); });
  three.run([&] { in_three = omp_get_max_threads(); });
  EXPECT_EQ(in_one, 1);
  EXPECT_EQ(in_three, 3);
}

TEST(CpuDevice, StaysOnItsCoresWhenPinned) {
  CpuDevice device({.cores = {0}, .pin = true});
  int allowed = 0;
  device.run([&] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    allowed = CPU_COUNT(&set);
  });
  EXPECT_EQ(allowed, 1);
}

TEST(CpuDevice, DropsWorkThatHasNotBegunWhenDestroyed) {
  std::atomic<int> ran{0};
  std::future<void> last;
  {
    CpuDevice device({});
    device.submit([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      ++ran;
    });
    for (int i = 0; i < 100; ++i) last = device.submit([&] { ++ran; });
  }
  EXPECT_LE(ran, 101);
  if (ran < 101) {
    EXPECT_THROW(last.get(), std::future_error);
  }
}

const CpuDevice& cpu(const DeviceSet& set, std::size_t place) {
  return dynamic_cast<const CpuDevice&>(set[place]);
}

TEST(DeviceSet, SharesOutTheCores) {
  const DeviceSet two = DeviceSet::cpu(2);
  ASSERT_EQ(two.size(), 2U);
  EXPECT_FALSE(cpu(two, 0).cores().empty());
  EXPECT_FALSE(cpu(two, 1).cores().empty());
  const DeviceSet many = DeviceSet::cpu(64, {.num_cores = 2});
  EXPECT_EQ(many.size(), 64U);
  for (std::size_t i = 0; i < many.size(); ++i) EXPECT_EQ(cpu(many, i).num_threads(), 1);
  EXPECT_NE(cpu(many, 0).cores(), cpu(many, 1).cores());
}

TEST(DeviceSet, ReadsCountsAndNumbers) {
  EXPECT_EQ(DeviceSet::parse("8").size(), 8U);
  const DeviceSet five = DeviceSet::parse("[5]");
  ASSERT_EQ(five.size(), 1U);
  EXPECT_EQ(five[0].name(), "cpu:5");
  const DeviceSet two = DeviceSet::parse("[0, 2]");
  EXPECT_EQ(two[0].index(), 0);
  EXPECT_EQ(two[1].index(), 2);
}

TEST(DeviceSet, RefusesEverythingElse) {
  for (const char* text : {"", "0", "-1", "x", "[]", "[", "[1", "1]", "[1,]", "[1,1]", "[-2]",
                           "2.5", "99999999999", "[1;2]"}) {
    try {
      DeviceSet::parse(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument) << text;
    }
  }
}

TEST(DeviceSet, RunsOnAllDevicesAtOnce) {
  const DeviceSet devices = DeviceSet::cpu(4);
  std::atomic<int> arrived{0};
  devices.run_all([&](std::size_t) {
    ++arrived;
    while (arrived < 4) std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 4);
  EXPECT_THROW(devices.run_all([](std::size_t place) {
    if (place == 2) throw std::runtime_error("third");
  }),
               std::runtime_error);
}

/// Takes no work.
class FullDevice final : public Device {
 public:
  int index() const override { return 1; }
  const std::string& name() const override { return name_; }
  std::future<void> submit(std::function<void()>) override { throw std::bad_alloc(); }
  std::future<DeviceBatch> land(pipeline::Batch, const Landing&) override { return {}; }

 private:
  std::string name_ = "full:1";
};

TEST(DeviceSet, RunsOnNoneIfOneCannot) {
  const DeviceSet devices(
      {std::make_shared<CpuDevice>(CpuDeviceOptions{0, {0}}), std::make_shared<FullDevice>()});
  std::atomic<int> ran{0};
  EXPECT_THROW(devices.run_all([&](std::size_t) { ++ran; }), std::bad_alloc);
  EXPECT_EQ(ran, 0);
}

}  // namespace
}  // namespace millrace::device
