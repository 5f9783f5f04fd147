// Streams in WebDataset's order give the keys that Python's webdataset gives, worker by worker and
// epoch by epoch. Skipped without a Python that has it (MILLRACE_ORACLE_PYTHON).
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "io/opener.h"
#include "tests/support/process.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

using nlohmann::json;
using testing::TarBuilder;
using testing::TempDir;
using Strings = std::vector<std::string>;

/// One of WebDataset's set-ups, and the same as a StreamSpec's.
struct Setting {
  std::string name;
  const char* kind = "webdataset";
  bool shuffles_shards = true;
  std::int64_t shard_shuffle = 100;
  bool detshuffle = false;
  std::int64_t buffer = 0;
  std::int64_t initial = 100;
  std::int64_t slice = 0;
  std::uint32_t repeat = 0;
  std::int64_t epoch = 0;  ///< with_epoch()
};

const std::vector<Setting> kSettings = {
    {.name = "in order", .shuffles_shards = false},
    {.name = "shards", .shard_shuffle = 100},
    {.name = "a small buffer of shards", .shard_shuffle = 2},
    {.name = "shards and samples", .shard_shuffle = 100, .buffer = 20, .initial = 5},
    {.name = "samples alone", .shuffles_shards = false, .buffer = 1000, .initial = 100},
    {.name = "a list shuffled whole", .kind = "simple", .shard_shuffle = 0, .buffer = 9},
    {.name = "detshuffle", .detshuffle = true, .buffer = 20, .initial = 7},
    {.name = "repeat", .buffer = 20, .initial = 5, .repeat = 3},
    {.name = "slice", .buffer = 20, .initial = 5, .slice = 17},
    {.name = "with_epoch, less than all", .buffer = 20, .initial = 5, .epoch = 11},
    {.name = "with_epoch, more than all", .buffer = 20, .initial = 5, .epoch = 101},
    {.name = "resampled", .kind = "resampled", .epoch = 60},
    {.name = "resampled and shuffled",
     .kind = "resampled",
     .buffer = 16,
     .initial = 4,
     .epoch = 60}};

constexpr int kWorld = 2;
constexpr int kWorkers = 2;
constexpr std::uint32_t kEpochs = 2;
constexpr std::uint64_t kSeed = 42;

/// Nine shards of unequal length.
Strings write_shards(const TempDir& dir) {
  Strings urls;
  for (int shard = 0; shard < 9; ++shard) {
    TarBuilder tar;
    for (int i = 0; i < 5 + shard % 4; ++i)
      tar.file(std::to_string(shard) + "-" + std::to_string(i) + ".cls", "1");
    urls.push_back(dir / (std::to_string(shard) + ".tar"));
    testing::write_file(urls.back(), tar.end().bytes());
  }
  return urls;
}

json to_json(const Setting& set_up, const Strings& urls, int rank, int worker) {
  const bool whole = set_up.shard_shuffle == 0 || !set_up.shuffles_shards;
  return {{"urls", urls},
          {"kind", set_up.kind},
          {"seed", kSeed},
          {"shard_shuffle", whole ? json(false) : json(set_up.shard_shuffle)},
          {"detshuffle", set_up.detshuffle},
          {"buffer", set_up.buffer},
          {"initial", set_up.initial},
          {"slice", set_up.slice},
          {"repeat", set_up.repeat},
          {"epoch", set_up.epoch},
          {"epochs", kEpochs},
          {"RANK", rank},
          {"WORLD_SIZE", kWorld},
          {"WORKER", worker},
          {"NUM_WORKERS", kWorkers}};
}

StreamSpec spec_of(const Setting& set_up, const Strings& urls, int rank, int worker) {
  const bool slices = set_up.slice > 0;
  return {.shards = std::make_shared<const Strings>(urls),
          .shuffle = {.shards = set_up.shuffles_shards,
                      .buffer_samples = set_up.buffer,
                      .initial_samples = set_up.initial,
                      .seed = kSeed,
                      .order = Order::kWebDataset,
                      .shard_buffer = set_up.shard_shuffle,
                      .detshuffle = set_up.detshuffle},
          .num_streams = kWorld * kWorkers,
          .stream = worker * kWorld + rank,
          .resampled = std::string(set_up.kind) == "resampled",
          .max_samples = static_cast<std::uint64_t>(slices ? set_up.slice : set_up.epoch),
          .passes = slices ? 1 : set_up.repeat,
          .processes = kWorld};
}

Strings webdataset_keys_of(const StreamSpec& spec) {
  const io::UrlOpener opener;
  FaultLedger ledger(FaultPolicy{});
  SampleStream stream(spec, opener, ledger);
  Strings keys;
  for (SampleBlock block; stream.next(block);)
    for (const Sample& sample : block.samples) keys.push_back(sample.key);
  return keys;
}

TEST(WebDatasetStream, EveryWorkerGivesWhatWebDatasetGives) {
  const std::string python = testing::oracle_python("webdataset");
  if (python.empty()) GTEST_SKIP() << "no Python with webdataset";
  const TempDir dir;
  const Strings urls = write_shards(dir);
  json asked = json::array();
  for (const Setting& set_up : kSettings)
    for (int rank = 0; rank < kWorld; ++rank)
      for (int worker = 0; worker < kWorkers; ++worker)
        asked.push_back(to_json(set_up, urls, rank, worker));
  const auto result =
      testing::run_process({python, "tests/wds/webdataset_stream.py"}, {.input = asked.dump()});
  ASSERT_EQ(result.status, 0) << result.err;
  const json theirs = json::parse(result.out);
  std::size_t at = 0;
  for (const Setting& set_up : kSettings) {
    for (int rank = 0; rank < kWorld; ++rank) {
      for (int worker = 0; worker < kWorkers; ++worker, ++at) {
        StreamSpec spec = spec_of(set_up, urls, rank, worker);
        for (spec.epoch = 0; spec.epoch < kEpochs; ++spec.epoch)
          EXPECT_EQ(webdataset_keys_of(spec), theirs[at][spec.epoch].get<Strings>())
              << set_up.name << ", rank " << rank << ", worker " << worker << ", epoch "
              << spec.epoch;
      }
    }
  }
}

}  // namespace
}  // namespace millrace::wds
