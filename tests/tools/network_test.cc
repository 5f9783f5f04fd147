// Commands while a server makes them wait: they log it, give up in time, and obey stops.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <future>
#include <vector>

#include "tests/support/nginx.h"
#include "tests/support/scripted_http_server.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

ScriptedReply never_answer(const ScriptedRequest& /*request*/) { return {"", After::kHang}; }
ScriptedReply always_busy(const ScriptedRequest& /*request*/) {
  return {http_reply(503, "", "busy")};
}

/// Command lines that read the shards at `url`.
std::vector<std::vector<std::string>> readers_of(const std::string& url, const TempDir& dir) {
  return {{"ls", url},
          {"cat", url, "a.cls"},
          {"stats", url},
          {"verify", url},
          {"order", url},
          {"index", url, "--out", dir / "indexes"},
          {"view", url, "-o", dir / "seen.png"},
          {"reshard", url, dir / "new-%06d.tar"},
          {"bench", url, "--stage", "read"},
          {"train", "--train", url, "--model", "lenet", "--classes", "10", "--run-dir", "none"},
          {"train", "--train", url, "--model", "lenet", "--run-dir", dir / "run"}};
}

/// The results of `commands`, run at once: they mostly wait.
std::vector<ProcessResult> all_at_once(const std::vector<std::vector<std::string>>& commands,
                                       const ProcessOptions& options) {
  std::vector<std::future<ProcessResult>> running;
  for (const auto& words : commands)
    running.push_back(std::async(std::launch::async, [&] { return millrace(words, options); }));
  std::vector<ProcessResult> results;
  for (auto& each : running) results.push_back(each.get());
  return results;
}

/// All that is written below `folder`.
std::string everything_in(const std::string& folder) {
  std::string all;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) all += entry.path().string() + read_file(entry.path().string());
  return all;
}

TEST(Bench, NamesTheNetworkThatItWaitsFor) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir served;
  make_set(served, 64, 64);
  const auto bytes = std::filesystem::file_size(served / "set-000000.tar");
  const Nginx nginx(served.path(),
                    {.location_lines = "limit_rate " + std::to_string(bytes / 2) + ";"});
  const std::vector<std::string> bench = {
      "bench", nginx.url("set-000000.tar"), "--stage", "read", "--seconds", "0.5"};
  const ProcessResult text = millrace(bench);
  EXPECT_THAT(text.out, HasSubstr("input-bound by read over the network ("));
  EXPECT_THAT(text.out, HasSubstr("\nread over the network "));
  const std::vector<std::string> lines = lines_of(text.out);
  ASSERT_GE(lines.size(), 4U);
  for (std::size_t i = 2; i < 4; ++i)
    EXPECT_EQ(lines[i].find(" samples"), lines[1].find(" samples")) << text.out;
  auto json = bench;
  json.push_back("--json");
  const auto line = json_lines(millrace(json).out).at(0);
  EXPECT_THAT(line["verdict"].get<std::string>(), HasSubstr("by read over the network ("));
  EXPECT_TRUE(line["stages"].contains("read")) << "its name stays what programs look for";
}

TEST(Secrets, OfUrlsAreNeitherPrintedNorWritten) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir served;
  const TempDir dir;
  make_set(served, 16, 16);
  const Nginx nginx(served.path());
  std::string url = nginx.url("set-000000.tar");
  url.insert(url.find("://") + 3, "ann:PASSWORD@");
  url += "?sig=SIGNATURE";
  auto commands = readers_of(url, dir);
  commands.push_back({"ls", url, "--json"});
  commands.push_back({"order", url, "--json"});
  commands.push_back({"order", "1:" + url, "0.5:" + url, "--limit", "3"});
  commands.push_back({"order", url, "--diff", "shuffle=0", "train=1:" + url});
  commands.push_back({"verify", url, "--json"});
  commands.push_back({"stats", url, "--json"});
  commands.push_back({"train", "1:" + url, "--model", "lenet", "--channels", "3", "--size", "16",
                      "--classes", "10", "--val", url, "--run-dir", dir / "kept"});
  const std::string checkpoint = dir / "kept/checkpoints/last";
  commands.push_back({"eval", url, "--checkpoint", checkpoint});
  commands.push_back({"predict", url, "--checkpoint", checkpoint, "-o", dir / "rows.csv"});
  commands.push_back({"eval", url + "::" + nginx.url("missing.tar"), "--checkpoint", checkpoint});
  for (std::vector<std::string> words : commands) {
    if (words[0] == "bench") words.insert(words.end(), {"--seconds", "0.2"});
    const ProcessResult result = millrace(words);
    for (const std::string secret : {"PASSWORD", "SIGNATURE"})
      EXPECT_THAT(result.out + result.err, Not(HasSubstr(secret))) << words[0] << result.status;
  }
  const std::string written = everything_in(dir.path());
  EXPECT_THAT(written, HasSubstr("metrics.jsonl"));
  for (const std::string secret : {"PASSWORD", "SIGNATURE"})
    EXPECT_EQ(count_of(written, secret), 0U);
}

TEST(Secrets, OfWhatIsWrittenAndOfCheckpointsAreNotPrinted) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir served;
  const TempDir dir;
  const Nginx nginx(served.path(), {.location_lines = "dav_methods PUT DELETE; "
                                                      "client_max_body_size 100m;"});
  const auto secret = [&](const std::string& name) {
    std::string url = nginx.url(name);
    return url.insert(url.find("://") + 3, "ann:PASSWORD@") + "?sig=SIGNATURE";
  };
  const std::string shard = secret("a-000000.tar");
  const std::vector<std::string> train = {"train",     shard,      "--model",    "lenet",
                                          "--classes", "10",       "--channels", "3",
                                          "--run-dir", dir / "run"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const std::vector<std::string> create = {
      "create", secret("a-%06d.tar"), "--synthetic", "classes", "--count", "8", "--json"};
  const std::vector<std::vector<std::string>> commands = {
      create,
      create,  // is refused: it exists
      {"reshard", shard, secret("b-%06d.tar"), "--json"},
      {"index", shard, "--manifest", secret("c.json"), "--out", dir / "indexes", "--json"},
      {"index", secret("b-000000.tar"), "--manifest", secret("c.json"), "--out", dir / "indexes"},
      {"eval", shard, "--checkpoint", secret("none")},
      {"predict", shard, "--checkpoint", secret("none")},
      {"predict", shard, "--checkpoint", secret("a-000000.tar")},
      with(train, {"--resume", secret("none")}),
      with(train, {"--init", secret("none")}),
      with(train, {"--init", secret("a-000000.tar.index.json.safetensors")}),
      with(train, {"--config", secret("none")}),
      {"create", dir / "x-%06d.tar", "--from-list", secret("list.txt")}};
  for (const auto& words : commands) {
    const ProcessResult result = millrace(words);
    EXPECT_THAT(result.out + result.err, HasSubstr("127.0.0.1")) << words[0];
    for (const std::string hidden : {"PASSWORD", "SIGNATURE"})
      EXPECT_THAT(result.out + result.err, Not(HasSubstr(hidden))) << words[0];
  }
}

TEST(Waits, EndAtASignal) {
  for (const auto& script : {never_answer, always_busy}) {
    const ScriptedHttpServer server(script);
    const TempDir dir;
    const auto commands = readers_of(server.url("/a.tar"), dir);
    const auto results = all_at_once(commands, {.limit = std::chrono::seconds(50),
                                                .signal_after = std::chrono::milliseconds(1500),
                                                .signal = SIGTERM});
    for (std::size_t i = 0; i < commands.size(); ++i)
      EXPECT_EQ(results[i].status, 128 + SIGTERM) << commands[i][0] << "\n" << results[i].err;
  }
}

/// A server of the files of a folder, under any first part of a path ("/0/a.tar"), that holds back
/// the last quarter of one of them indefinitely.
class StallingServer {
 public:
  StallingServer(const TempDir& dir, std::string stalled)
      : stalled_(std::move(stalled)), server_([this, &dir](const ScriptedRequest& request) {
          return reply(dir / name_of(request.target), request);
        }) {}

  std::string url(const std::string& target) const { return server_.url(target); }
  /// How often the file was requested from its beginning, under `part`.
  std::int64_t opened(const std::string& part) const {
    return std::ranges::count_if(server_.requests(), [&](const ScriptedRequest& request) {
      return request.target == "/" + part + "/" + stalled_ && request.range_start() == 0;
    });
  }
  /// Nothing is held back before this many requests.
  std::int64_t whole = 0;

 private:
  static std::string name_of(const std::string& target) {
    return target.substr(target.find('/', 1) + 1);
  }
  ScriptedReply reply(const std::string& path, const ScriptedRequest& request) {
    if (!std::filesystem::exists(path)) return {http_reply(404, "", "")};
    const std::string bytes = read_file(path);
    const std::string whole_reply = http_serve(request, bytes);
    if (name_of(request.target) != stalled_ || whole-- > 0) return {whole_reply};
    const std::size_t held_back = bytes.size() / 4;
    if (request.range_start() + held_back >= bytes.size()) return {"", After::kHang};
    return {whole_reply.substr(0, whole_reply.size() - held_back), After::kHang};
  }

  std::string stalled_;
  ScriptedHttpServer server_;
};

/// Training that takes the samples in the shards' order.
std::vector<std::string> train_in_order(const std::string& shards, const std::string& run_folder) {
  return {"train",     "--train",   shards,     "--model",     "lenet", "--classes",
          "10",        "--size",    "16",       "--channels",  "3",     "--shuffle",
          "0",         "--workers", "1",        "--devices",   "2",     "--batch-size",
          "16",        "--epochs",  "1",        "--log-steps", "1",     "--json",
          "--run-dir", run_folder,  "--no-scan"};
}

std::size_t num_steps(const std::string& json) {
  const auto events = json_lines(json);
  return static_cast<std::size_t>(
      std::ranges::count_if(events, [](const auto& event) { return event["event"] == "step"; }));
}

// Neither at the next batch nor at the end of the patience; and the progress is saved.
TEST(Waits, InMidEpochEndAtASignal) {
  const TempDir dir;
  const std::string spec = make_set(dir, 600, 200);
  const StallingServer server(dir, "set-000002.tar");
  const auto shards = [&](const std::string& part) {
    return server.url("/" + part + "/set-{000000..000002}.tar");
  };
  const ProcessResult whole = millrace(train_in_order(spec, dir / "whole"));
  ASSERT_EQ(whole.status, 0) << whole.err;
  auto evaluates = train_in_order(spec, dir / "evaluates");
  evaluates.insert(evaluates.end(), {"--val", shards("1")});
  const std::vector<std::vector<std::string>> commands = {
      train_in_order(shards("0"), dir / "trains"),
      evaluates,
      {"eval", shards("2"), "--checkpoint", dir / "whole", "--no-scan"},
      {"predict", shards("3"), "--checkpoint", dir / "whole", "-o", dir / "rows.csv", "--no-scan"}};
  const auto is_in_mid_epoch = [&](std::size_t command) {
    if (server.opened(std::to_string(command)) == 0) return false;
    const std::string steps = dir / "trains/metrics.jsonl";
    return command != 0 || (std::filesystem::exists(steps) && !read_file(steps).empty());
  };
  std::vector<std::future<ProcessResult>> running;
  for (std::size_t i = 0; i < commands.size(); ++i)
    running.push_back(std::async(std::launch::async, [&, i] {
      return millrace(commands[i], {.limit = std::chrono::seconds(50),
                                    .signal_when = [&, i] { return is_in_mid_epoch(i); },
                                    .signal = SIGTERM});
    }));
  std::vector<ProcessResult> stopped;
  for (auto& each : running) stopped.push_back(each.get());
  for (std::size_t i = 0; i < commands.size(); ++i)
    EXPECT_EQ(stopped[i].status, 128 + SIGTERM) << commands[i][0] << "\n" << stopped[i].err;
  EXPECT_FALSE(std::filesystem::exists(dir / "rows.csv"));
  for (const std::size_t i : {0U, 1U}) {
    EXPECT_THAT(stopped[i].err, HasSubstr("/checkpoints/last; --resume auto continues from it"));
    auto words = train_in_order(spec, dir / (i == 0 ? "trains" : "evaluates"));
    words.insert(words.end(), {"--resume", "auto"});
    const ProcessResult rest = millrace(words);
    EXPECT_EQ(rest.status, 0) << rest.err;
    EXPECT_EQ(num_steps(stopped[i].out) + num_steps(rest.out), num_steps(whole.out));
  }
}

TEST(Waits, InMidEpochEndAtTheTimeLimit) {
  const TempDir dir;
  const std::string spec = make_set(dir, 600, 200);
  const StallingServer server(dir, "set-000002.tar");
  auto words = train_in_order(server.url("/0/set-{000000..000002}.tar"), dir / "run");
  words.insert(words.end(), {"--max-time", "2s"});
  const ProcessResult stopped = millrace(words, {.limit = std::chrono::seconds(25)});
  EXPECT_EQ(stopped.status, 0) << stopped.err;
  EXPECT_EQ(json_lines(stopped.out).back()["stopped_by"], "max-time");
  EXPECT_TRUE(std::filesystem::exists(dir / "run/checkpoints/last"));
}

TEST(Waits, InAScanEndAtASignal) {
  const TempDir dir;
  make_set(dir, 60, 20);
  const StallingServer server(dir, "set-000002.tar");
  const std::string spec = server.url("/0/set-{000000..000002}.tar");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"train", "--train", spec, "--model", "lenet", "--classes", "10",
                                 "--size", "16", "--run-dir", dir / "run"},
        std::vector<std::string>{"order", spec}}) {
    const std::int64_t before = server.opened("0");
    const ProcessResult stopped =
        millrace(words, {.limit = std::chrono::seconds(50),
                         .signal_when = [&] { return server.opened("0") > before; },
                         .signal = SIGTERM});
    EXPECT_EQ(stopped.status, 128 + SIGTERM) << words[0] << "\n" << stopped.err;
    EXPECT_FALSE(std::filesystem::exists(dir / "run/checkpoints"));
  }
}

TEST(Waits, ForPicturesEndAtASignal) {
  const TempDir dir;
  const std::string spec = dir / "set-000000.tar";
  ASSERT_EQ(millrace({"create", dir / "set-%06d.tar", "--synthetic", "segments", "--count", "40",
                      "--size", "32"})
                .status,
            0);
  ASSERT_EQ(millrace({"train", "--model", "unet(width=16)", "--task", "segment", "--size", "32",
                      "--train", spec, "--limit-train-batches", "1", "--batch-size", "2",
                      "--run-dir", dir / "run"})
                .status,
            0);
  StallingServer server(dir, "set-000000.tar");
  server.whole = 2;  // for the images' size, and for the evaluation
  const ProcessResult stopped = millrace(
      {"eval", server.url("/0/set-000000.tar"), "--no-index", "--no-scan", "--checkpoint",
       dir / "run", "--batch-size", "8", "--pictures", dir / "seen.png", "--num-pictures", "40"},
      {.limit = std::chrono::seconds(50),
       .signal_when = [&] { return server.opened("0") == 3; },
       .signal = SIGTERM});
  EXPECT_EQ(stopped.status, 128 + SIGTERM) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("40 samples in ")) << "the evaluation itself was whole";
}

// Weights and checkpoints too: stop and patience apply to everything that a command reads.
TEST(Waits, ForACheckpointEndAtASignalAndWithThePatience) {
  const ScriptedHttpServer server(never_answer);
  const TempDir dir;
  const std::string spec = make_set(dir, 20, 10);
  const std::vector<std::string> train = {
      "train",  "--train", spec,         "--model", "lenet",     "--classes", "10",
      "--size", "16",      "--channels", "3",       "--run-dir", "none"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  std::vector<std::vector<std::string>> commands = {
      with(train, {"--resume", server.url("/run")}),
      with(train, {"--init", server.url("/w.safetensors")}),
      with(train, {"--init", server.url("/run")}),
      {"eval", spec, "--checkpoint", server.url("/run")},
      {"predict", spec, "--checkpoint", server.url("/run")}};
  const auto stopped = all_at_once(commands, {.limit = std::chrono::seconds(50),
                                              .signal_after = std::chrono::milliseconds(700),
                                              .signal = SIGTERM});
  for (auto& words : commands) words.insert(words.end(), {"--retry-for", "1s"});
  const auto tried = all_at_once(commands, {.limit = std::chrono::seconds(50)});
  for (std::size_t i = 0; i < commands.size(); ++i) {
    EXPECT_EQ(stopped[i].status, 128 + SIGTERM) << commands[i][0] << "\n" << stopped[i].err;
    EXPECT_EQ(tried[i].status, 1) << commands[i][0] << "\n" << tried[i].err;
    EXPECT_THAT(tried[i].err, HasSubstr("no answer in time")) << commands[i][0];
  }
}

TEST(Waits, EndWithThePatience) {
  const ScriptedHttpServer server(never_answer);
  const TempDir dir;
  auto commands = readers_of(server.url("/a.tar?token=secret"), dir);
  for (auto& words : commands) words.insert(words.end(), {"--retry-for", "1s"});
  const auto results = all_at_once(commands, {.limit = std::chrono::seconds(50)});
  for (std::size_t i = 0; i < commands.size(); ++i) {
    EXPECT_EQ(results[i].status, 1) << commands[i][0] << "\n" << results[i].err;
    EXPECT_THAT(results[i].err, HasSubstr("no answer in time")) << commands[i][0];
    EXPECT_THAT(results[i].err, Not(HasSubstr("secret"))) << commands[i][0];
  }
}

TEST(Waits, EndWithThePatienceWhateverTheServerAsksFor) {
  const ScriptedHttpServer server([](const ScriptedRequest&) -> ScriptedReply {
    return {http_reply(503, "Retry-After: 999999\r\n", "busy")};
  });
  const ProcessResult result = millrace({"ls", server.url("/a.tar"), "--retry-for", "2s"},
                                        {.limit = std::chrono::seconds(100)});
  EXPECT_EQ(result.status, 1) << result.err;
  EXPECT_THAT(result.err, HasSubstr("for up to 2 s"));
  EXPECT_LE(server.requests().size(), 8U);
}

TEST(Waits, AreLoggedAndSoAreRetries) {
  const ScriptedHttpServer silent(never_answer);
  EXPECT_THAT(millrace({"ls", silent.url("/a.tar"), "--retry-for", "3s"}).err,
              HasSubstr("waiting for " + silent.url("/a.tar") + ": no answer yet"));
  const ScriptedHttpServer busy(always_busy);
  EXPECT_THAT(millrace({"ls", busy.url("/a.tar"), "--retry-for", "2s"}).err,
              HasSubstr(busy.url("/a.tar") +
                        ": the server answered with status 503; trying again, for up to 2 s"));
}

TEST(Waits, WithoutPatienceThereIsOneTry) {
  const ScriptedHttpServer server(always_busy);
  EXPECT_EQ(millrace({"ls", server.url("/a.tar"), "--retry-for", "0"}).status, 1);
  EXPECT_EQ(server.requests().size(), 1U);
  EXPECT_EQ(millrace({"ls", server.url("/a.tar"), "--retry-for", "soon"}).status, 2);
}

TEST(Waits, ForANameThatDoesNotResolveAreShort) {
  const ProcessResult result = millrace({"ls", "http://no-such-host.invalid/a.tar"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("no-such-host.invalid"));
}

// A bit flipped on the network costs nothing and is reported.
TEST(Refetches, AreCounted) {
  const TempDir dir;
  make_set(dir, 20, 20);
  ASSERT_EQ(millrace({"index", dir / "set-000000.tar"}).status, 0);
  const auto index = nlohmann::json::parse(read_file(dir / "set-000000.tar.index.json"));
  const std::size_t place = index["samples"][1][2][0][1];  // the second sample's first payload
  int damaged = 1;  // number of replies from the shard's beginning
  const ScriptedHttpServer server([&](const ScriptedRequest& request) -> ScriptedReply {
    const std::string path = dir / request.target.substr(1);
    if (path.ends_with("manifest.json") || !std::filesystem::exists(path))
      return {http_reply(404, "", "")};
    std::string bytes = read_file(path);
    if (path.ends_with(".tar") && request.range_start() == 0 && damaged-- > 0) bytes[place] ^= 1;
    return {http_serve(request, bytes)};
  });
  const std::string url = server.url("/set-000000.tar");
  const ProcessResult verified = millrace({"verify", "--json", url});
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_EQ(json_lines(verified.out)[0]["refetched"], 1);
  damaged = 2;  // the first one is for the size of the images
  const ProcessResult trained =
      millrace({"train", "--train", url, "--model", "lenet", "--size", "16", "--channels", "3",
                "--classes", "10", "--epochs", "1", "--run-dir", "none", "--json"});
  EXPECT_EQ(trained.status, 0) << trained.err;
  EXPECT_THAT(trained.out, HasSubstr(R"("refetched":1)"));
  EXPECT_THAT(trained.err,
              HasSubstr("damaged on the network, intact when fetched again (url " + url + ")"));
}

// A folder may change in between, and a manifest costs a round trip.
// A bit that flips between two payloads, which only the SHA-256 shows; and one in a header.
TEST(Verify, ReadsAgainBeforeItTellsOfDamageOnTheNetwork) {
  const TempDir dir;
  make_set(dir, 20, 20);
  ASSERT_EQ(millrace({"index", dir / "set-000000.tar"}).status, 0);
  const std::string tar = read_file(dir / "set-000000.tar");
  for (const std::size_t at : {tar.size() - 300, std::size_t{400}, std::size_t{20}}) {
    for (const bool stays : {false, true}) {
      int reads = 0;
      ScriptedHttpServer server([&](const ScriptedRequest& request) -> ScriptedReply {
        const std::string path = dir.path().string() + request.target;
        if (!std::filesystem::exists(path)) return {http_reply(404, "", "")};
        std::string content = read_file(path);
        if (request.target.ends_with(".tar") && (stays || reads++ == 0)) content[at] ^= 1;
        return {http_serve(request, content)};
      });
      const ProcessResult result = millrace({"verify", "--json", server.url("/set-000000.tar")});
      EXPECT_EQ(result.status, stays ? 1 : 0) << at << ": " << result.err;
      const auto report = json_lines(result.out).front();
      EXPECT_EQ(report["num_faults"] > 0, stays) << at;
      EXPECT_EQ(report["refetched"] > 0, !stays) << at;
    }
  }
}

TEST(Specs, AreExpandedOncePerRun) {
  const TempDir dir;
  const std::string spec = make_set(dir, 60, 20);
  ASSERT_EQ(millrace({"index", spec}).status, 0);
  const ScriptedHttpServer server([&](const ScriptedRequest& request) -> ScriptedReply {
    const std::string path = dir / request.target.substr(1);
    if (!std::filesystem::exists(path)) return {http_reply(404, "", "")};
    return {http_serve(request, read_file(path))};
  });
  const std::string manifest = server.url("/set-manifest.json");
  std::size_t before = 0;
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"ls", manifest},
        {"order", manifest, "--workers", "2"},
        {"train", "--train", manifest, "--val", manifest, "--model", "lenet", "--size", "16",
         "--channels", "3", "--run-dir", "none"}}) {
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << words[0] << result.err;
    const auto requests = server.requests();
    const auto asked =
        std::count_if(requests.begin() + static_cast<std::ptrdiff_t>(before), requests.end(),
                      [](const auto& request) { return request.target == "/set-manifest.json"; });
    EXPECT_EQ(asked, 1) << words[0];
    before = requests.size();
  }
}

TEST(ClassCount, IsReadFromIndexes) {
  const TempDir dir;
  make_set(dir, 90, 30);
  ASSERT_EQ(millrace({"index", dir.path().string()}).status, 0);
  const ScriptedHttpServer server([&](const ScriptedRequest& request) -> ScriptedReply {
    if (!request.target.ends_with(".index.json")) return {http_reply(404, "", "")};
    return {http_serve(request, read_file(dir / request.target.substr(1)))};
  });
  const ProcessResult result =
      millrace({"train", "--train", server.url("/set-{000000..000002}.tar"), "--model", "lenet",
                "--run-dir", "none", "--size", "16", "--channels", "3"});
  EXPECT_THAT(result.err, HasSubstr("10 classes, counted in the labels of 90 samples\n"));
  EXPECT_EQ(result.status, 1) << "there is no shard to train on";
}

TEST(ClassCount, IsDoneOncePerRun) {
  const TempDir dir;
  const std::string spec = make_set(dir, 40, 20);
  std::filesystem::remove(dir / "set-classes.txt");
  const auto train = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"train",     "--train",    spec,      "--model", "lenet",
                                      "--run-dir", dir / "run",  "--size",  "16",      "--channels",
                                      "3",         "--schedule", "constant"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  };
  EXPECT_THAT(train({"--epochs", "1"}).err, HasSubstr("10 classes, counted"));
  for (const std::string& from : {std::string("auto"), dir / "run/checkpoints/last"}) {
    const ProcessResult more = train({"--epochs", "1", "--resume", from});
    EXPECT_EQ(more.status, 0) << more.err;
    EXPECT_THAT(more.err, HasSubstr("10 outputs, as the run has them"));
    EXPECT_THAT(more.err, Not(HasSubstr("counted")));
  }
}

TEST(Outputs, RefuseUrlsThatCannotBeWritten) {
  const TempDir dir;
  const std::string spec = make_set(dir, 20, 10);
  const TempDir empty;
  for (const std::string place : {"https://host/x", "file:///tmp/x"}) {
    std::vector<std::vector<std::string>> writers = {
        {"train", "--train", spec, "--model", "lenet", "--run-dir", place}};
    const std::vector<std::vector<std::string>> writers_of_objects = {
        {"create", place + "-%06d.tar", "--synthetic", "classes", "--count", "3"},
        {"reshard", spec, place + "-%06d.tar"},
        {"index", spec, "--out", place},
        {"index", spec, "--manifest", place + ".json"},
        {"view", spec, "-o", place + ".png"},
        {"stats", spec, "-o", place + ".json"},
        {"eval", spec, "--checkpoint", dir.path().string(), "--pictures", place + ".png"},
        {"predict", spec, "--checkpoint", dir.path().string(), "-o", place + ".csv"},
        {"predict", spec, "--checkpoint", dir.path().string(), "--shards", place + "-%06d.tar"}};
    if (place.starts_with("file:"))
      writers.insert(writers.end(), writers_of_objects.begin(), writers_of_objects.end());
    for (const auto& words : writers) {
      const ProcessResult result = millrace(words, {.folder = empty.path().string()});
      EXPECT_EQ(result.status, 2) << words[0] << " " << place << "\n" << result.err;
      EXPECT_THAT(result.err, HasSubstr(place)) << words[0];
      EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    }
  }
  EXPECT_THAT(list_dir(empty.path().string()), IsEmpty());
}

}  // namespace
}  // namespace millrace::testing
