#include "device/parallel_loader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/base/error.h"
#include "tests/device/copying_device.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::device {
namespace {

using namespace std::chrono_literals;
using pipeline::Batch;
using pipeline::Pipeline;
using testing::CopyingDevice;
using testing::describe;
using testing::fake_options;
using testing::fake_pipeline;
using testing::FakeStreams;

FakeStreams streams_of(std::int64_t samples) {
  return {.length = [samples](int, std::uint32_t) { return samples; }};
}

/// What each device got, including epoch ends.
std::vector<std::vector<std::string>> run(ParallelLoader& loader, const DeviceSet& devices) {
  std::vector<std::vector<std::string>> got(devices.size());
  devices.run_all([&](std::size_t place) {
    do {
      for (DeviceBatch batch; loader[place].next(batch);) got[place].push_back(describe(batch));
      got[place].push_back("end");
    } while (!loader[place].finished());
  });
  return got;
}

/// Tests for every kind of device.
struct DeviceKind {
  std::string name;
  std::function<DeviceSet(int count)> make;
};

DeviceSet copying_devices(int count) {
  std::vector<std::shared_ptr<Device>> devices;
  for (int i = 0; i < count; ++i) devices.push_back(std::make_shared<CopyingDevice>(i));
  return DeviceSet(std::move(devices));
}

std::string kind_name(const ::testing::TestParamInfo<DeviceKind>& info) { return info.param.name; }

class ParallelLoaderOn : public ::testing::TestWithParam<DeviceKind> {};

INSTANTIATE_TEST_SUITE_P(
    All, ParallelLoaderOn,
    ::testing::Values(DeviceKind{"Cpu", [](int count) { return DeviceSet::cpu(count); }},
                      DeviceKind{"Copying", copying_devices}),
    kind_name);

TEST_P(ParallelLoaderOn, GivesBatchesInTurnAndFillsTheLastRound) {
  auto options = fake_options(2, 4);
  options.epochs.count = 2;
  Pipeline alone = fake_pipeline(options, streams_of(20));  // 10 batches per epoch
  const auto expected = testing::describe_all(alone);

  const DeviceSet devices = GetParam().make(3);
  ParallelLoader loader(fake_pipeline(options, streams_of(20)), devices);
  const auto got = run(loader, devices);
  for (std::size_t place = 0; place < 3; ++place) {
    ASSERT_EQ(got[place].size(), 10U) << place;  // 4 batches and an end, twice
    EXPECT_EQ(got[place][4], "end");
    for (std::size_t round = 0; round < 4; ++round) {
      const std::size_t b = 3 * round + place;
      if (b < 10) {
        EXPECT_EQ(got[place][round], expected[b]);
        EXPECT_EQ(got[place][5 + round], expected[11 + b]);
      } else {
        EXPECT_THAT(got[place][round], ::testing::HasSubstr("." + std::to_string(b) + " 0/4"));
      }
    }
  }
}

TEST_P(ParallelLoaderOn, LeavesOutAnIncompleteRoundByOption) {
  auto options = fake_options(2, 4);
  options.batch.uneven = pipeline::Uneven::kDrop;
  options.epochs.count = 2;
  Pipeline alone = fake_pipeline(options, streams_of(21));  // 10 batches and 2 samples
  const auto expected = testing::describe_all(alone);
  const DeviceSet devices = GetParam().make(3);
  ParallelLoader loader(fake_pipeline(options, streams_of(21)), devices);
  const auto got = run(loader, devices);
  for (std::size_t place = 0; place < 3; ++place) {
    ASSERT_EQ(got[place].size(), 8U) << place;  // 3 batches and an end, twice
    for (std::size_t round = 0; round < 3; ++round) {
      EXPECT_EQ(got[place][round], expected[3 * round + place]);
      EXPECT_EQ(got[place][4 + round], expected[11 + 3 * round + place]);
    }
  }
}

TEST_P(ParallelLoaderOn, HandsOutTheFirstBatchAsSoonAsItHasLanded) {
  FakeStreams streams = streams_of(100);
  streams.block_samples = 4;
  streams.block_at = 4;  // only the first batch arrives
  const DeviceSet devices = GetParam().make(8);
  ParallelLoader loader(fake_pipeline(fake_options(1, 4), streams), devices);
  DeviceBatch batch;
  ASSERT_TRUE(loader[0].next(batch));
  EXPECT_EQ(batch.num_valid, 4);
  EXPECT_GT(loader[0].waits().first_batch.count(), 0);
}

TEST_P(ParallelLoaderOn, BringsAFaultToEveryDeviceAfterTheBatchesBeforeIt) {
  auto options = fake_options(1, 4);
  options.fields = {testing::number_field([](const std::string& key) { return key == "0/0/21"; })};
  const DeviceSet devices = GetParam().make(3);
  ParallelLoader loader(fake_pipeline(options), devices);
  std::vector<int> batches(3);
  std::vector<std::string> faults(3);
  devices.run_all([&](std::size_t place) {
    try {
      for (DeviceBatch batch; loader[place].next(batch);) ++batches[place];
    } catch (const Error& error) {
      faults[place] = error.where().key;
    }
    DeviceBatch batch;
    EXPECT_THROW(loader[place].next(batch), Error);
  });
  EXPECT_THAT(batches, ::testing::ElementsAre(2, 2, 1));
  EXPECT_THAT(faults, ::testing::Each("0/0/21"));
}

TEST(ParallelLoader, EndsWhenConsumersStopEarly) {
  auto options = fake_options(2, 4);
  options.epochs.count = 0;
  const auto threads = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                         std::filesystem::directory_iterator());
  };
  const DeviceSet devices = DeviceSet::cpu(4);
  const auto before = threads();
  for (int round = 0; round < 100; ++round) {
    ParallelLoader loader(fake_pipeline(options), devices);
    DeviceBatch batch;
    for (int i = 0; i < round % 3; ++i) ASSERT_TRUE(loader[0].next(batch));
  }
  EXPECT_EQ(threads(), before);
}

TEST_P(ParallelLoaderOn, EndsWhileThePipelineWaits) {
  FakeStreams streams;
  streams.block_at = 14;
  auto loader = std::make_unique<ParallelLoader>(fake_pipeline(fake_options(2, 64), streams),
                                                 GetParam().make(2));
  std::this_thread::sleep_for(20ms);
  loader.reset();
}

TEST_P(ParallelLoaderOn, CancelsWaitingConsumersWhenStopped) {
  FakeStreams streams;
  streams.block_at = 0;
  const DeviceSet devices = GetParam().make(2);
  ParallelLoader loader(fake_pipeline(fake_options(1, 4), streams), devices);
  const std::jthread stopper([&] {
    std::this_thread::sleep_for(20ms);
    loader.stop();
  });
  devices.run_all([&](std::size_t place) {
    DeviceBatch batch;
    try {
      loader[place].next(batch);
      ADD_FAILURE();
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kCancelled);
    }
  });
}

TEST_P(ParallelLoaderOn, BoundsWhatHasLanded) {
  auto options = fake_options(1, 4);
  const DeviceSet devices = GetParam().make(2);
  ParallelLoader loader(fake_pipeline(options), devices, {.depth = 3});
  while (loader[1].ready() < 3) std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  EXPECT_LE(loader[0].ready(), 3U);
  EXPECT_EQ(loader[1].ready(), 3U);
}

// However far the pipeline is ahead of the devices.
TEST_P(ParallelLoaderOn, HasTheLedgerOfAnEpochThatGoesOn) {
  const DeviceSet devices = GetParam().make(1);
  auto options = fake_options(1, 4);
  options.epochs.count = 3;
  ParallelLoader loader(fake_pipeline(options, {.length = [](int, std::uint32_t) { return 12; }}),
                        devices);
  EXPECT_EQ(loader.ledger_of(7), nullptr);
  for (std::uint32_t epoch = 0; epoch < 3; ++epoch) {
    DeviceBatch batch;
    ASSERT_TRUE(loader[0].next(batch));
    const auto ledger = loader.ledger_of(epoch);
    ASSERT_NE(ledger, nullptr);
    EXPECT_NE(ledger, loader[0].ledger()) << "that of the epoch before, or none";
    while (loader[0].next(batch)) continue;
    EXPECT_EQ(ledger, loader[0].ledger());
    EXPECT_EQ(ledger->emitted(), 12U);
  }
}

TEST_P(ParallelLoaderOn, GivesMaskedBatchesOfTheDevicesOwnPixels) {
  const DeviceSet devices = GetParam().make(1);
  ParallelLoader loader(fake_pipeline(fake_options(1, 4)), devices);
  DeviceBatch batch;
  ASSERT_TRUE(loader[0].next(batch));
  const DeviceBatch masked = loader[0].masked_batch();
  EXPECT_EQ(masked.num_valid, 0);
  EXPECT_EQ(masked.fields[0].data.data(), batch.fields[0].data.data());
}

TEST(Landing, IsBegunBeforeTheBatchIsAskedForAndWaitedForThen) {
  const auto device = std::make_shared<CopyingDevice>(0);
  Pipeline alone = fake_pipeline(fake_options(1, 4));
  const auto expected = testing::describe_all(alone);
  device->hold();
  ParallelLoader loader(fake_pipeline(fake_options(1, 4)), DeviceSet({device}), {.depth = 3});
  while (device->begun() < 3) std::this_thread::yield();
  EXPECT_EQ(device->landed(), 0);
  const std::jthread release([&] {
    std::this_thread::sleep_for(20ms);
    device->release();
  });
  DeviceBatch batch;
  ASSERT_TRUE(loader[0].next(batch));
  EXPECT_GE(device->landed(), 1);
  EXPECT_EQ(describe(batch), expected[0]);
  EXPECT_GT(loader[0].waits().total.count(), 0);
}

TEST(Landing, LeavesThePipelinesBufferForTheDevicesMemory) {
  const auto device = std::make_shared<CopyingDevice>(0);
  ParallelLoader loader(fake_pipeline(fake_options(1, 4)), DeviceSet({device}));
  std::vector<DeviceBatch> kept(10);
  for (DeviceBatch& batch : kept) ASSERT_TRUE(loader[0].next(batch));
  for (const DeviceBatch& batch : kept) {
    EXPECT_TRUE(device->holds(batch.fields[0].data));
    EXPECT_EQ(batch.field("number").as<std::int64_t>()[0], 4 * batch.index);
  }
}

/// A field that stays is the pipeline's own, beside others that move.
TEST(Landing, IsDecidedPerField) {
  const auto device = std::make_shared<CopyingDevice>(0);
  for (const bool moves : {false, true}) {
    const Landing landing{.stays = {moves ? "another" : "number"}};
    ParallelLoader loader(fake_pipeline(fake_options(1, 4)), DeviceSet({device}),
                          {.landing = landing});
    std::vector<DeviceBatch> kept(10);
    for (DeviceBatch& batch : kept) ASSERT_TRUE(loader[0].next(batch));
    for (const DeviceBatch& batch : kept) {
      EXPECT_EQ(moves, device->holds(batch.field("number").data));
      EXPECT_EQ(batch.field("number").as<std::int64_t>()[0], 4 * batch.index);
    }
  }
}

TEST(Landing, AFaultReachesItsDeviceAndIsRepeated) {
  const auto sound = std::make_shared<CopyingDevice>(0);
  const auto broken = std::make_shared<CopyingDevice>(1);
  broken->fail_at(1);
  ParallelLoader loader(fake_pipeline(fake_options(1, 4)), DeviceSet({sound, broken}));
  DeviceBatch batch;
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(loader[0].next(batch));
  ASSERT_TRUE(loader[1].next(batch));
  EXPECT_EQ(batch.index, 1);
  EXPECT_THROW(loader[1].next(batch), Error);
  EXPECT_THROW(loader[1].next(batch), Error);
  EXPECT_EQ(loader[1].waits().batches, 1U);
}

TEST(Landing, IsForMaskedBatchesToo) {
  const auto device = std::make_shared<CopyingDevice>(0);
  FakeStreams streams;
  streams.block_at = 0;  // no batch arrives
  ParallelLoader loader(fake_pipeline(fake_options(1, 4), streams), DeviceSet({device}));
  const DeviceBatch masked = loader[0].masked_batch();
  EXPECT_EQ(masked.num_valid, 0);
  EXPECT_TRUE(device->holds(masked.fields[0].data));
}

}  // namespace
}  // namespace millrace::device
