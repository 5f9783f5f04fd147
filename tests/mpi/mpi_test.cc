// Processes that mpirun started: tests/mpi/run.sh runs this program with several numbers of them.
// Every process runs the same tests in the same order.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "io/base/error.h"
#include "tests/trainer/collectives_conformance.h"
#include "trainer/cluster.h"
#include "trainer/mpi/mpi_processes.h"

namespace millrace::trainer {
namespace {

// Made by main(): MPI is initialised once per process.
MpiProcesses* processes = nullptr;

class MpiTransport : public ::testing::Test {
 protected:
  int next() const { return (processes->process() + 1) % processes->processes(); }
  int previous() const {
    return (processes->process() + processes->processes() - 1) % processes->processes();
  }
  void exchange(std::uint32_t tag, std::span<const std::byte> mine, std::span<std::byte> theirs) {
    const Outgoing out{.process = next(), .tag = tag, .data = mine};
    const Incoming in{.process = previous(), .tag = tag, .data = theirs};
    processes->transport().exchange({&out, 1}, {&in, 1});
  }
};

TEST_F(MpiTransport, GoesAroundTheRingInEverySize) {
  for (const std::size_t bytes : {0U, 1U, 4096U, 100'000U, 5'000'000U}) {
    const std::vector<std::byte> mine(bytes, std::byte(processes->process()));
    std::vector<std::byte> theirs(bytes);
    exchange(1000, mine, theirs);
    EXPECT_EQ(std::vector<std::byte>(bytes, std::byte(previous())), theirs);
  }
}

TEST_F(MpiTransport, KeepsTheOrderOfAThreadAndTheThreadsApart) {
  std::vector<std::jthread> threads;
  for (std::uint32_t tag = 2000; tag < 2004; ++tag) {
    threads.emplace_back([this, tag] {
      for (int round = 0; round < 200; ++round) {
        const std::array<int, 2> mine{static_cast<int>(tag), round};
        std::array<int, 2> theirs{};
        exchange(tag, std::as_bytes(std::span(mine)), std::as_writable_bytes(std::span(theirs)));
        ASSERT_EQ(mine, theirs);
      }
    });
  }
}

TEST_F(MpiTransport, AMessageOfAnotherSizeIsRefused) {
  if (processes->processes() == 1) GTEST_SKIP() << "a process sends itself nothing";
  const std::vector<std::byte> mine(10);
  for (const std::size_t place : {5U, 15U}) {
    std::vector<std::byte> theirs(place);
    EXPECT_THROW(exchange(3000, mine, theirs), Error) << place;
  }
}

TEST(MpiProcesses, KnowWhereTheyStand) {
  const Topology topology = processes->topology(3);
  EXPECT_EQ(3, topology.devices);
  EXPECT_LT(topology.process, topology.processes);
  // All of these tests' processes run on one machine.
  EXPECT_EQ(topology.processes, topology.node_processes);
  EXPECT_EQ(topology.process, topology.node_process);
  EXPECT_FALSE(processes->host().empty());
}

/// Two devices on each process, in a cluster that the tests of a case share.
template <SumsBy kSums>
CollectivesGroup group() {
  static const auto cluster =
      make_cluster(processes->topology(2), processes->transport(), {.sums = kSums});
  return {.ranks = cluster->make_group(), .devices = 2};
}

INSTANTIATE_TEST_SUITE_P(Mpi, CollectivesConformance,
                         ::testing::Values(CollectivesCase{"Tree", group<SumsBy::kTree>},
                                           CollectivesCase{"MpiSums", group<SumsBy::kTransport>,
                                                           false}),
                         case_name);

}  // namespace

/// What one process does in the tests of failures while the others wait for it: it throws, hangs or
/// is killed. The others print the reason that they get.
int fail(const std::string& how) {
  // Before MPI: the number is the launcher's.
  const char* const number = std::getenv("OMPI_COMM_WORLD_RANK");
  const bool is_early = how == "early";
  if (is_early && number != nullptr && std::string(number) == "2") std::raise(SIGSTOP);
  MpiProcesses own({.heartbeat_timeout = std::chrono::milliseconds(3000),
                    .start_timeout = std::chrono::seconds(is_early ? 6 : 120),
                    .name = std::string("process ") + (number == nullptr ? "" : number),
                    .log = Log::to_stderr()});
  const auto cluster = make_cluster(own.topology(1), own.transport());
  const auto group = cluster->make_group();
  try {
    group.front()->barrier();
    if (own.process() == own.processes() - 1) {
      if (how == "throw") throw Error(ErrorCode::kIo, "disk on fire");
      if (how == "stop") std::raise(SIGSTOP);
      if (how == "kill") std::raise(SIGKILL);
      if (how == "leave") return 0;
    }
    for (;;) group.front()->barrier();
  } catch (const Error& error) {
    printf("%d: %s\n", own.process(), error.message().c_str());
    fflush(stdout);
    cluster->abort(error.message());
  }
  return 1;
}

}  // namespace millrace::trainer

int main(int argc, char** argv) {
  if (argc == 3 && std::strcmp(argv[1], "--fail") == 0) return millrace::trainer::fail(argv[2]);
  ::testing::InitGoogleTest(&argc, argv);
  millrace::trainer::MpiProcesses own;
  millrace::trainer::processes = &own;
  return RUN_ALL_TESTS();
}
