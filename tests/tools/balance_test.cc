// Shards with indexes: streams of equal length and checked samples, in every command that reads
// epochs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "pipeline/pipeline.h"
#include "tests/support/nginx.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class Balance : public ::testing::Test {
 protected:
  Balance() : shards_(make_set(dir_, 50, 40, {"--format", "ppm"})) {}

  void add_indexes() const {
    const ProcessResult result = millrace({"index", shards_});
    ASSERT_EQ(result.status, 0) << result.err;
  }
  static ProcessResult run(std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }
  ProcessResult order(const std::vector<std::string>& more) const {
    return run({"order", shards_, "--json"}, more);
  }
  static ProcessResult train(const std::string& spec, const std::vector<std::string>& more,
                             const std::string& workers = "3") {
    return run({"train", "--train", spec, "--workers", workers, "--model", "lenet", "--channels",
                "3", "--size", "16", "--classes", "10", "--batch-size", "8", "--run-dir", "none"},
               more);
  }
  /// Changes a pixel of sample 3: the picture still decodes.
  void flip_a_pixel() const {
    const std::string path = dir_ / "set-000000.tar";
    std::string bytes = read_file(path);
    const auto sample = list_samples(path).at(3);
    bytes[sample["fields"]["ppm"]["offset"].get<std::size_t>() + 100] ^= 1;
    write_file(path, bytes);
  }

  TempDir dir_;
  std::string shards_;
};

// A command is run once to count its samples, and again for each stream that has some of them.
TEST_F(Balance, PipesHaveTheOrderOfTheirShards) {
  const std::vector<std::string> pipes = {"pipe:cat " + (dir_ / "set-000000.tar"),
                                          "pipe:cat " + (dir_ / "set-000001.tar")};
  const std::vector<std::string> options = {"--digest", "--workers", "4", "--shuffle", "5"};
  const ProcessResult of_shards = run({"order", shards_}, options);
  const ProcessResult of_pipes = run({"order", pipes[0], pipes[1], "--allow-pipe"}, options);
  ASSERT_EQ(of_pipes.status, 0) << of_pipes.err;
  EXPECT_EQ(of_shards.out, of_pipes.out);
  EXPECT_THAT(of_pipes.err, HasSubstr("50 samples"));

  const auto loss = [](const ProcessResult& result) {
    EXPECT_EQ(result.status, 0) << result.err;
    const auto at = result.err.find("Train loss");
    return result.err.substr(at, result.err.find('\n', at) - at);
  };
  const ProcessResult trained =
      run({"train",     "--train", pipes[0],    "--train", pipes[1],       "--allow-pipe",
           "--workers", "3",       "--model",   "lenet",   "--channels",   "3",
           "--size",    "16",      "--classes", "10",      "--batch-size", "8",
           "--run-dir", "none"},
          {});
  EXPECT_EQ(loss(train(shards_, {})), loss(trained)) << "its streams read on from within a pipe";
}

TEST_F(Balance, OrderIsWhatAPipelineOfTheSameOptionsGives) {
  for (const bool indexed : {false, true}) {
    if (indexed) add_indexes();
    const int workers = indexed ? 3 : 2;
    const ProcessResult printed =
        order({"--workers", std::to_string(workers), "--shuffle", "20", "--seed", "7"});
    ASSERT_EQ(printed.status, 0) << printed.err;
    std::vector<std::string> expected;
    for (const auto& line : json_lines(printed.out)) expected.push_back(line["key"]);
    auto pipeline = pipeline::Pipeline::Builder()
                        .shards(shards_)
                        .indexed()
                        .split({.workers = workers})
                        .shuffle({.shards = true, .buffer_samples = 20, .seed = 7})
                        .field(pipeline::LabelField{.classes = 10})
                        .batch({.size = 50})
                        .build();
    pipeline::Batch batch;
    ASSERT_TRUE(pipeline.next(batch));
    EXPECT_EQ(batch.keys, expected) << indexed;
  }
}

TEST_F(Balance, OrderOfAMixOrAPartOfASetIsAPipelinesToo) {
  const TempDir other;
  const std::string more = make_set(other, 30, 40, {"--format", "ppm", "--seed", "2"});
  const auto printed = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"order", "--json", "--workers", "3", "--shuffle", "20"});
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << result.err;
    std::vector<std::string> keys;
    for (const auto& line : json_lines(result.out)) keys.push_back(line["key"]);
    return keys;
  };
  const auto read =
      [](pipeline::Pipeline::Builder builder,
         const wds::ShuffleOptions& shuffle = {.shards = true, .buffer_samples = 20}) {
        auto pipeline = builder.split({.workers = 3})
                            .shuffle(shuffle)
                            .field(pipeline::LabelField{.classes = 10})
                            .batch({.size = 200, .uneven = pipeline::Uneven::kPartial})
                            .build();
        pipeline::Batch batch;
        EXPECT_TRUE(pipeline.next(batch));
        return batch.keys;
      };
  EXPECT_EQ(
      printed({"0.5:" + shards_, "0.25:" + more, "--mix-end", "drop"}),
      read(
          pipeline::Pipeline::Builder().mix(0.5, shards_).mix(0.25, more).mix(wds::MixEnd::kDrop)));
  EXPECT_EQ(printed({"0.5:" + shards_, "0.25:" + more, "--balance", "classes", "--copies", "2"}),
            read(pipeline::Pipeline::Builder().mix(0.5, shards_).mix(0.25, more),
                 {.copies = 2, .order = wds::Order::kPermutation, .balance = "classes"}));
  EXPECT_EQ(printed({shards_, "--skip", "7", "--take", "40"}),
            read(pipeline::Pipeline::Builder().shards(shards_).skip(7).take(40)));
  EXPECT_EQ(millrace({"order", "0.5:" + shards_, more}).status, 2);
  EXPECT_EQ(millrace({"order", shards_, "--mix-end", "drop"}).status, 2);
  EXPECT_EQ(millrace({"bench", "0.5:" + shards_, "0.5:" + more, "--seconds", "0.1"}).status, 0);
}

// The slots of each batch of each device, in every way to spread them: with streams that all
// devices divide and with others, with an epoch that does not divide, and where a process runs out
// early.
TEST_F(Balance, OrderSaysWhichSampleEachDevicesBatchHas) {
  struct Case {
    Topology shape;
    int streams;
    pipeline::BatchOptions batch;
    bool scan = true;
  };
  for (const Case& one :
       {Case{{.processes = 1, .devices = 3}, 4, {.size = 3}},
        Case{{.processes = 2, .devices = 2}, 4, {.size = 3}},
        Case{{.processes = 2, .devices = 2}, 8, {.size = 3, .uneven = pipeline::Uneven::kPartial}},
        Case{{.processes = 2, .devices = 2}, 6, {.size = 3}},
        Case{{.processes = 2, .devices = 2}, 4, {.size = 3, .uneven = pipeline::Uneven::kDrop}},
        Case{{.processes = 2, .devices = 2}, 2, {.size = 3}, false}}) {
    std::vector<std::string> words = {"--processes",  std::to_string(one.shape.processes),
                                      "--devices",    std::to_string(one.shape.devices),
                                      "--streams",    std::to_string(one.streams),
                                      "--batch-size", std::to_string(one.batch.size),
                                      "--shuffle",    "20",
                                      "--seed",       "7"};
    const auto uneven = word_of(one.batch.uneven, pipeline::kUnevenWords);
    words.push_back("--uneven=" + std::string(uneven));
    if (!one.scan) words.insert(words.end(), {"--no-scan", "--no-index"});
    std::map<std::int64_t, std::string> printed;
    for (const auto& line : json_lines(order(words).out))
      if (line.contains("key")) printed[line["slot"]] = line["key"];
    std::map<std::int64_t, std::string> found;
    for (int process = 0; process < one.shape.processes; ++process) {
      Topology shape = one.shape;
      shape.process = process;
      auto pipeline = pipeline::Pipeline::Builder()
                          .shards(shards_)
                          .scan(one.scan)
                          .split({.topology = shape, .streams = one.streams})
                          .shuffle({.shards = true, .buffer_samples = 20, .seed = 7})
                          .field(pipeline::LabelField{.classes = 10})
                          .batch(one.batch)
                          .build();
      for (pipeline::Batch batch; pipeline.next(batch);)
        for (std::int64_t i = 0; i < batch.size; ++i)
          if (const std::string& key = batch.keys[static_cast<std::size_t>(i)]; !key.empty())
            found[batch.slots.first + i * batch.slots.stride] = key;
    }
    const std::size_t wanted = one.batch.uneven == pipeline::Uneven::kDrop ? 48 : 50;
    EXPECT_EQ(found.size(), wanted);
    EXPECT_EQ(found, printed) << one.shape.processes << " x " << one.shape.devices << " of "
                              << one.streams << " streams";
  }
}

TEST_F(Balance, OrderDividesSamplesEvenlyAndSaysSo) {
  add_indexes();
  const ProcessResult result = order({"--processes", "2", "--workers", "2"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(count_of(result.err, "divided evenly among the streams, by 2 indexes"), 1U)
      << result.err;
  std::map<int, int> lengths;
  for (const auto& line : json_lines(result.out)) ++lengths[line["stream"].get<int>()];
  EXPECT_EQ(lengths, (std::map<int, int>{{0, 13}, {1, 13}, {2, 12}, {3, 12}}));
  for (const std::vector<std::string>& whole :
       std::vector<std::vector<std::string>>{{"--workers", "4", "--no-index", "--no-scan"},
                                             {"--workers", "4", "--order", "webdataset"}}) {
    const ProcessResult refused = order(whole);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("2 shards are too few"));
  }
}

TEST_F(Balance, TrainChecksSamplesAndTakesFewerShardsThanStreams) {
  EXPECT_EQ(train(shards_, {"--no-scan"}).status, 2);
  add_indexes();
  const ProcessResult whole = train(shards_, {"--val", shards_});
  ASSERT_EQ(whole.status, 0) << whole.err;
  EXPECT_EQ(count_of(whole.err, "divided evenly among the streams, by 4 indexes"), 1U) << whole.err;
  flip_a_pixel();
  const ProcessResult damaged = train(shards_, {});
  EXPECT_EQ(damaged.status, 1);
  EXPECT_THAT(damaged.err,
              AllOf(HasSubstr("set-000000.tar"), HasSubstr("00000003"), HasSubstr("offset"),
                    HasSubstr("CRC-32 is not what the index says")));
  const ProcessResult unchecked = train(shards_, {"--no-index"}, "2");
  EXPECT_EQ(unchecked.status, 0) << unchecked.err;
  EXPECT_THAT(unchecked.err, Not(HasSubstr("balanced")));
}

TEST_F(Balance, AScanGivesTheOrderOfIndexesInEveryCommandThatDividesStreams) {
  const std::vector<std::string> asked = {"--processes", "2", "--workers", "3", "--shuffle", "9"};
  const ProcessResult scanned = order(asked);
  ASSERT_EQ(scanned.status, 0) << scanned.err;
  EXPECT_THAT(scanned.err,
              HasSubstr("scanned the headers of 2 shards without an index: 50 samples"));
  const ProcessResult trained = train(shards_, {"--schedule", "cosine", "--schedule-unit", "step"});
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.err, AllOf(HasSubstr("scanned the headers of 2 shards"),
                                 HasSubstr("50 samples make 7 steps per epoch")));
  const std::vector<std::string> whole = {"--processes", "2", "--shuffle", "9", "--no-scan"};
  const ProcessResult divided = order(whole);
  ASSERT_EQ(divided.status, 0) << divided.err;
  EXPECT_THAT(divided.err, AllOf(HasSubstr("whole shards are divided"), HasSubstr("unknown"),
                                 Not(HasSubstr("scanned"))));
  add_indexes();
  EXPECT_EQ(order(asked).out, scanned.out);
}

TEST_F(Balance, ADamagedIndexIsNamedOnceAndCostsNoSample) {
  add_indexes();
  const std::string sound = order({"--shuffle", "20"}).out;
  const std::string text = read_file(dir_ / "set-000001.tar.index.json");
  for (const std::string& damaged : {std::string("damaged"), text.substr(0, text.size() / 2)}) {
    write_file(dir_ / "set-000001.tar.index.json", damaged);
    for (const char* policy : {"fail", "skip"}) {
      const ProcessResult read = order({"--shuffle", "20", "--on-fault", policy});
      EXPECT_EQ(read.status, 0) << read.err;
      EXPECT_EQ(read.out, sound) << "the manifest beside says how many samples there are";
      EXPECT_THAT(read.err, HasSubstr("set-000001.tar.index.json"));
    }
    // The shards are read repeatedly: one line, and the number of repeats.
    const ProcessResult bench =
        run({"bench", shards_, "--stage", "read", "--seconds", "0.5", "--workers", "1"}, {});
    EXPECT_EQ(bench.status, 0) << bench.err;
    EXPECT_EQ(count_of(bench.err, "set-000001.tar.index.json"), 1U) << bench.err;
    EXPECT_THAT(bench.err, HasSubstr("times more"));
    EXPECT_EQ(run({"order", shards_}, {"--no-index"}).status, 0);
  }
}

TEST_F(Balance, ARequiredIndexThatIsDamagedOrMissingIsAFaultInEveryCommand) {
  add_indexes();
  const std::vector<std::vector<std::string>> commands = {
      {"ls", shards_},
      {"cat", shards_, "00000049.cls"},
      {"stats", shards_},
      {"verify", shards_},
      {"order", shards_},
      {"bench", shards_, "--stage", "read", "--seconds", "0.1"},
      {"view", shards_, "-o", dir_ / "sheet.png", "--count", "50", "--force"},
      {"reshard", shards_, dir_ / "new/n-%06d.tar", "--force"}};
  for (const auto& command : commands)
    EXPECT_EQ(run(command, {"--require-index"}).status, 0) << command[0];
  EXPECT_EQ(train(shards_, {"--require-index"}).status, 0);
  EXPECT_EQ(order({"--require-index", "--no-index"}).status, 2);
  for (const bool missing : {false, true}) {
    write_file(dir_ / "set-000001.tar.index.json", "damaged");
    if (missing) std::filesystem::remove(dir_ / "set-000001.tar.index.json");
    for (const auto& command : commands) {
      const ProcessResult refused = run(command, {"--require-index"});
      EXPECT_EQ(refused.status, 1) << command[0] << (missing ? ", missing" : "");
      EXPECT_THAT(refused.err, HasSubstr("set-000001.tar")) << command[0];
    }
    EXPECT_EQ(train(shards_, {"--require-index"}, "2").status, 1);
  }
}

// The file ends before the offset of the next sample in its index.
TEST_F(Balance, AShardCutShortBesideItsIndexIsAFaultAndNoCrash) {
  add_indexes();
  std::filesystem::resize_file(dir_ / "set-000000.tar", 600);
  const std::vector<std::vector<std::string>> commands = {
      {"verify", shards_},
      {"bench", shards_, "--stage", "read", "--seconds", "0.1"},
      {"reshard", shards_, dir_ / "new/n-%06d.tar", "--force"}};
  for (const auto& command : commands) {
    EXPECT_EQ(run(command, {}).status, 1) << command[0];
    if (command[0] == "verify") continue;
    const ProcessResult skipped = run(command, {"--on-fault", "skip"});
    EXPECT_EQ(skipped.status, 0) << command[0] << skipped.err;
    // bench has two streams, which share the shard.
    const char* said = command[0] == "bench" ? "skipped 25 samples: " : "skipped 40 samples: ";
    EXPECT_THAT(skipped.err, HasSubstr(said + std::string("Truncated"))) << command[0];
  }
  const ProcessResult trained = train(shards_, {"--on-fault", "skip"});
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_EQ(train(shards_, {"--on-fault", "skip", "--max-faults", "39"}).status, 1);
}

TEST_F(Balance, LostShardsAreCountedInSamplesAndNothingLeftIsAnError) {
  const std::string pattern = dir_ / "new/n-%06d.tar";
  std::filesystem::remove(dir_ / "set-000000.tar");
  const auto reshard = [&] {
    return run({"reshard", shards_, pattern, "--force", "--on-fault", "skip"}, {});
  };
  EXPECT_THAT(reshard().err, HasSubstr("at least 1 sample (1 shard, number of samples unknown)"));
  write_file(dir_ / "set-manifest.json",
             R"({"wids_version":1,"shardlist":[{"url":"set-000000.tar","nsamples":40}]})");
  EXPECT_THAT(reshard().err, HasSubstr("40 samples skipped as damaged"));
  write_file(dir_ / "set-000001.tar", "gone bad");
  for (const char* command : {"ls", "stats", "order"})
    EXPECT_EQ(run({command, shards_, "--on-fault", "skip"}, {}).status, 1) << command;
  EXPECT_EQ(reshard().status, 1);
  const ProcessResult trained = train(shards_, {"--on-fault", "skip"}, "2");
  EXPECT_EQ(trained.status, 1);
  EXPECT_THAT(trained.err, HasSubstr("epoch 0 has no sample"));
}

TEST_F(Balance, OverHttpTheFirstShardSaysWhetherThereAreIndexes) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  Nginx nginx(dir_.path());
  const std::string url = nginx.url("set-{000000..000001}.tar");
  const ProcessResult refused = train(url, {"--no-scan"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("2 shards are too few for 3 streams"));
  EXPECT_EQ(train(url, {}, "2").status, 0);
  std::size_t asked = 0;
  const std::string log = nginx.access_log();
  for (std::size_t at = 0; (at = log.find("set-000001.tar.index.json", at)) != std::string::npos;
       ++at)
    ++asked;
  EXPECT_EQ(asked, 2U) << "by each command once, with the first shard's; not by the streams";
  add_indexes();
  const ProcessResult balanced = train(url, {"--schedule", "cosine", "--schedule-unit", "step"});
  EXPECT_EQ(balanced.status, 0) << balanced.err;
  EXPECT_THAT(balanced.err, AllOf(HasSubstr("divided evenly among the streams, by 2 indexes"),
                                  HasSubstr("50 samples make 7 steps per epoch")));
  EXPECT_EQ(train(url, {"--no-index", "--no-scan"}).status, 2);
}

}  // namespace
}  // namespace millrace::testing
