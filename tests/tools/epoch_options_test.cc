// What an epoch is and how it ends, in every command that has epochs: --uneven (--drop-last,
// --partial), --resampled, --epoch-samples, --repeat, --order webdataset.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "tests/support/tar_builder.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Words = std::vector<std::string>;

/// 50 samples in shards of 40 and 10.
class EpochOptions : public ::testing::Test {
 protected:
  EpochOptions() : shards_(make_set(dir_, 50, 40, {"--format", "ppm"})) {
    millrace({"index", shards_});
  }

  static ProcessResult run(Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }
  ProcessResult order(const Words& more) const {
    return run({"order", shards_, "--json", "--shuffle", "10", "--seed", "3"}, more);
  }
  /// The printed slots, masked ones counted; each key's slots.
  std::map<std::string, std::vector<int>> slots(const Words& more, std::size_t masked) const {
    const ProcessResult result = order(more);
    EXPECT_EQ(result.status, 0) << result.err;
    std::map<std::string, std::vector<int>> by_key;
    std::size_t without = 0;
    for (const auto& line : json_lines(result.out)) {
      if (line.contains("masked"))
        ++without;
      else
        by_key[line["key"]].push_back(line["slot"]);
    }
    EXPECT_EQ(without, masked);
    return by_key;
  }
  /// With two workers, unless `more` says how many.
  ProcessResult train(const Words& more) const {
    Words words = {"train",  "--train",   shards_, "--model",   "lenet",     "--channels",
                   "3",      "--size",    "16",    "--classes", "10",        "--batch-size",
                   "8",      "--devices", "2",     "--json",    "--run-dir", dir_ / "run",
                   "--force"};
    if (std::ranges::find(more, "--workers") == more.end())
      words.insert(words.end(), {"--workers", "2"});
    return run(words, more);
  }
  /// The first epoch's samples.
  int trained(const Words& more) const {
    const ProcessResult result = train(more);
    EXPECT_EQ(result.status, 0) << result.err;
    for (const auto& line : json_lines(result.out))
      if (line["event"] == "epoch") return line["train_samples"];
    return -1;
  }

  TempDir dir_;
  std::string shards_;
  std::string run_dir_ = dir_ / "run";
};

TEST_F(EpochOptions, OrderShowsStepsAndMaskedSlots) {
  const Words two = {"--processes", "2", "--batch-size", "8"};
  const auto with = [&](Words words) {
    words.insert(words.begin(), two.begin(), two.end());
    return words;
  };
  EXPECT_EQ(slots(with({}), 14).size(), 50U);
  EXPECT_EQ(slots(with({"--partial"}), 0).size(), 50U);
  EXPECT_EQ(slots(with({"--uneven", "drop"}), 0).size(), 48U);
  EXPECT_EQ(order(with({"--drop-last"})).out, order(with({"--uneven", "drop"})).out);
  const ProcessResult refused = order(with({"--uneven", "error"}));
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("50 samples leaves 2 over from global batches of 16"),
                                 HasSubstr("an epoch of 48 samples")));
  EXPECT_EQ(order({"--batch-size", "10", "--uneven", "error"}).status, 0);
  for (const auto& line : json_lines(order(with({})).out))
    EXPECT_EQ(line["step"], line["slot"].get<int>() / 16 + 1);
}

TEST_F(EpochOptions, OrderOfProcessesThatRunOutUnevenlyKeepsTheirStepsEqual) {
  const Words uneven = {"--processes", "2", "--batch-size", "8", "--no-index", "--no-scan"};
  const auto with = [&](Words words) {
    words.insert(words.begin(), uneven.begin(), uneven.end());
    return words;
  };
  EXPECT_EQ(slots(with({}), 30).size(), 50U) << "5 steps of 16 slots";
  EXPECT_EQ(slots(with({"--drop-last"}), 0).size(), 16U) << "one process has one whole batch";
  EXPECT_EQ(slots(with({"--process", "0"}), 30).size(), 10U);
  const ProcessResult unknown = order(with({"--uneven", "error"}));
  EXPECT_EQ(unknown.status, 2);
  EXPECT_THAT(unknown.err, HasSubstr("is not known"));
}

TEST_F(EpochOptions, OrderRepeatsNothingBeforeAllWasSeen) {
  std::map<std::string, std::vector<int>> seen = slots({"--epoch-samples", "120"}, 0);
  ASSERT_EQ(seen.size(), 50U);
  for (const auto& [key, at] : seen) {
    EXPECT_LT(at.at(0), 50) << key;
    EXPECT_GE(at.at(1), 50) << key;
    EXPECT_LT(at.at(1), 100) << key;
  }
  seen = slots({"--repeat", "3"}, 0);
  ASSERT_EQ(seen.size(), 50U);
  for (const auto& [key, at] : seen) EXPECT_EQ(at.size(), 3U) << key;
  EXPECT_EQ(slots({"--repeat", "1", "--epoch-samples", "30"}, 0).size(), 30U);
  EXPECT_EQ(slots({"--repeat", "1", "--epoch-samples", "80"}, 0).size(), 50U);
  std::size_t drawn = 0;
  for (const auto& [key, at] : slots({"--resampled", "--epoch-samples", "77"}, 0))
    drawn += at.size();
  EXPECT_EQ(drawn, 77U);
}

TEST_F(EpochOptions, PassesHaveOneOrderOnEveryLayout) {
  const auto digest = [&](Words words, const Words& more) {
    words.insert(words.end(), more.begin(), more.end());
    words.emplace_back("--digest");
    const ProcessResult result = order(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out).at(0);
  };
  for (const Words& passes : std::vector<Words>{{"--take", "5", "--repeat", "4"},
                                                {"--take", "17", "--repeat", "30"},
                                                {"--take", "3", "--epoch-samples", "100"},
                                                {"--repeat", "3", "--order", "permutation"}}) {
    Words words = passes;
    words.insert(words.end(), {"--streams", "12"});
    const auto one = digest(words, {});
    for (const Words& layout : std::vector<Words>{{"--processes", "2"},
                                                  {"--processes", "4", "--devices", "3"},
                                                  {"--processes", "12"},
                                                  {"--devices", "5"}})
      EXPECT_EQ(digest(words, layout), one) << passes[1] << " " << layout[1];
  }
  const Words issue = {"--take", "5", "--repeat", "4", "--streams", "4", "--batch-size", "2"};
  for (const char* processes : {"1", "2", "4"}) {
    Words words = issue;
    words.insert(words.end(), {"--processes", processes});
    std::size_t samples = 0;
    for (const auto& line : json_lines(order(words).out)) samples += line.contains("key") ? 1 : 0;
    EXPECT_EQ(samples, 20U) << processes;
    words.emplace_back("--drop-last");
    EXPECT_EQ(json_lines(order(words).out).size(), processes == std::string("4") ? 16U : 20U);
  }
}

TEST_F(EpochOptions, AnEpochOfAGivenLengthHasItWithFewerSamplesThanStreams) {
  for (const char* streams : {"1", "4", "12", "60"}) {
    const ProcessResult result =
        order({"--take", "3", "--epoch-samples", "100", "--digest", "--streams", streams});
    EXPECT_EQ(json_lines(result.out).at(0)["slots"], 100) << streams;
  }
  EXPECT_EQ(trained({"--take", "3", "--epoch-samples", "100"}), 100);
  EXPECT_EQ(trained({"--take", "3", "--repeat", "33", "--workers", "4"}), 99);
}

TEST_F(EpochOptions, AMixRepeatsASmallSetAlikeOnEveryLayout) {
  const std::string mixed = dir_ / "small/set.tar";
  write_file(mixed,
             TarBuilder().file("a.cls", "1").file("b.cls", "2").file("c.cls", "3").end().bytes());
  const auto digest = [&](const Words& more) {
    Words words = {"order", "0.5:" + shards_, "0.5:" + mixed, "--mix-end", "repeat", "--streams",
                   "8",     "--json",         "--digest"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out).at(0);
  };
  EXPECT_GE(digest({})["slots"].get<int>(), 100);
  EXPECT_EQ(digest({"--processes", "4"}), digest({}));
  EXPECT_EQ(digest({"--processes", "2", "--devices", "4"}), digest({}));
}

TEST_F(EpochOptions, SetsOfAMixHavePassesOrAreResampledAlikeOnEveryLayout) {
  const std::string small = dir_ / "small/set.tar";
  write_file(small,
             TarBuilder().file("a.cls", "1").file("b.cls", "2").file("c.cls", "3").end().bytes());
  const auto digest = [&](const Words& epoch, const Words& layout) {
    Words words = {"order", "0.5:" + shards_, "0.5:" + small, "--streams",
                   "8",     "--digest",       "--json"};
    words.insert(words.end(), epoch.begin(), epoch.end());
    words.insert(words.end(), layout.begin(), layout.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out).at(0);
  };
  const std::vector<std::pair<Words, int>> epochs = {
      {{"--repeat", "5", "--mix-end", "drop"}, 5 * 53},
      {{"--repeat", "9"}, 49},  // of 54: one of the streams has its last small sample
      {{"--repeat", "5", "--epoch-samples", "100", "--mix-end", "repeat"}, 100},
      {{"--resampled", "--epoch-samples", "101"}, 101},
      {{"--where", "key matches '*7' or key matches '[ab]'", "--mix-end", "drop"}, 5 + 2},
      {{"--order", "permutation", "--repeat", "5", "--mix-end", "drop"}, 5 * 53}};
  for (const auto& [epoch, samples] : epochs) {
    const auto one = digest(epoch, {});
    EXPECT_EQ(one["slots"], samples) << epoch[0];
    EXPECT_EQ(digest(epoch, {"--processes", "4"}), one) << epoch[0];
    EXPECT_EQ(digest(epoch, {"--processes", "2", "--devices", "4"}), one) << epoch[0];
  }
}

TEST_F(EpochOptions, OrderHasTheDefaultsOfTrain) {
  const auto digest = [&](Words words) {
    words.insert(words.begin(), {"order", shards_, "--digest"});
    return millrace(words).out;
  };
  EXPECT_EQ(digest({}), digest({"--shuffle", "5000", "--workers", "2"})) << "two shards";
  EXPECT_NE(digest({}), digest({"--shuffle", "0", "--workers", "1"}));
  const auto line_of = [](const char* command, const std::string& option) {
    const std::string help = millrace({command, "--help", "all"}).out;
    const std::size_t at = help.find("  " + option + " ");
    return help.substr(at, help.find("\n  --", at) - at);
  };
  for (const char* option : {"--streams", "--order", "--resampled", "--epoch-samples", "--repeat",
                             "--skip-samples", "--take-samples", "--uneven"})
    EXPECT_EQ(line_of("order", option), line_of("train", option));
}

TEST_F(EpochOptions, APermutationHasPassesAndNeedsNoIndex) {
  const Words permuted = {"--order", "permutation", "--repeat", "2"};
  const auto seen = slots(permuted, 0);
  ASSERT_EQ(seen.size(), 50U);
  for (const auto& [key, at] : seen) {
    ASSERT_EQ(at.size(), 2U) << key;
    EXPECT_LT(at[0], 50) << key;
  }
  const ProcessResult scanned = order({"--order", "permutation", "--repeat", "2", "--no-index"});
  EXPECT_EQ(scanned.out, order(permuted).out);
  EXPECT_EQ(scanned.err.find("divided evenly"), std::string::npos) << scanned.err;
  EXPECT_EQ(trained(permuted), 100);
}

/// All but the header of the last sample, by which a shard is known to be that of its index.
std::string with_lost_contents(std::string tar, const std::string& index) {
  const std::size_t kept = nlohmann::json::parse(index)["samples"].back()[1];
  for (std::size_t at = 0; at < tar.size(); ++at)
    if (at < kept || at >= kept + 512) tar[at] = '?';
  return tar;
}

TEST_F(EpochOptions, OrderReadsIndexesOnly) {
  const Words shuffled = {"--workers", "3", "--repeat", "2"};
  const std::string before = order(shuffled).out;
  const std::string read = order({"--no-index", "--workers", "2"}).out;
  EXPECT_EQ(order({"--workers", "2"}).out, read) << "the same as from the shards";
  for (const std::string shard : {"set-000000.tar", "set-000001.tar"})
    write_file(dir_ / shard, with_lost_contents(read_file(dir_ / shard),
                                                read_file(dir_ / (shard + ".index.json"))));
  const ProcessResult result = order(shuffled);
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(result.out, before);
  EXPECT_EQ(order({"--no-index"}).status, 1);
}

TEST_F(EpochOptions, ADigestIsEqualForEqualOrders) {
  const auto digest = [&](const Words& more) {
    Words words = {"--digest", "--streams", "4"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = order(words);
    EXPECT_EQ(result.status, 0) << result.err;
    auto line = json_lines(result.out).at(0);
    EXPECT_EQ(line["sha256"].get<std::string>().size(), 64U);
    return line;
  };
  EXPECT_EQ(digest({})["slots"], 50);
  EXPECT_EQ(digest({}), digest({"--processes", "4"})) << "one order for all worlds";
  EXPECT_EQ(digest({}), digest({"--threads", "1"}));
  EXPECT_EQ(digest({}), digest({"--processes", "2", "--devices", "2"})) << "and all layouts";
  EXPECT_EQ(digest({}), digest({"--devices", "4"}));
  EXPECT_NE(digest({}), digest({"--epoch", "1"}));
  EXPECT_NE(digest({}), digest({"--limit", "49"}));
}

TEST_F(EpochOptions, TwoSetUpsAreComparedSlotBySlot) {
  const auto diff = [&](const std::string& a, const std::string& b, const Words& more = {}) {
    Words words = {"--diff", a, b};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = order(words);
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out).at(0);
  };
  const auto same = diff("processes=1 workers=4", "processes=4 workers=1");
  EXPECT_EQ(same["same"], true);
  EXPECT_EQ(same["slots"], 50);
  const auto other = diff("workers=2", "workers=5");
  EXPECT_EQ(other["same"], false);
  EXPECT_EQ(other["a"]["slot"], other["slots"]);
  EXPECT_NE(other["a"]["key"], other["b"]["key"]);
  const auto end = diff("uneven=pad", "drop-last", {"--batch-size", "16"});
  EXPECT_EQ(end["slots"], 48);
  EXPECT_EQ(end["a"]["step"], 4);
  EXPECT_EQ(end["a"]["batch"], 3);
  EXPECT_TRUE(end["b"].is_null());
  const auto whose = diff("batch-size=3 streams=4 processes=2 devices=2",
                          "batch-size=3 streams=4 processes=2 devices=2 epoch-samples=43");
  EXPECT_EQ(whose["slots"], 43);  // slot 43 is replica 3's in step 4
  EXPECT_EQ(whose["a"]["process"], 1);
  EXPECT_EQ(whose["a"]["device"], 1);
  EXPECT_EQ(whose["a"]["batch"], 7);
  write_file(dir_ / "a.toml", "workers = 3\n");
  EXPECT_EQ(diff(dir_ / "a.toml", "workers=3")["same"], true);
  EXPECT_EQ(order({"--diff", "workers=2", "wrokers=3"}).status, 2);
}

TEST_F(EpochOptions, TrainPadsDropsOrRefuses) {
  EXPECT_EQ(trained({}), 50);
  EXPECT_EQ(trained({"--partial"}), 50);
  EXPECT_EQ(trained({"--uneven", "drop"}), 48);
  EXPECT_EQ(trained({"--drop-last", "--val", shards_}), 48);
  EXPECT_EQ(trained({"--resampled", "--epoch-samples", "33"}), 33);
  EXPECT_EQ(trained({"--resampled", "--epoch-samples", "33", "--drop-last"}), 32);
  EXPECT_EQ(trained({"--repeat", "2"}), 100);
  EXPECT_EQ(trained({"--order", "webdataset", "--epoch-samples", "20"}), 20);
  run_dir_ = dir_ / "none";
  const ProcessResult refused = train({"--uneven", "error"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("50 samples leaves 2 over from global batches of 16 (2 "
                                     "devices x batch size 8)"));
  EXPECT_FALSE(std::filesystem::exists(run_dir_));
}

TEST_F(EpochOptions, EvaluationCountsEachSampleOnceUnlessTheUserDropsSome) {
  ASSERT_EQ(trained({}), 50);
  const Words eval = {"eval",  "--checkpoint", dir_ / "run/checkpoints/last",
                      shards_, "--json",       "--devices",
                      "2",     "--batch-size", "8"};
  const auto samples = [&](const Words& more) {
    const ProcessResult result = run(eval, more);
    EXPECT_EQ(result.status, 0) << result.err;
    return json_lines(result.out).back()["val_samples"].get<int>();
  };
  EXPECT_EQ(samples({}), 50);
  EXPECT_EQ(samples({"--partial"}), 50);
  EXPECT_EQ(samples({"--drop-last"}), 48);
  EXPECT_EQ(samples({"--where", "key matches '*7'"}), 5);
  EXPECT_THAT(run(eval, {"--where", "cls >"}).err, HasSubstr("column"));
  EXPECT_EQ(run(eval, {"--uneven", "error"}).status, 2);
  EXPECT_EQ(run(eval, {"--resampled"}).status, 2) << "an evaluation is every sample once";
}

TEST_F(EpochOptions, BenchTakesThemAll) {
  const Words bench = {"bench", shards_, "--seconds", "0.1", "--batch-size", "16"};
  for (const Words& more : std::vector<Words>{
           {"--uneven", "drop"},
           {"--partial"},
           {"--resampled", "--epoch-samples", "40"},
           {"--repeat", "2", "--shuffle", "5"},
           {"--order", "webdataset", "--shuffle", "5", "--detshuffle", "--workers", "2"}}) {
    const ProcessResult result = run(bench, more);
    EXPECT_EQ(result.status, 0) << more[0] << result.err;
  }
  EXPECT_EQ(run(bench, {"--uneven", "error"}).status, 2);
  EXPECT_EQ(run(bench, {"--uneven", "drop", "--batch-size", "64"}).status, 2);
}

TEST_F(EpochOptions, WhatContradictsItselfIsRefusedInTheSameWords) {
  const Words bench = {"bench", shards_, "--seconds", "0.1"};
  for (const auto& [more, why] : std::vector<std::pair<Words, const char*>>{
           {{"--resampled"}, "--epoch-samples says how many"},
           {{"--resampled", "--epoch-samples", "9", "--repeat", "2"}, "--repeat"},
           {{"--resampled", "--epoch-samples", "9", "--order", "permutation"}, "one of them"},
           {{"--open-shards", "2", "--order", "permutation"},
            "--order.open-shards is a parameter of shuffled, "},
           {{"--detshuffle"}, "--order.detshuffle is a parameter of webdataset, "},
           {{"--shard-shuffle", "3"}, "--order.shard-shuffle is a parameter of webdataset, "},
           {{"--order", "webdataset", "--detshuffle", "--repeat", "2"}, "--repeat 1"},
           {{"--drop-last", "--uneven", "error"}, "--drop-last and --uneven are both --uneven"},
           {{"--workers", "2", "--streams", "2"}, "--workers and --streams are both --streams"},
           {{"--partial", "--drop-last"}, "--partial and --drop-last are both --uneven"}}) {
    for (const ProcessResult& result : {order(more), train(more), run(bench, more)}) {
      EXPECT_EQ(result.status, 2) << more[0];
      EXPECT_THAT(result.err, HasSubstr(why)) << more[0];
    }
  }
  EXPECT_EQ(order({"--uneven", "drop"}).status, 2) << "of which batches?";
}

TEST_F(EpochOptions, ACheckpointKnowsTheOrderThatItsRunHad) {
  ASSERT_EQ(trained({"--order", "webdataset", "--shuffle", "7", "--shuffle-initial", "3",
                     "--shard-shuffle", "5", "--detshuffle"}),
            50);
  const std::string state = read_file(dir_ / "run/checkpoints/last/state.json");
  for (const char* option : {"order", "shard-buffer", "shuffle-initial", "detshuffle"})
    EXPECT_THAT(state, HasSubstr(option));
  EXPECT_THAT(state, HasSubstr("webdataset"));
}

}  // namespace
}  // namespace millrace::testing
