// Batches in memory that the user of a pipeline provides.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"

namespace millrace::pipeline {
namespace {

using testing::describe_all;
using testing::fake_options;
using testing::fake_pipeline;
using ::testing::HasSubstr;

/// A stock of so many buffers. A buffer that was handed out does not come back into it.
class Stock {
 public:
  void add(std::int64_t number) { state_->add(number); }
  void hand_out(const Batch& batch) { state_->hand_out(batch.fields.at(0).data.data()); }
  AllocateBuffer allocator() {
    return [state = state_](std::size_t bytes) {
      std::byte* buffer = state->take(bytes);
      return std::shared_ptr<std::byte>(buffer, [state](std::byte* used) { state->put(used); });
    };
  }
  std::size_t in_use() const {
    const std::lock_guard lock(state_->mutex);
    return state_->in_use;
  }
  std::size_t size() const {
    const std::lock_guard lock(state_->mutex);
    return state_->all.size();
  }
  bool holds(const std::byte* data) const {
    const std::lock_guard lock(state_->mutex);
    return std::ranges::any_of(
        state_->all, [&](const auto& buffer) { return data == static_cast<void*>(buffer.get()); });
  }

 private:
  struct alignas(64) Buffer {
    std::byte bytes[4096];
  };
  struct State {
    void add(std::int64_t number) {
      const std::lock_guard lock(mutex);
      for (; number > 0; --number) {
        all.push_back(std::make_unique<Buffer>());
        free.push_back(all.back()->bytes);
      }
    }
    void hand_out(std::byte* buffer) {
      {
        const std::lock_guard lock(mutex);
        if (!handed_out.insert(buffer).second) return;
      }
      add(1);
    }
    std::byte* take(std::size_t bytes) {
      const std::lock_guard lock(mutex);
      require(!free.empty(), "the stock is empty");
      require(bytes <= sizeof(Buffer), "too large");
      ++in_use;
      std::byte* buffer = free.back();
      free.pop_back();
      return buffer;
    }
    void put(std::byte* buffer) {
      const std::lock_guard lock(mutex);
      --in_use;
      if (!handed_out.contains(buffer)) free.push_back(buffer);
    }
    std::mutex mutex;
    std::vector<std::unique_ptr<Buffer>> all;
    std::vector<std::byte*> free;
    std::set<std::byte*> handed_out;
    std::size_t in_use = 0;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

TEST(BatchMemory, HoldsTheSameBatchesEachInABufferOfItsOwn) {
  PipelineOptions options = fake_options(3, 8);
  Pipeline usual = fake_pipeline(options);
  const auto expected = describe_all(usual);
  Stock stock;
  stock.add(static_cast<std::int64_t>(expected.size()));
  options.resources.allocate = stock.allocator();
  Pipeline pipeline = fake_pipeline(options);
  EXPECT_EQ(describe_all(pipeline), expected);
  Pipeline again = fake_pipeline(options);
  Batch batch;
  ASSERT_TRUE(again.next(batch));
  EXPECT_TRUE(stock.holds(batch.field("number").data.data()));
}

TEST(BatchMemory, IsGivenBackWhenTheLastCopyOfABatchIsGone) {
  Stock stock;
  stock.add(100);
  std::vector<Batch> kept(2);
  {
    PipelineOptions options = fake_options(1, 4);
    options.resources.allocate = stock.allocator();
    Pipeline pipeline = fake_pipeline(options);
    for (Batch& batch : kept) ASSERT_TRUE(pipeline.next(batch));
    EXPECT_GE(pipeline.statistics().held_bytes, 2 * batch_buffers(pipeline.options()).bytes);
  }
  EXPECT_EQ(stock.in_use(), 2U);
  const Batch copy = kept[0];
  kept.clear();
  EXPECT_EQ(stock.in_use(), 1U);
}

/// Epochs that fill less than two rounds, and ones of `length` samples in each stream, in turn.
void run_from_stock(PipelineOptions options, std::int64_t length) {
  options.epochs.count = 4;
  options.source = testing::fake_source(
      {.length = [length](int, std::uint32_t epoch) { return epoch % 2 == 1 ? length : 8; }});
  Stock stock;
  const BatchBuffers need = batch_buffers(options);
  stock.add(need.number);
  options.resources.allocate = [&, allocate = stock.allocator()](std::size_t bytes) {
    EXPECT_EQ(bytes, need.bytes);
    return allocate(bytes);
  };
  Pipeline pipeline(options);
  std::int64_t batches = 0;
  do {
    for (Batch batch; pipeline.next(batch); ++batches) stock.hand_out(batch);
  } while (!pipeline.finished());
  EXPECT_GT(batches, 0);
}

TEST(BatchMemory, NeedsNoMoreBuffersThanItSays) {
  PipelineOptions dropped = fake_options(2, 4);
  dropped.batch.uneven = Uneven::kDrop;
  PipelineOptions masked = fake_options(2, 4);
  masked.epochs.batches = 6;
  for (PipelineOptions options : {fake_options(2, 4), dropped, masked})
    for (const int devices : {1, 3})
      for (const int prefetch : {1, 4})
        for (const std::int64_t length : {7, 60}) {
          options.split.topology.devices = devices;
          options.resources.prefetch = prefetch;
          run_from_stock(options, length);
        }
}

TEST(BatchMemory, HoldsABatchBeforeTheFirstSample) {
  Stock stock;
  stock.add(100);
  PipelineOptions options = fake_options(1, 4);
  options.resources.allocate = stock.allocator();
  Pipeline pipeline = fake_pipeline(options);
  const Batch zeros = pipeline.masked_batch();
  EXPECT_TRUE(stock.holds(zeros.field("number").data.data()));
  EXPECT_EQ(zeros.field("number").as<std::int64_t>()[3], 0);
}

std::string failure(AllocateBuffer allocate) {
  PipelineOptions options = fake_options(1, 4);
  options.resources.allocate = std::move(allocate);
  Pipeline pipeline = fake_pipeline(options);
  Batch batch;
  try {
    pipeline.next(batch);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(BatchMemory, ThatCannotBeHadEndsThePipeline) {
  EXPECT_THAT(failure([](std::size_t bytes) -> std::shared_ptr<std::byte> {
                throw Error(ErrorCode::kExhausted, "no " + std::to_string(bytes));
              }),
              HasSubstr("Exhausted: no 64"));
  EXPECT_THAT(failure([](std::size_t) { return nullptr; }),
              HasSubstr("ResourceOptions::allocate(64) returned no memory"));
  EXPECT_THAT(failure([](std::size_t bytes) {
                auto all = std::make_shared<std::vector<std::byte>>(bytes + 64);
                const auto address = reinterpret_cast<std::uintptr_t>(all->data());
                return std::shared_ptr<std::byte>(all, all->data() + (address % 64 == 1 ? 2 : 1));
              }),
              HasSubstr("returned memory that is not 64-byte aligned"));
}

}  // namespace
}  // namespace millrace::pipeline
