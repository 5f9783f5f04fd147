// The fuzz target for shards, run on mutants: the result is always samples or a fault.
#include <gtest/gtest.h>

#include <cstdint>

#include "tests/wds/mutants.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace millrace::testing {
namespace {

TEST(ShardFuzz, AnswersEveryMutantHoweverItIsRead) {
  const std::vector<Mutant> mutants = mutants_of(small_shard(2), 2);
  for (std::size_t i = 0; i < mutants.size(); ++i) {
    const std::string input = static_cast<char>(i % 32) + mutants[i].tar;
    EXPECT_EQ(
        LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size()),
        0);
  }
}

}  // namespace
}  // namespace millrace::testing
