// Orders and fault policies as components: what their words make, and what they refuse.
#include "wds/orders.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "io/base/error.h"
#include "io/component/component_text.h"
#include "wds/fault_policies.h"

namespace millrace::wds {
namespace {

ShuffleOptions order_of(const char* call) { return *parse(call, standard_orders()).at(0).make(); }

FaultPolicy policy_of_call(const char* call) {
  return *parse(call, standard_fault_policies()).at(0).make();
}

TEST(Orders, MakeTheShuffleThatTheyDescribe) {
  const ShuffleOptions shuffled = order_of("shuffled(70, open_shards=3)");
  EXPECT_EQ(Order::kMillrace, shuffled.order);
  EXPECT_TRUE(shuffled.shards);
  EXPECT_EQ(70, shuffled.buffer_samples);
  EXPECT_EQ(3, shuffled.open_shards);
  EXPECT_FALSE(order_of("shuffled(0)").shards);
  const ShuffleOptions theirs = order_of("webdataset(9, initial=4, shard_shuffle=0, detshuffle)");
  EXPECT_EQ(Order::kWebDataset, theirs.order);
  EXPECT_EQ(9, theirs.buffer_samples);
  EXPECT_EQ(4, theirs.initial_samples);
  EXPECT_EQ(0, theirs.shard_buffer);
  EXPECT_TRUE(theirs.detshuffle);
  const ShuffleOptions chosen = order_of("permutation(where='json.n in [1, 2]', balance=classes)");
  EXPECT_EQ(Order::kPermutation, chosen.order);
  EXPECT_EQ("json.n in [1, 2]", chosen.where);
  EXPECT_EQ("classes", chosen.balance);
  EXPECT_FALSE(order_of("permutation").chooses());
  EXPECT_EQ(1, order_of("permutation").copies);
  EXPECT_EQ(3, order_of("permutation(copies=3)").copies);
  EXPECT_THROW(order_of("permutation(copies=0)"), Error);
  EXPECT_THROW(order_of("permutation(where='json.n >')"), Error);
}

TEST(Orders, LeaveWhatTheyDoNotDescribeAsItIs) {
  const ShuffleOptions usual;
  for (const char* call : {"shuffled", "webdataset", "permutation"}) {
    const ShuffleOptions made = order_of(call);
    EXPECT_EQ(usual.open_shards, made.open_shards) << call;
    EXPECT_EQ(usual.initial_samples, made.initial_samples) << call;
    EXPECT_EQ(usual.shard_buffer, made.shard_buffer) << call;
    EXPECT_EQ(usual.buffer_bytes, made.buffer_bytes) << call;
    EXPECT_FALSE(made.detshuffle) << call;
  }
}

TEST(FaultPolicies, ALimitIsANumberOfSamplesOrAShare) {
  const FaultPolicy usual;
  EXPECT_EQ(OnFault::kFail, policy_of_call("fail").on_fault);
  EXPECT_EQ(OnFault::kStop, policy_of_call("stop").on_fault);
  EXPECT_EQ(usual.max_faults, policy_of_call("skip").max_faults);
  for (const auto& [call, samples] :
       {std::pair("skip(10)", 10), {"skip(1e3)", 1000}, {"skip(0)", 0}}) {
    EXPECT_EQ(samples, policy_of_call(call).max_faults) << call;
    EXPECT_EQ(usual.max_fault_rate, policy_of_call(call).max_fault_rate) << call;
  }
  for (const auto& [call, share] :
       {std::pair("skip(0.01)", 0.01), {"skip(max=1.0)", 1.0}, {"stop(0.0)", 0.0}}) {
    EXPECT_EQ(share, policy_of_call(call).max_fault_rate) << call;
    EXPECT_EQ(usual.max_faults, policy_of_call(call).max_faults) << call;
  }
}

TEST(FaultPolicies, AreReadBackAsTheyAreWritten) {
  for (const char* call :
       {"skip(10)", "skip(1)", "skip(1.0)", "skip(0.00001)", "stop(0.5)", "skip"}) {
    const auto policy = parse(call, standard_fault_policies()).at(0);
    const std::string whole = text(written(policy));
    EXPECT_EQ(policy, parse(whole, standard_fault_policies()).at(0)) << whole;
  }
}

TEST(FaultPolicies, RefuseWhatIsNoLimit) {
  for (const char* call :
       {"skip(-1)", "skip(1.5)", "skip(many)", "skip(1e300)", "skip([1])", "fail(3)"})
    EXPECT_THROW(parse(call, standard_fault_policies()), Error) << call;
}

}  // namespace
}  // namespace millrace::wds
