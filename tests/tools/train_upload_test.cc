// Checkpoints sent to a server, and resumed from there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/support/scripted_http_server.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

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

TEST_F(TrainUpload, ARunThatLostItsMachineGoesOnFromTheServer) {
  const auto whole =
      losses(train({"--run-dir", "none", "--epochs", "2", "--schedule", "constant"}));
  const std::string url = server_.url("/runs/one");
  const ProcessResult first = train(
      {"--run-dir", dir_ / "run", "--epochs", "1", "--schedule", "constant", "--upload", url});
  ASSERT_EQ(first.status, 0) << first.err;
  EXPECT_THAT(store_.objects, Contains(Key("/runs/one/best/model.safetensors")));
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
  store_.objects["/runs/one/last/model.safetensors"][100] ^= 1;
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
