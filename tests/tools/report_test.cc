// `report`, and the page that `train` draws: parsed strictly by tests/tools/report_page.py and,
// where there is one, laid out by a browser.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/pages.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class Report : public ::testing::Test {
 protected:
  ProcessResult try_train(const std::string& run, const std::vector<std::string>& more) const {
    const std::string shards = shards_;
    std::vector<std::string> words = {"train",       shards,  "--val",        shards,
                                      "--model",     "lenet", "--batch-size", "8",
                                      "--log-steps", "2",     "--run-dir",    dir_ / run};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }
  void train(const std::string& run, const std::vector<std::string>& more = {}) const {
    const ProcessResult result = try_train(run, more);
    ASSERT_EQ(result.status, 0) << result.err;
  }
  ProcessResult report(std::vector<std::string> words) const {
    words.insert(words.begin(), "report");
    words.insert(words.end(), {"-o", dir_ / "page.html", "--force"});
    return millrace(words);
  }
  /// A folder with nothing but these metrics.
  std::string folder_of(const std::string& name, const std::string& metrics) const {
    write_file(dir_ / name + "/metrics.jsonl", metrics);
    return dir_ / name;
  }

  TempDir dir_;
  std::string shards_ = make_set(dir_, 64, 32);
};

TEST_F(Report, HasTheNumbersOfTheMetrics) {
  train("run", {"--epochs", "3", "--devices", "2"});
  const auto page = parse_page(dir_ / "run/report.html", dir_ / "run/metrics.jsonl");
  EXPECT_EQ(page["epochs"], 3);
  EXPECT_THAT(text_of(page),
              AllOf(HasSubstr("all epochs done"), HasSubstr("rank 1"),
                    HasSubstr("as many samples as the index has"), HasSubstr("set-000000.tar"),
                    HasSubstr("oneDNN"), HasSubstr("label_smoothing")));
  EXPECT_GE(page["pictures"], 6);
}

TEST_F(Report, IsTheSameWhenDrawnAgain) {
  train("run", {"--epochs", "2"});
  ASSERT_EQ(report({dir_ / "run"}).status, 0);
  EXPECT_TRUE(read_file(dir_ / "page.html") == read_file(dir_ / "run/report.html"));
}

TEST_F(Report, JoinsARunThatWasResumed) {
  train("run", {"--epochs", "2"});
  train("run", {"--epochs", "4", "--resume", "auto"});
  const auto page = parse_page(dir_ / "run/report.html", dir_ / "run/metrics.jsonl");
  EXPECT_EQ(page["epochs"], 4);
  EXPECT_THAT(text_of(page), AllOf(HasSubstr("in 2 sessions"), HasSubstr(", resumed 20")));
}

// What a session was, and what it took, as far as the last epoch it ended.
TEST_F(Report, TellsTheModelAndEachSession) {
  train("run", {"--epochs", "1"});
  train("run", {"--epochs", "2", "--resume", "auto", "--seed", "0"});
  const auto run = nlohmann::json::parse(read_file(dir_ / "run/run.json"));
  EXPECT_EQ(run["model"]["parameters"], 61706);
  ASSERT_EQ(run["sessions"].size(), 2U);
  for (const auto& session : run["sessions"]) {
    EXPECT_FALSE(session["host"].get<std::string>().empty());
    ASSERT_EQ(session["peak_bytes"].size(), 1U);
    EXPECT_GT(session["peak_bytes"][0].get<double>(), 1e6);
  }
  const auto page = parse_page(dir_ / "run/report.html");
  EXPECT_THAT(text_of(page), AllOf(HasSubstr("61.7k parameters"), HasSubstr("begun 20"),
                                   HasSubstr("millrace train "), HasSubstr(shards_),
                                   HasSubstr("--resume auto --seed 0")));
  EXPECT_THAT(page["rows"].dump(), HasSubstr("most memory"));
}

// Each epoch is held against the set that its own session had.
TEST_F(Report, JudgesEachSessionByItsOwnSet) {
  ASSERT_EQ(millrace({"index", shards_}).status, 0);
  train("run", {"--epochs", "2"});
  const std::string first = dir_ / "set-000000.tar";
  const ProcessResult resumed = millrace(
      {"train", first, "--val", first, "--model", "lenet", "--batch-size", "8", "--run-dir",
       dir_ / "run", "--epochs", "3", "--resume", "auto", "--allow-changed-data"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  const auto page = parse_page(dir_ / "run/report.html", dir_ / "run/metrics.jsonl");
  const std::string rows = page["rows"].dump();
  EXPECT_THAT(rows, AllOf(HasSubstr(R"(["epoch 2","64","0","none","0","0","64","✓ all of them")"),
                          HasSubstr(R"(["epoch 3","32","0","none","0","0","32","✓ all of them")"),
                          HasSubstr(R"(["epoch 2","64","0","64","✓ all of them"])"),
                          HasSubstr(R"(["epoch 3","32","0","32","✓ all of them"])")));
  EXPECT_THAT(text_of(page),
              AllOf(HasSubstr("From epoch 3 on the run trained on another set: 32 samples by its "
                              "index, 64 before."),
                    HasSubstr("From epoch 3 on the run was evaluated on another set: 32 samples")));
}

TEST_F(Report, TellsACommandWithoutItsSecrets) {
  const std::string spec = "pipe:cat " + shards_ + " # https://me:word@host/x?key=hidden";
  const ProcessResult result =
      millrace({"train", spec, "--allow-pipe", "--model", "lenet", "--classes", "10", "--size",
                "32", "--batch-size", "8", "--run-dir", dir_ / "run"});
  ASSERT_EQ(result.status, 0) << result.err;
  const std::string run = read_file(dir_ / "run/run.json");
  EXPECT_THAT(run, AllOf(HasSubstr("# https://host/x' --allow-pipe"), Not(HasSubstr("hidden")),
                         Not(HasSubstr("me:word"))));
}

TEST_F(Report, TellsTheSessionsOfEarlierVersions) {
  const std::string run = folder_of("run", "");
  write_file(run + "/run.json",
             R"({"started":"2026-01-02","resumed":["2026-01-03","2026-01-04"]})");
  ASSERT_EQ(report({run}).status, 0);
  const auto page = parse_page(dir_ / "page.html");
  EXPECT_THAT(text_of(page), HasSubstr("begun 2026-01-02, resumed 2026-01-04"));
  EXPECT_THAT(page["rows"].dump(), HasSubstr(R"(["2026-01-03","","–","–","–"])"));
}

/// Steps with these losses.
std::string losses(const std::vector<std::string>& values) {
  std::string text;
  for (std::size_t i = 0; i < values.size(); ++i)
    text += R"({"event":"step","global_step":)" + std::to_string(i + 1) + R"(,"loss":)" +
            values[i] + "}\n";
  return text;
}

// A run that diverged does not press the others' curves flat, and is told of.
TEST_F(Report, LeavesWhatDivergedBeyondTheAxis) {
  const std::string good = folder_of("good", losses({"2.5", "2", "1.5", "1", "1"}));
  const std::string bad = folder_of("bad", losses({"2.5", "2", "400", "1e6", "null"}));
  ASSERT_EQ(report({good, bad}).status, 0);
  const std::string page = read_file(dir_ / "page.html");
  EXPECT_THAT(text_of(parse_page(dir_ / "page.html")),
              AllOf(HasSubstr("bad: ▲ 2 of 4 points are beyond the axis, up to 1M"),
                    HasSubstr("bad: 1 point is not finite")));
  EXPECT_THAT(page, AllOf(HasSubstr("<path class=\"dot c1\""), HasSubstr(">2.5</text>"),
                          Not(HasSubstr(">1M</text>"))));
}

TEST_F(Report, DrawsWhatALossBeginsWith) {
  ASSERT_EQ(report({folder_of("a", losses({"90", "9", "1", "0.01"})),
                    folder_of("b", losses({"9", "8", "7", "6"}))})
                .status,
            0);
  EXPECT_THAT(text_of(parse_page(dir_ / "page.html")), Not(HasSubstr("beyond the axis")));
}

TEST_F(Report, ShowsARunThatOnlyDiverged) {
  ASSERT_EQ(report({folder_of("a", losses({"2", "3", "3000", "1e30"}))}).status, 0);
  EXPECT_THAT(text_of(parse_page(dir_ / "page.html")),
              HasSubstr("2 of 4 points are beyond the axis, up to 1e+30"));
  ASSERT_EQ(report({folder_of("b", losses({"null", "null"}))}).status, 0);
  EXPECT_THAT(text_of(parse_page(dir_ / "page.html")), HasSubstr("2 points are not finite"));
  ASSERT_EQ(report({folder_of("c", losses({"0", "0", "7"}))}).status, 0);
  parse_page(dir_ / "page.html");
}

// The times of both sessions, and the place in the epoch where the second one went on.
TEST_F(Report, AddsUpTheSessionsOfARun) {
  const std::string run =
      folder_of("run", R"({"event":"step","global_step":1,"loss":2})"
                       "\n"
                       R"({"event":"end","seconds":100,"stopped_by":"signal"})"
                       "\n"
                       R"({"event":"step","global_step":3,"loss":1.5})"
                       "\n"
                       R"({"event":"epoch","epoch":1,"global_step":4,"from_step":3,"seconds":20})"
                       "\n"
                       R"({"event":"epoch","epoch":2,"global_step":8,"from_step":1,"seconds":30})"
                       "\n");
  ASSERT_EQ(report({run}).status, 0);
  EXPECT_THAT(text_of(parse_page(dir_ / "page.html")),
              AllOf(HasSubstr("2 min 30 s in 2 sessions"), HasSubstr("epoch 1, from step 3"),
                    HasSubstr("still running")));
}

// A session that was killed left nothing of its last epoch: the time without it is the least.
TEST_F(Report, SaysWhichTimeASessionThatWasKilledLacks) {
  const std::string metrics =
      R"({"event":"epoch","epoch":1,"global_step":4,"train_seconds":19,"seconds":20,"input":)"
      R"({"stages":[{"stage":"read","samples":190}]}})"
      "\n"
      R"({"event":"epoch","epoch":2,"global_step":8,"from_step":3,"train_seconds":9,"seconds":10})"
      "\n"
      R"({"event":"end","seconds":11})"
      "\n";
  const std::string run = folder_of("run", metrics);
  const auto text = [&](const std::string& sessions) {
    write_file(run + "/run.json", R"({"sessions":[)" + sessions + "]}");
    EXPECT_EQ(report({run}).status, 0);
    return text_of(parse_page(dir_ / "page.html"));
  };
  EXPECT_THAT(text(R"({"started":"a"},{"started":"b"})"),
              AllOf(HasSubstr("at least 30.0 s in 2 sessions"), HasSubstr("of its rest")));
  EXPECT_THAT(text(R"({"started":"a"})"),
              AllOf(Not(HasSubstr("at least")), Not(HasSubstr("of its rest"))));
}

TEST_F(Report, SaysWhyARunHasFailed) {
  const ProcessResult result = try_train("run", {"--optimizer", "sgd(1e9)"});
  ASSERT_EQ(result.status, 1) << result.err;
  const auto page = parse_page(dir_ / "run/report.html");
  EXPECT_THAT(text_of(page), AllOf(HasSubstr("failed"), HasSubstr("is not finite at epoch"),
                                   Not(HasSubstr("still running"))));
  EXPECT_THAT(page["pictures"].get<int>(), ::testing::Ge(2)) << "the steps before it";
  EXPECT_THAT(read_file(dir_ / "run/rank-0.log"), HasSubstr("is not finite at epoch"));
}

TEST_F(Report, NamesARunThatIsTheFolderItself) {
  ASSERT_EQ(report({folder_of("own", "") + "/."}).status, 0);
  EXPECT_THAT(parse_page(dir_ / "page.html")["headings"][0], "own");
}

// Where checkpoints are large, saving them is most of an epoch.
TEST_F(Report, ShowsTheTimeOfCheckpoints) {
  const std::string run =
      folder_of("run", R"({"event":"epoch","epoch":1,"train_seconds":10,"val_seconds":5,)"
                       R"("seconds":15.5})"
                       "\n"
                       R"({"event":"saved","epoch":1,"seconds":31})"
                       "\n");
  ASSERT_EQ(report({run}).status, 0);
  EXPECT_THAT(read_file(dir_ / "page.html"), AllOf(HasSubstr("title=\"checkpoints: 31.0 s\""),
                                                   HasSubstr("title=\"the rest: 500.0 ms\"")));
}

TEST_F(Report, SaysWhatLimitedTheWholeRun) {
  const auto epoch = [](int number, double wait, const std::string& verdict) {
    return nlohmann::json{{"event", "epoch"},       {"epoch", number},    {"global_step", number},
                          {"train_seconds", 100.0}, {"wait_share", wait}, {"verdict", verdict}}
               .dump() +
           "\n";
  };
  const std::string run = folder_of("run", epoch(1, 0.5, "input-bound by decode (waits 50.0 %)") +
                                               epoch(2, 0.1, "input-bound by decode (waits 10 %)") +
                                               epoch(3, 0.0, "compute-bound (waits 0.0 %)"));
  ASSERT_EQ(report({run}).status, 0);
  EXPECT_THAT(
      text_of(parse_page(dir_ / "page.html")),
      AllOf(HasSubstr("2 of 3 epochs (66.7 % of the time of training) were input-bound by decode. "
                      "Of 5 min 00 s of training, 1 min 00 s (20.0 %) were spent waiting for "
                      "batches, most in epoch 1: 50.0 %."),
            HasSubstr("--threads")));
}

// A run that has waited too long in some of its epochs is not told that its input is fast enough.
TEST_F(Report, DoesNotPraiseAnInputThatTheRunHasWaitedFor) {
  const auto epoch = [](int number, double seconds, double wait, const std::string& verdict) {
    return nlohmann::json{{"event", "epoch"},         {"epoch", number},    {"global_step", number},
                          {"train_seconds", seconds}, {"wait_share", wait}, {"verdict", verdict}}
               .dump() +
           "\n";
  };
  const std::string first = epoch(1, 90, 0.08, "input-bound by decode (waits 8.0 %)");
  ASSERT_EQ(report({folder_of("slow", first + epoch(2, 110, 0.04, "compute-bound (waits 4.0 %)"))})
                .status,
            0);
  EXPECT_THAT(text_of(parse_page(dir_ / "page.html")),
              AllOf(HasSubstr("1 of 2 epochs (55.0 % of the time of training) was compute-bound."),
                    HasSubstr("(5.8 %) were spent waiting"),
                    HasSubstr("1 epoch was input-bound by decode. Give decoding more cores"),
                    Not(HasSubstr("fast enough")), Not(HasSubstr("Most of"))));
  ASSERT_EQ(report({folder_of("fast", first + epoch(2, 900, 0.01, "compute-bound (waits 1.0 %)"))})
                .status,
            0);
  EXPECT_THAT(text_of(parse_page(dir_ / "page.html")), HasSubstr("The input is fast enough"));
}

// A run that goes on over steps that are not finite says so wherever it tells how it went.
TEST_F(Report, TellsOfStepsThatWereSkipped) {
  const ProcessResult run = try_train("run", {"--epochs", "2", "--optimizer", "sgd(1e18)",
                                              "--schedule", "constant", "--on-non-finite", "skip"});
  ASSERT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.err, AllOf(HasSubstr("Epoch 2: all of its steps (8) were skipped"),
                             HasSubstr("lower the learning rate"), HasSubstr(", Skipped Steps=8")));
  const auto page = parse_page(dir_ / "run/report.html", dir_ / "run/metrics.jsonl");
  EXPECT_THAT(text_of(page),
              AllOf(HasSubstr("of 16 steps were skipped: their loss or gradients were not finite"),
                    HasSubstr("all epochs done, "), HasSubstr("have trained nothing"),
                    Not(HasSubstr("the last batch was not full"))));
  EXPECT_THAT(page["rows"].dump(), HasSubstr(R"("64 in 8 steps that were skipped")"));
}

// As long as a run has not ended, its metrics say which epoch is the best one, and only one is.
TEST_F(Report, TellsTheBestEpochOfARunThatHasNotEnded) {
  const auto epoch = [](int number, double top1, bool is_best) {
    return nlohmann::json{{"event", "epoch"}, {"epoch", number},    {"global_step", number},
                          {"val_top1", top1}, {"is_best", is_best}, {"val_loss", 1.0}}
               .dump() +
           "\n";
  };
  const std::string metrics = epoch(1, 0.25, true) + epoch(2, 0.5, true) + epoch(3, 0.375, false);
  ASSERT_EQ(report({folder_of("run", metrics)}).status, 0);
  const auto page = parse_page(dir_ / "page.html");
  EXPECT_THAT(text_of(page), AllOf(HasSubstr("best val_top1"), HasSubstr("epoch 2, so far")));
  EXPECT_EQ(count_of(page["rows"].dump(), "(best)"), 1U);
  EXPECT_THAT(page["rows"].dump(), HasSubstr("[\"epoch 2 (best)\","));
}

// What options leave out of the index is not missing.
TEST_F(Report, BalancesWhatOptionsTakeOfTheIndex) {
  const auto row = [&](const std::string& name, const std::vector<std::string>& more) {
    train(name, more);
    const auto page = parse_page(dir_ / (name + "/report.html"), dir_ / (name + "/metrics.jsonl"));
    return page["rows"].dump();
  };
  ASSERT_EQ(millrace({"index", shards_}).status, 0);
  const std::string taken = row("taken", {"--take", "40", "--val-take", "10"});
  EXPECT_THAT(taken,
              HasSubstr(R"(["epoch 1","40","0","none","0","24 left out","64","✓ all of them")"));
  EXPECT_THAT(taken, HasSubstr(R"(["epoch 1","10","0","64","✓ all of them"])"));
  EXPECT_THAT(row("twice", {"--repeat", "2"}),
              HasSubstr(R"(["epoch 1","128","0","none","0","64 more","64","✓ all of them")"));
  EXPECT_THAT(row("cut", {"--limit-train-batches", "3"}),
              HasSubstr(R"(["epoch 1","24","0","none","0","0","64","40 not used")"));
  EXPECT_THAT(row("some", {"--where", "cls in [1,3]"}), HasSubstr("✓ all of them"));
}

TEST_F(Report, ComparesRuns) {
  train("one", {"--epochs", "2"});
  train("two", {"--epochs", "3", "--optimizer", "sgd(0.001)", "--devices", "2"});
  const ProcessResult result = report({dir_ / "one", dir_ / "two"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("2 runs, 5 epochs"));
  const auto page = parse_page(dir_ / "page.html");
  EXPECT_THAT(page["titles"].dump(), AllOf(HasSubstr("one, val, step 16"), HasSubstr("one, train"),
                                           HasSubstr("two, val, step 12")));
  EXPECT_THAT(text_of(page), AllOf(HasSubstr("training is dashed and validation solid"),
                                   HasSubstr("best val_top1"), Not(HasSubstr("stand apart"))));
  const std::string rows = page["rows"].dump();
  EXPECT_THAT(rows, AllOf(HasSubstr(R"(["devices","1","2"])"), HasSubstr(R"(["epochs","2","3"])"),
                          HasSubstr(R"(["optimizer.lr",")"), HasSubstr(R"(["epoch 3","–",")")));
  EXPECT_THAT(rows, AllOf(Not(HasSubstr("optimizer.momentum")), Not(HasSubstr(R"(["model")")),
                          Not(HasSubstr(R"(["run-dir")"))));
  if (!std::filesystem::exists(kBrowser)) return;
  const std::string compared = read_file(dir_ / "page.html");
  expect_fits_windows(dir_, compared);
  EXPECT_EQ(scrolling_parts(dir_, compared, "#compare", 900), 0);
}

/// A run's folder by its task, and one epoch.
std::string epoch_of(const std::string& values) {
  return R"({"event":"epoch","epoch":1,"global_step":4,"train_loss":1.5,)" + values + "}\n";
}

// What does not compare is not in one table, and why is said.
TEST_F(Report, ShowsRunsOfOtherTasksApart) {
  const auto run = [&](const std::string& name, const std::string& task, const std::string& more) {
    const std::string folder = folder_of(name, epoch_of(more));
    write_file(folder + "/config.json", R"({"task":{"name":")" + task + R"("},"options":{"seed":)" +
                                            std::to_string(name.size()) + "}}");
    return folder;
  };
  ASSERT_EQ(report({run("a", "classify", R"("val_loss":1,"val_top1":0.5)"),
                    run("masks", "segment", R"("val_loss":1,"val_miou":0.25)"),
                    run("b", "classify", R"("val_loss":2,"val_top1":0.75)")})
                .status,
            0);
  const auto page = parse_page(dir_ / "page.html");
  EXPECT_THAT(text_of(page), HasSubstr("stand apart (classify by val_top1, segment by val_miou)"));
  const std::string rows = page["rows"].dump();
  EXPECT_THAT(rows, AllOf(HasSubstr(R"(["epoch","a","b"])"), HasSubstr(R"(["epoch","masks"])"),
                          HasSubstr(R"(["epoch 1","50.0 %","75.0 %"])"),
                          HasSubstr(R"(["seed","1","5","1"])")));
}

TEST_F(Report, SaysThatRunsWereEvaluatedOnOtherSamples) {
  const auto run = [&](const std::string& name, const std::string& digest) {
    const std::string folder = folder_of(name, epoch_of(R"("val_loss":1,"val_top1":0.5)"));
    write_file(folder + "/run.json",
               R"({"data":{"val":{"specs":["val.tar"],"shards":[{"name":"val.tar","sha256":")" +
                   digest + R"("}]}}})");
    return folder;
  };
  ASSERT_EQ(report({run("a", "01"), run("b", "02")}).status, 0);
  EXPECT_THAT(text_of(parse_page(dir_ / "page.html")), HasSubstr("not evaluated on the same"));
  ASSERT_EQ(report({run("a", "01"), run("b", "01")}).status, 0);
  EXPECT_THAT(text_of(parse_page(dir_ / "page.html")), Not(HasSubstr("not evaluated on the same")));
}

TEST_F(Report, TellsTenRunsApart) {
  std::vector<std::string> runs;
  for (int i = 0; i < 10; ++i)
    runs.push_back(
        folder_of("run" + std::to_string(i), epoch_of(R"("val_loss":)" + std::to_string(i + 1))));
  runs.push_back(folder_of("failed", R"({"event":"step","global_step":1,"loss":9})"
                                     "\n"
                                     R"({"event":"fault","message":"a bad <shard>"})"
                                     "\n"));
  ASSERT_EQ(report(runs).status, 0);
  const auto page = parse_page(dir_ / "page.html");
  EXPECT_THAT(text_of(page), AllOf(HasSubstr("failed: a bad <shard>"), HasSubstr("run9")));
  EXPECT_THAT(read_file(dir_ / "page.html"),
              AllOf(HasSubstr("swatch c1\""), HasSubstr("swatch c1 hollow\"")));
  if (std::filesystem::exists(kBrowser)) expect_fits_windows(dir_, read_file(dir_ / "page.html"));
}

TEST_F(Report, CountsWhatFaultsHaveCost) {
  std::string shard = read_file(dir_ / "set-000000.tar");
  const std::size_t picture = shard.find("\x89PNG");
  ASSERT_NE(picture, std::string::npos);
  shard.replace(picture, 30, std::string(30, '\0'));
  write_file(dir_ / "set-000000.tar", shard);
  train("run", {"--on-fault", "skip", "--classes", "10"});
  const auto page = parse_page(dir_ / "run/report.html", dir_ / "run/metrics.jsonl");
  EXPECT_THAT(page["rows"].dump(), HasSubstr(R"(["epoch 1","63","1","1 )"));
  EXPECT_THAT(page["headings"].dump() + text_of(page), HasSubstr("Skipped samples"));
  const std::string metrics = read_file(dir_ / "run/metrics.jsonl");
  EXPECT_THAT(metrics, HasSubstr(R"("skips":[{"shard":")" + (dir_ / "set-000000.tar")));
  const std::size_t begin = metrics.rfind("{\"event\":\"epoch\"");
  const auto epoch =
      nlohmann::json::parse(metrics.substr(begin, metrics.find('\n', begin) - begin));
  const auto& skips = epoch["input"]["skips"];
  ASSERT_EQ(skips.size(), 1U);
  const std::string key = skips[0]["key"];
  EXPECT_FALSE(key.empty());
  EXPECT_FALSE(skips[0]["reason"].get<std::string>().empty());
  EXPECT_THAT(page["rows"].dump(), HasSubstr("\"" + key + "\""));
}

TEST_F(Report, EscapesWhatComesFromOutside) {
  const std::string evil = R"(</style><script>alert(1)</script>\"'&\u0000)";
  const std::string run =
      folder_of("evil", R"({"event":"step","global_step":1,"loss":1.5,"lr":0.1})"
                        "\n"
                        R"({"event":"epoch","epoch":1,"global_step":1,"val_iou/)" +
                            evil + R"(":0.5,"val_)" + evil + R"(":0.25,"verdict":")" + evil +
                            R"(","input":{"faults":{")" + evil + R"(":1},"stages":[{"stage":")" +
                            evil + R"("}]},"seconds":1e300})" + "\n");
  write_file(run + "/config.json", R"({"options":{")" + evil + R"(":")" + evil + R"("}})");
  write_file(run + "/run.json", R"({"machine":{"host":")" + evil + R"("},"data":{")" + evil +
                                    R"(":{"specs":[")" + evil + R"("],"shards":[{"name":")" + evil +
                                    R"("}]}}})");
  ASSERT_EQ(report({run}).status, 0);
  const auto page = parse_page(dir_ / "page.html");
  EXPECT_THAT(text_of(page), HasSubstr("<script>alert(1)</script>")) << "as text";
}

TEST_F(Report, TakesWhatItCanOfDamagedMetrics) {
  const std::string good =
      R"({"event":"epoch","epoch":1,"train_loss":0.5,"val_top1":null,"train_samples":8,"skipped":0})";
  const std::string run = folder_of(
      "bad", "{\n" + std::string(100'000, '[') + "\n5\n\"x\"\nnull\n{\"event\":7}\n" + good +
                 "\n{\"event\":\"step\",\"global_step\":1e400}\n"
                 "{\"event\":\"step\",\"global_step\":\"x\",\"loss\":[]}\n" +
                 R"({"event":"epoch","epoch":-1e300,"step_seconds":5,"input":[]})" +
                 "\n{\"event\":\"epo");
  const ProcessResult result = report({run});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("of metrics.jsonl could not be read"));
  parse_page(dir_ / "page.html");
}

TEST_F(Report, RefusesWhatIsNoRun) {
  std::filesystem::create_directories(dir_ / "empty");
  const ProcessResult result = report({dir_ / "empty"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("metrics.jsonl"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "page.html"));
}

TEST_F(Report, ShowsARunThatWasStopped) {
  train("run", {"--epochs", "1000", "--max-time", "1s"});
  const auto page = parse_page(dir_ / "run/report.html");
  EXPECT_THAT(text_of(page), HasSubstr("stopped by max-time"));
}

TEST_F(Report, FitsATelephoneAndAWideWindow) {
  if (!std::filesystem::exists(kBrowser)) GTEST_SKIP() << "no " << kBrowser;
  train("run", {"--epochs", "3", "--devices", "2"});
  expect_fits_windows(dir_, read_file(dir_ / "run/report.html"));
}

}  // namespace
}  // namespace millrace::testing
