// What processes tell each other while a plugin connects their devices.
#include "trainer/pjrt/transport_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "tests/trainer/fake_transport.h"

namespace millrace::trainer {
namespace {

using std::chrono::milliseconds;
using Store = std::shared_ptr<device::pjrt::KeyValueStore>;

constexpr milliseconds kLong{60'000};

std::vector<Store> stores_of(testing::FakeNetwork& network, int processes) {
  std::vector<Store> stores;
  for (int process = 0; process < processes; ++process)
    stores.push_back(make_transport_store(network.transport(process), process, processes));
  return stores;
}

// As each process lets go of its own.
void let_go(std::vector<Store>& stores) {
  std::vector<std::future<void>> ends;
  for (Store& store : stores)
    ends.push_back(std::async(std::launch::async, [&store] { store.reset(); }));
}

TEST(TransportStore, HasWhatAnyProcessHasPut) {
  testing::FakeNetwork network(3);
  std::vector<Store> stores = stores_of(network, 3);
  const std::string bytes("\0 binary \xFF", 10);
  stores[2]->put("id", bytes);
  stores[0]->put("empty", "");
  for (const Store& store : stores) {
    EXPECT_EQ(store->get("id", kLong), bytes);
    EXPECT_EQ(store->get("empty", kLong), "");
    EXPECT_EQ(store->get("other", milliseconds(0)), std::nullopt);
    EXPECT_EQ(store->get("other", milliseconds(1)), std::nullopt);
  }
  let_go(stores);
}

TEST(TransportStore, WaitsForWhatIsPutLater) {
  testing::FakeNetwork network(2);
  std::vector<Store> stores = stores_of(network, 2);
  for (const std::size_t waiting : {0U, 1U}) {
    const std::string key = "for " + std::to_string(waiting);
    auto found = std::async(std::launch::async, [&] { return stores[waiting]->get(key, kLong); });
    stores[1 - waiting]->put(key, "late");
    EXPECT_EQ(found.get(), "late");
  }
  let_go(stores);
}

TEST(TransportStore, ThatIsStoppedIsWaitedForNoLonger) {
  testing::FakeNetwork network(2);
  std::vector<Store> stores = stores_of(network, 2);
  auto found = std::async(std::launch::async, [&] { return stores[0]->get("id", kLong); });
  for (const Store& store : stores) store->stop();
  EXPECT_EQ(found.get(), std::nullopt);
  EXPECT_THROW(stores[1]->get("id", kLong), Error);
  let_go(stores);
}

TEST(TransportStore, OfAnAbortedRunThrowsAndEnds) {
  testing::FakeNetwork network(2);
  std::vector<Store> stores = stores_of(network, 2);
  network.transport(1).abort("process 1 failed");
  EXPECT_THROW(stores[1]->get("id", kLong), Error);
  let_go(stores);
}

}  // namespace
}  // namespace millrace::trainer
