// --trace and `trace merge`: what is in the files, as tests/tools/trace_queries.py reads them, and
// what it finds slow in runs that are slow in a known part.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/gzipped.h"
#include "tests/support/nginx.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;

nlohmann::json query(const std::string& path) {
  const ProcessResult result =
      run_process({"/usr/bin/python3", "tests/tools/trace_queries.py", path});
  EXPECT_EQ(result.status, 0) << result.err;
  return result.status == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
}

class TraceRun : public ::testing::Test {
 protected:
  ProcessResult train(const std::string& shards, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"train", shards, "--log-steps", "0"};
    if (std::ranges::find(more, "--run-dir") == more.end())
      words.insert(words.end(), {"--run-dir", "none"});
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }
  nlohmann::json trace(const std::string& shards, std::vector<std::string> more) const {
    more.insert(more.end(), {"--trace", dir_ / "t.json.gz"});
    const ProcessResult result = train(shards, more);
    EXPECT_EQ(result.status, 0) << result.err;
    return query(dir_ / "t.json.gz");
  }
  void create(const std::string& pattern, const std::vector<std::string>& more) const {
    std::vector<std::string> words = {"create",  dir_ / pattern, "--synthetic",
                                      "classes", "--classes",    "2"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    ASSERT_EQ(result.status, 0) << result.err;
  }

  TempDir dir_;
};

TEST_F(TraceRun, HasATrackOfEachThreadAndDevice) {
  const std::string shards = make_set(dir_, 64, 32);
  const auto trace =
      this->trace(shards, {"--model", "lenet", "--devices", "2", "--batch-size", "8", "--val",
                           shards, "--epochs", "2", "--run-dir", dir_ / "run"});
  const auto threads = trace["threads"].get<std::vector<std::string>>();
  EXPECT_THAT(threads, IsSupersetOf({"cpu:0", "cpu:1", "reader", "pipeline", "consumer", "epoch",
                                     "evaluation", "checkpoint"}));
  EXPECT_THAT(trace["counters"].get<std::vector<std::string>>(),
              IsSupersetOf({"landed for cpu:0", "landed for cpu:1", "rounds ready", "read MB/s",
                            "input held MB", "resident MB"}));
  const auto& spans = trace["spans"];
  EXPECT_EQ(spans["epoch"], 2);
  EXPECT_EQ(spans["evaluation"], 2);
  EXPECT_EQ(spans["step"], 2 * 2 * 4) << "epochs x devices x steps";
  EXPECT_EQ(spans["backward"], 2 * 2 * 4);
  EXPECT_EQ(spans["reduce_scatter"], 2 * 2 * 4);
  EXPECT_EQ(trace["steps"], nlohmann::json({1, 2, 3, 4, 5, 6, 7, 8}));
}

TEST_F(TraceRun, OfSomeStepsHasNoOther) {
  const auto trace = this->trace(make_set(dir_, 64, 32),
                                 {"--model", "lenet", "--batch-size", "8", "--trace-steps", "3:5"});
  EXPECT_EQ(trace["steps"], nlohmann::json({3, 4, 5}));
  EXPECT_EQ(trace["spans"]["backward"], 3);
}

TEST_F(TraceRun, SaysThatItsStepsWereNotReached) {
  const ProcessResult result = train(
      make_set(dir_, 16, 16), {"--model", "lenet", "--batch-size", "8", "--trace", dir_ / "t.json",
                               "--trace-steps", "500:600", "--limit-val-batches", "1"});
  EXPECT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("--limit-val-batches has no effect without --val"));
  EXPECT_THAT(result.err, HasSubstr("--trace-steps 500:600: the run ended after step "));
}

TEST_F(TraceRun, NamesLayersWhereAskedTo) {
  const auto trace = this->trace(make_set(dir_, 16, 16),
                                 {"--model", "lenet", "--batch-size", "8", "--trace-layers"});
  EXPECT_THAT(trace["threads"].get<std::vector<std::string>>(), Contains("cpu:0 layers"));
  std::vector<std::string> names;
  for (const auto& [name, count] : trace["spans"].items()) names.push_back(name);
  EXPECT_THAT(names, Contains(HasSubstr("conv1")));
  EXPECT_THAT(names, Contains(HasSubstr("convolution dW")));
}

TEST_F(TraceRun, IsBounded) {
  const auto trace = this->trace(make_set(dir_, 64, 32),
                                 {"--model", "lenet", "--batch-size", "8", "--trace-events", "20"});
  std::int64_t spans = 0;
  for (const auto& [name, count] : trace["spans"].items()) spans += count.get<std::int64_t>();
  EXPECT_LE(spans, 20);
  EXPECT_GT(trace["about"]["left_out"], 0);
}

TEST_F(TraceRun, IsWrittenWhenTheRunFails) {
  create("bad-%06d.tar", {"--count", "16", "--size", "16"});
  std::string shard = read_file(dir_ / "bad-000000.tar");
  write_file(dir_ / "cut.tar", shard.substr(0, shard.size() / 2));
  const ProcessResult result =
      train(dir_ / "cut.tar", {"--model", "lenet", "--trace", dir_ / "t.json", "--classes", "2"});
  EXPECT_EQ(result.status, 1);
  EXPECT_GT(query(dir_ / "t.json")["spans"]["read"], 0);
}

// The parts that a run may wait for, each made slow on purpose.
TEST_F(TraceRun, ShowsThatDecodingIsSlow) {
  create("large-%06d.tar", {"--count", "48", "--size", "512"});
  EXPECT_EQ(trace(dir_ / "large-000000.tar",
                  {"--model", "lenet", "--batch-size", "8", "--threads", "1"})["slow"],
            "decode");
}

TEST_F(TraceRun, ShowsThatReadingIsSlow) {
  create("raw-%06d.tar", {"--count", "48", "--size", "256", "--format", "ppm", "--no-index"});
  ASSERT_EQ(run_process({"/usr/bin/python3", "-c",
                         "import bz2, sys; open(sys.argv[2], 'wb').write(bz2.compress("
                         "open(sys.argv[1], 'rb').read()))",
                         dir_ / "raw-000000.tar", dir_ / "packed.tar.bz2"})
                .status,
            0);
  EXPECT_EQ(trace(dir_ / "packed.tar.bz2", {"--model", "lenet", "--batch-size", "8"})["slow"],
            "read");
}

TEST_F(TraceRun, ShowsThatTheNetworkIsSlow) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  create("far-%06d.tar", {"--count", "64", "--size", "64"});
  const auto bytes = std::filesystem::file_size(dir_ / "far-000000.tar");
  const Nginx nginx(dir_.path(),
                    {.location_lines = "limit_rate " + std::to_string(bytes / 3) + ";"});
  const ProcessResult result = train(nginx.url("far-000000.tar"),
                                     {"--model", "lenet", "--batch-size", "8", "--shuffle", "0",
                                      "--run-dir", dir_ / "run", "--trace", dir_ / "t.json.gz"});
  ASSERT_EQ(result.status, 0) << result.err;
  const auto found = query(dir_ / "t.json.gz");
  EXPECT_EQ(found["slow"], "read");
  EXPECT_GT(found["seconds"]["read"], found["seconds"]["decode"]);
  // The line of the epoch and the run's page say whose reading that is.
  EXPECT_THAT(result.err, HasSubstr("input-bound by read over the network"));
  EXPECT_THAT(read_file(dir_ / "run/report.html"), HasSubstr("The network is the limit"));
}

TEST_F(TraceRun, ShowsThatTheModelIsSlow) {
  const auto found = trace(make_set(dir_, 32, 32), {"--model", "resnet18(stem=3x3)", "--batch-size",
                                                    "8", "--precision", "fp32"});
  EXPECT_THAT(std::vector<std::string>({"forward", "backward"}),
              Contains(found["slow"].get<std::string>()));
}

TEST_F(TraceRun, RefusesStepsThatAreNone) {
  for (const char* steps : {"5", ":", "0:3", "9:3", "a:b"}) {
    const ProcessResult result =
        train("x.tar", {"--trace", dir_ / "t.json", "--trace-steps", steps});
    EXPECT_EQ(result.status, 2) << steps;
    EXPECT_THAT(result.err, HasSubstr("--trace-steps")) << steps;
  }
}

TEST(BenchTrace, ShowsTheStages) {
  const TempDir dir;
  const std::string shards = make_set(dir, 32, 16);
  const ProcessResult result =
      millrace({"bench", shards, "--seconds", "0.1", "--trace", dir / "t.json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_GT(query(dir / "t.json")["spans"]["decode"], 0);
}

/// A trace of one span at 1 ms, of a process that met the others at `met_ns`.
std::string small_trace(int process, std::int64_t met_ns, const std::string& meeting = "m") {
  return R"({"displayTimeUnit":"ms","otherData":{"process":)" + std::to_string(process) +
         R"(,"processes":2,"start_ns":0,"meeting":")" + meeting + R"(","met_ns":)" +
         std::to_string(met_ns) + "},\"traceEvents\":[\n" +
         R"({"name":"thread_name","ph":"M","pid":0,"tid":7,"args":{"name":"cpu:0"}},)" + "\n" +
         R"({"name":"step","ph":"X","pid":0,"tid":7,"ts":1000.001,"dur":2.5,"args":{}})" + "\n]}\n";
}

TEST(TraceMerge, LaysProcessesOverEachOtherWhereTheyMet) {
  const TempDir dir;
  write_file(dir / "a.json", small_trace(0, 5'000'000));
  write_file(dir / "b.json.gz", gzipped(small_trace(1, 2'000'000)));
  const ProcessResult result =
      millrace({"trace", "merge", dir / "a.json", dir / "b.json.gz", "-o", dir / "all.json.gz"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_EQ(query(dir / "all.json.gz")["processes"], 2);
  ASSERT_EQ(std::system(("gzip -d " + (dir / "all.json.gz")).c_str()), 0);
  const auto all = nlohmann::json::parse(read_file(dir / "all.json"));
  std::vector<double> begins;
  for (const auto& event : all["traceEvents"])
    if (event["ph"] == "X") begins.push_back(event["ts"]);
  EXPECT_THAT(begins, ElementsAre(1000.001, 4000.001)) << "b's met 3 ms earlier in its own time";
}

TEST(TraceMerge, OfStrangersGoesByTheirClocksAndSaysSo) {
  const TempDir dir;
  write_file(dir / "a.json", small_trace(0, 0, "one"));
  write_file(dir / "b.json", small_trace(0, 0, "other"));
  const ProcessResult result =
      millrace({"trace", "merge", dir / "a.json", dir / "b.json", "-o", dir / "all.json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("clocks"));
  EXPECT_EQ(query(dir / "all.json")["processes"], 2) << "both were process 0 of their runs";
}

TEST(TraceMerge, RefusesWhatIsNoTrace) {
  const TempDir dir;
  const std::string whole = small_trace(0, 0);
  const std::vector<std::string> bad = {
      "",
      "{}",
      "[]\n",
      std::string(5000, '['),
      whole.substr(0, whole.size() - 4),
      "{\"otherData\":5,\"traceEvents\":[\n]}\n",
      "{\"otherData\":{\"process\":\"x\"},\"traceEvents\":[\n]}\n",
      "{\"otherData\":{},\"traceEvents\":[\n5\n]}\n"};
  for (const std::string& text : bad) {
    write_file(dir / "bad.json", text);
    const ProcessResult result =
        millrace({"trace", "merge", dir / "bad.json", "-o", dir / "all.json"});
    EXPECT_EQ(result.status, 1) << text.substr(0, 80) << result.err;
    EXPECT_THAT(result.err, HasSubstr("bad.json"));
    EXPECT_FALSE(std::filesystem::exists(dir / "all.json"));
  }
}

}  // namespace
}  // namespace millrace::testing
