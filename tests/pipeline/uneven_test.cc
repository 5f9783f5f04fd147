// Epochs that do not divide by the global batch: padded, dropped or refused, alike in every
// process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "pipeline/epoch_length.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/fake_sources.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/shard_index.h"

namespace millrace::pipeline {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::TempDir;

/// Three shards of 20, 13 and 4 samples with indexes: 37.
class Uneven37 : public ::testing::Test {
 protected:
  Uneven37() {
    for (const int count : {20, 13, 4}) {
      const std::string shard = std::to_string(urls_.size());
      testing::TarBuilder tar;
      for (int i = 0; i < count; ++i) tar.file(shard + "-" + std::to_string(i) + ".cls", "1");
      urls_.push_back(folder_ / (shard + ".tar"));
      testing::write_file(urls_.back(), tar.end().bytes());
      wds::write_index(wds::build_index(io::UrlOpener(), urls_.back()),
                       wds::index_url(urls_.back()));
    }
  }

  PipelineOptions options(const Topology& topology, BatchOptions batch) const {
    return {.shards = urls_,
            .split = {.topology = topology, .streams = 4},
            .shuffle = {.shards = true, .buffer_samples = 8, .seed = 3},
            .fields = {LabelField{.classes = 10}},
            .batch = batch,
            .resources = {.threads = 1},
            .indexed = true};
  }

  /// The epoch's keys, batch by batch; those of masked slots are empty.
  static std::vector<std::vector<std::string>> batches(const PipelineOptions& options) {
    Pipeline pipeline(options);
    std::vector<std::vector<std::string>> keys;
    for (Batch batch; pipeline.next(batch);) keys.push_back(batch.keys);
    return keys;
  }

  static std::string refusal(const PipelineOptions& options) {
    try {
      const Pipeline pipeline(options);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kInvalidArgument);
      return error.message();
    }
    return "accepted";
  }

  TempDir folder_;
  std::vector<std::string> urls_;
};

TEST_F(Uneven37, EveryProcessTakesTheSameStepsAndLosesOnlyWhatIsDropped) {
  for (const Uneven uneven : {Uneven::kPad, Uneven::kDrop}) {
    for (const Topology shape : {Topology{.processes = 1, .devices = 2},
                                 {.processes = 2, .devices = 1},
                                 {.processes = 4, .devices = 2}}) {
      const std::size_t global = static_cast<std::size_t>(shape.world_size()) * 3;
      const std::size_t steps = uneven == Uneven::kPad ? (37 + global - 1) / global : 37 / global;
      std::multiset<std::string> seen;
      for (int process = 0; process < shape.processes; ++process) {
        Topology own = shape;
        own.process = process;
        const auto given = options(own, {.size = 3, .uneven = uneven});
        const auto all = batches(given);
        EXPECT_EQ(steps_per_epoch(with_counts(given)), steps);
        EXPECT_EQ(batches_per_epoch(with_counts(given)), all.size());
        // A device that gets no batch of a lone process's last round gets a masked one from its
        // loader.
        if (shape.processes > 1 || uneven == Uneven::kDrop) {
          EXPECT_EQ(all.size(), steps * static_cast<std::size_t>(shape.devices));
        }
        for (const auto& batch : all)
          for (const std::string& key : batch)
            if (!key.empty()) seen.insert(key);
      }
      const std::size_t whole = uneven == Uneven::kPad ? 37 : steps * global;
      EXPECT_EQ(seen.size(), whole) << shape.processes << " x " << shape.devices;
      EXPECT_EQ(std::set(seen.begin(), seen.end()).size(), whole) << "none twice";
    }
  }
}

TEST_F(Uneven37, AStatedLengthIsPaddedOrDroppedLikewise) {
  auto given = options({.processes = 2}, {.size = 8, .uneven = Uneven::kDrop});
  given.epochs.samples = 100;  // 6 global batches of 16 and 4 samples
  EXPECT_EQ(batches(given).size(), 6U);
  given.batch.uneven = Uneven::kPad;
  EXPECT_EQ(batches(given).size(), 7U);
  given.epochs.batches = 3;
  EXPECT_EQ(batches(given).size(), 3U) << "batches are what they are said to be";
}

TEST_F(Uneven37, SamplesLostToFaultsAreMaskedAndTakeNoStepAway) {
  std::string bytes = testing::read_file(urls_[0]);
  for (std::size_t at = 0; at < 10; ++at) bytes[512 + at * 1024] = 'x';  // ten labels
  testing::write_file(urls_[0], bytes);
  for (const Uneven uneven : {Uneven::kPad, Uneven::kDrop}) {
    std::vector<std::size_t> lengths;
    std::size_t samples = 0;
    for (int process = 0; process < 4; ++process) {
      auto given = options({.process = process, .processes = 4}, {.size = 3, .uneven = uneven});
      given.faults.on_fault = wds::OnFault::kSkip;
      const auto all = batches(given);
      lengths.push_back(all.size());
      for (const auto& batch : all)
        for (const auto& key : batch) samples += key.empty() ? 0 : 1;
    }
    EXPECT_THAT(lengths, ::testing::Each(uneven == Uneven::kPad ? 4U : 3U));
    EXPECT_LE(samples, 27U);
    EXPECT_GE(samples, uneven == Uneven::kPad ? 27U : 26U) << "the 37th sample is beyond the steps";
  }
}

TEST_F(Uneven37, AnErrorSaysTheNumbersAndWhatDivides) {
  EXPECT_THAT(refusal(options({.processes = 2}, {.size = 8, .uneven = Uneven::kError})),
              AllOf(HasSubstr("an epoch of 37 samples leaves 5 over from global batches of 16 (2 "
                              "processes x 1 device x batch size 8)"),
                    HasSubstr("nearest that divide are an epoch of 32 samples")));
  auto given = options({.processes = 2}, {.size = 8, .uneven = Uneven::kError});
  given.epochs.samples = 36;
  EXPECT_THAT(refusal(given), HasSubstr("nearest that divide are batch size 9 and an epoch of 32"));
  given.batch.size = 9;
  EXPECT_EQ(refusal(given), "accepted");
  given.epochs.samples = 0;
  given.indexed = false;
  given.scan = false;
  given.split.streams = 2;
  EXPECT_THAT(refusal(given), HasSubstr("is not known"));
}

TEST_F(Uneven37, ADropThatLeavesNothingIsRefused) {
  EXPECT_THAT(refusal(options({.devices = 2}, {.size = 32, .uneven = Uneven::kDrop})),
              HasSubstr("an epoch of 37 samples is dropped whole: a global batch has 64 (2 devices "
                        "x batch size 32)"));
}

}  // namespace
}  // namespace millrace::pipeline
