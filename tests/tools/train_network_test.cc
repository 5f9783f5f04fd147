// Training over HTTP while the server misbehaves: the same losses, or a fault with its location;
// and checkpoints sent to a server and resumed from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>
#include <thread>

#include "tests/support/nginx.h"
#include "tests/support/scripted_http_server.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

class TrainOverHttp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
    make_set(dir_, 600, 200);
  }

  static ProcessResult train(const std::string& spec) {
    return millrace({"train",      "--train", spec,           "--model", "lenet",       "--json",
                     "--channels", "3",       "--classes",    "10",      "--devices",   "2",
                     "--size",     "16",      "--batch-size", "16",      "--log-steps", "1",
                     "--shuffle",  "50",      "--run-dir",    "none"});
  }
  static std::vector<double> losses(const ProcessResult& result) {
    std::vector<double> losses;
    for (const auto& event : json_lines(result.out))
      if (event["event"] == "step") losses.push_back(event["loss"]);
    return losses;
  }
  static std::string spec() { return "set-{000000..000002}.tar"; }

  TempDir dir_;
};

TEST_F(TrainOverHttp, AServerThatIsRestartedInMidEpochIsNotSeenInTheLosses) {
  const ProcessResult local = train(dir_ / spec());
  ASSERT_EQ(local.status, 0) << local.err;
  // Each shard takes about two seconds, so that the restart hits the middle of all three.
  const auto shard_bytes = std::filesystem::file_size(dir_ / "set-000000.tar");
  Nginx nginx(dir_.path(),
              {.location_lines = "limit_rate " + std::to_string(shard_bytes / 2) + ";"});
  std::jthread restart([&nginx] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1000));
    nginx.stop();
    std::this_thread::sleep_for(std::chrono::milliseconds(700));
    nginx.start();
  });
  const ProcessResult remote = train(nginx.url(spec()));
  restart.join();
  ASSERT_EQ(remote.status, 0) << remote.err;
  EXPECT_THAT(nginx.access_log(), HasSubstr("bytes=")) << "no transfer was broken off";
  EXPECT_EQ(losses(remote), losses(local));
}

TEST_F(TrainOverHttp, AShardCutInHalfEndsTheRunWithItsNameAndOffset) {
  const std::string path = dir_ / "set-000001.tar";
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / 2 + 100);
  Nginx nginx(dir_.path());
  const ProcessResult result = train(nginx.url(spec()));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("Truncated"));
  EXPECT_THAT(result.err, HasSubstr("set-000001.tar"));
  EXPECT_THAT(result.err, HasSubstr("offset"));
}

TEST_F(TrainOverHttp, SwappedShardsAreRefusedOnResume) {
  Nginx nginx(dir_.path());
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train",     "--train", nginx.url(spec()), "--model", "lenet",     "--channels", "3",
        "--classes", "10",      "--size",          "16",      "--run-dir", dir_ / "run"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  };
  ASSERT_EQ(train({}).status, 0);
  std::filesystem::rename(dir_ / "set-000001.tar", dir_ / "other.tar");
  std::filesystem::rename(dir_ / "set-000002.tar", dir_ / "set-000001.tar");
  std::filesystem::rename(dir_ / "other.tar", dir_ / "set-000002.tar");
  const std::vector<std::string> resume = {"--resume", "auto", "--epochs", "2"};
  const ProcessResult refused = train(resume);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("the training set has changed since the checkpoint: shard "
                                     "set-000001.tar: "));
  auto accepted = resume;
  accepted.push_back("--allow-changed-data");
  EXPECT_EQ(train(accepted).status, 0);
}

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Key;

/// Stores what is PUT, and serves it.
class Store {
 public:
  ScriptedReply operator()(const ScriptedRequest& request) {
    if (request.method == "PUT") {
      if (closed) return {http_reply(403, "", "")};
      objects[request.target] = request.body;
      order.push_back(request.target);
      return {http_reply(201, "", "")};
    }
    const auto found = objects.find(request.target);
    if (found == objects.end()) return {http_reply(404, "", "")};
    return {http_serve(request, found->second)};
  }

  /// The target of a checkpoint's file, which its manifest names.
  std::string target_of(const std::string& checkpoint, const std::string& file) const {
    const auto manifest = nlohmann::json::parse(objects.at(checkpoint + "/manifest.json"));
    return checkpoint + "/" + manifest["files"][file].value("object", file);
  }

  std::map<std::string, std::string> objects;
  std::vector<std::string> order;
  bool closed = false;
};

class TrainUpload : public ::testing::Test {
 protected:
  TrainUpload() : shards_(make_set(dir_, 64, 32)) {}

  ProcessResult train(const std::vector<std::string>& more) const {
    std::vector<std::string> words = {
        "train",        "--train", shards_,       "--model", "lenet",      "--json",
        "--size",       "16",      "--lr",        "0.05",    "--classes",  "10",
        "--batch-size", "8",       "--log-steps", "1",       "--channels", "3"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }
  static std::vector<double> losses(const ProcessResult& result) {
    std::vector<double> losses;
    for (const auto& event : json_lines(result.out))
      if (event["event"] == "step") losses.push_back(event["loss"]);
    return losses;
  }

  TempDir dir_;
  std::string shards_;
  Store store_;
  ScriptedHttpServer server_{[this](const ScriptedRequest& request) { return store_(request); }};
};

TEST_F(TrainUpload, ARunThatLostItsMachineContinuesFromTheServer) {
  const auto whole =
      losses(train({"--run-dir", "none", "--epochs", "2", "--schedule", "constant"}));
  const std::string url = server_.url("/runs/one");
  const ProcessResult first = train(
      {"--run-dir", dir_ / "run", "--epochs", "1", "--schedule", "constant", "--upload", url});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(store_.objects, Contains(Key("/runs/one/best/model-a.safetensors")));
  EXPECT_EQ(store_.order.back(), "/runs/one/last/manifest.json") << "what it lists is there before";
  for (const std::string& from : {url + "/last", std::string("auto")}) {
    const ProcessResult second =
        train({"--run-dir", dir_ / ("after-" + std::to_string(from.size())), "--epochs", "2",
               "--schedule", "constant", "--upload", url, "--resume", from});
    ASSERT_EQ(second.status, 0) << second.err;
    auto both = losses(first);
    const auto more = losses(second);
    if (from != "auto") {
      both.insert(both.end(), more.begin(), more.end());
      EXPECT_EQ(both, whole);
    } else {
      EXPECT_TRUE(more.empty()) << "the run before ended, and sent its last";
    }
  }
  const ProcessResult scored = millrace({"eval", shards_, "--checkpoint", url + "/best", "--json"});
  EXPECT_EQ(scored.status, 0) << scored.err;
}

TEST_F(TrainUpload, TheCheckpointWithMoreStepsWins) {
  const std::string url = server_.url("/runs/one");
  const auto run = [&](const char* folder, const char* epochs) {
    return train({"--run-dir", dir_ / folder, "--epochs", epochs, "--schedule", "constant",
                  "--upload", url, "--resume", "auto"});
  };
  ASSERT_EQ(run("here", "1").status, 0);
  ASSERT_EQ(run("elsewhere", "2").status, 0);
  const ProcessResult back = run("here", "2");
  ASSERT_EQ(back.status, 0) << back.err;
  EXPECT_THAT(back.err, HasSubstr("using the uploaded one"));
  EXPECT_TRUE(losses(back).empty()) << "the second epoch was trained elsewhere";

  const ProcessResult ahead = run("here", "3");
  EXPECT_THAT(ahead.err, Not(HasSubstr("using the uploaded one"))) << "as many steps";
  store_.objects[store_.target_of("/runs/one/last", "state.json")] = "{}";
  const ProcessResult alone = run("here", "3");
  EXPECT_THAT(alone.err, HasSubstr("the uploaded checkpoint cannot be read"));
  EXPECT_THAT(alone.err, HasSubstr("/here/checkpoints/last"));
}

TEST_F(TrainUpload, AnotherRunsCheckpointsAreNotReplaced) {
  const std::string copies = dir_ / "copies";
  for (const std::string& to : {server_.url("/runs/one"), copies}) {
    const std::string name = to == copies ? "local" : "http";
    const auto run = [&](const std::string& folder, const std::vector<std::string>& more) {
      std::vector<std::string> words = {"--run-dir", dir_ / (name + folder), "--upload", to};
      words.insert(words.end(), more.begin(), more.end());
      return train(words);
    };
    ASSERT_EQ(run("-a", {"--epochs", "1"}).status, 0);
    const auto stored = store_.objects;
    const ProcessResult fresh = run("-b", {"--epochs", "1"});
    EXPECT_EQ(fresh.status, 2);
    EXPECT_THAT(fresh.err, HasSubstr("holds another run's checkpoints"));
    EXPECT_THAT(fresh.err, HasSubstr("--resume " + to + "/last"));
    EXPECT_EQ(train({"--run-dir", dir_ / (name + "-c"), "--epochs", "1"}).status, 0);
    for (const std::string& from : {std::string("auto"), dir_ / (name + "-c/checkpoints/last")}) {
      const ProcessResult other = run("-c", {"--epochs", "2", "--resume", from});
      EXPECT_EQ(other.status, 2) << "what it resumes is of another run";
      EXPECT_THAT(other.err, HasSubstr("holds another run's checkpoints"));
    }
    EXPECT_EQ(store_.objects, stored);
    const ProcessResult own = run("-a", {"--epochs", "2", "--resume", "auto"});
    EXPECT_EQ(own.status, 0) << own.err;
    const ProcessResult back =
        run("-d", {"--epochs", "2", "--resume", dir_ / (name + "-a/checkpoints/last")});
    EXPECT_EQ(back.status, 0) << back.err;
    const ProcessResult forced = run("-e", {"--epochs", "1", "--force"});
    EXPECT_EQ(forced.status, 0) << forced.err;
    EXPECT_EQ(millrace({"eval", shards_, "--checkpoint", to + "/last"}).status, 0);
  }
}

TEST_F(TrainUpload, AServerThatTakesNothingIsAFaultAtTheEnd) {
  store_.closed = true;
  const ProcessResult result =
      train({"--run-dir", dir_ / "run", "--upload", server_.url("/runs/one")});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("checkpoint last was not uploaded"));
  EXPECT_THAT(result.err, HasSubstr("not uploaded: best, last"));
  EXPECT_TRUE(std::filesystem::exists(dir_ / "run/checkpoints/last/manifest.json"));
}

TEST_F(TrainUpload, ABrokenCheckpointOnTheServerIsRefused) {
  const std::string url = server_.url("/runs/one");
  ASSERT_EQ(train({"--run-dir", dir_ / "run", "--upload", url}).status, 0);
  store_.objects[store_.target_of("/runs/one/last", "model.safetensors")][100] ^= 1;
  const ProcessResult result = train({"--run-dir", "none", "--resume", url + "/last"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("SHA-256"));
}

TEST_F(TrainUpload, AFolderIsAPlaceToo) {
  ASSERT_EQ(train({"--run-dir", dir_ / "run", "--upload", dir_ / "copy/one"}).status, 0);
  EXPECT_EQ(read_file(dir_ / "copy/one/last/manifest.json"),
            read_file(dir_ / "run/checkpoints/last/manifest.json"));
}

}  // namespace

}  // namespace millrace::testing
