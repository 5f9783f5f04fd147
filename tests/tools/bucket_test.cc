// Buckets as folders, by the program: against real server programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>

#include "io/opener.h"
#include "tests/support/bucket_server.h"
#include "tests/support/effort.h"
#include "tests/support/nginx.h"
#include "tests/support/scripted_http_server.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class BucketCommands : public ::testing::TestWithParam<BucketServer::Kind> {};

/// What an upload by hand would leave: the folder's files as objects.
void copy_folder(const std::string& folder, const BucketServer& server) {
  const io::UrlOpener opener({.object_stores = server.options()});
  for (const std::string& name : list_dir(folder)) {
    if (!std::filesystem::is_regular_file(folder + "/" + name)) continue;
    const std::string content = read_file(folder + "/" + name);
    const auto sink = opener.open_sink(server.url("data/" + name));
    sink->write(std::as_bytes(std::span(content)));
    sink->finish();
  }
}

std::string without_folders(std::string lines, const std::string& folder) {
  for (std::size_t at; (at = lines.find(folder)) != std::string::npos;)
    lines.erase(at, folder.size());
  return lines;
}

TEST_P(BucketCommands, ListAndReadAFolderAsOnDisk) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const TempDir dir;
  make_set(dir, 30, 10);
  copy_folder(dir.path().string(), server);
  const ProcessOptions with{.environment = server.environment()};

  const ProcessResult folder = millrace({"ls", "--json", server.url()}, with);
  EXPECT_EQ(folder.status, 0) << folder.err;
  EXPECT_EQ(folder.out, "{\"url\":\"" + server.url("data/") + "\",\"bytes\":0}\n");
  const ProcessResult files = millrace({"ls", server.url("data/"), "--limit", "2"}, with);
  EXPECT_THAT(files.out, HasSubstr(server.url("data/set-000000.tar") + "\n"));
  EXPECT_EQ(std::count(files.out.begin(), files.out.end(), '\n'), 2);

  const std::string on_disk =
      without_folders(millrace({"ls", dir / "set-{000000..000002}.tar"}).out, dir.path().string());
  for (const std::string spec : {"data/*.tar", "data/set-00000[0-2].tar"}) {
    const ProcessResult samples = millrace({"ls", server.url(spec)}, with);
    EXPECT_EQ(samples.status, 0) << samples.err;
    EXPECT_EQ(without_folders(samples.out, server.url("data")), on_disk);
  }
  const ProcessResult verified = millrace({"verify", "--json", server.url("data/")}, with);
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("\"samples\":30"));
  const ProcessResult none = millrace({"verify", server.url("data/x*")}, with);
  EXPECT_EQ(none.status, 2);
  EXPECT_THAT(none.err, HasSubstr("no object matches " + server.url("data/x*")));
}

std::vector<std::string> urls_under(const io::Opener& opener, const std::string& folder) {
  std::vector<std::string> names;
  for (const io::ListedObject& object : opener.list(folder))
    names.push_back(object.url.substr(folder.size()));
  return names;
}

TEST_P(BucketCommands, WriteSetsAsOnDisk) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const TempDir dir;
  const io::UrlOpener opener({.object_stores = server.options()});
  const ProcessOptions with{.environment = server.environment()};
  const auto create = [&](const std::string& place, const std::string& maxcount,
                          const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {
        "create", place + "a-%06d.tar", "--synthetic", "classes", "--count", "30", "--size",
        "16",     "--maxcount",         maxcount};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words, with);
  };
  ASSERT_EQ(create(dir.path().string() + "/set/", "10").status, 0);
  const ProcessResult created = create(server.url("set/"), "10");
  ASSERT_EQ(created.status, 0) << created.err;
  const auto names = list_dir(dir / "set");
  EXPECT_EQ(urls_under(opener, server.url("set/")), names);
  for (const std::string& name : names)
    EXPECT_TRUE(read_file(dir / "set/" + name) ==
                io::read_object(opener, server.url("set/") + name, 1 << 24).text())
        << name;

  const ProcessResult again = create(server.url("set/"), "10");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("exists (3 shards of this pattern in all)"));
  EXPECT_EQ(create(server.url("set/"), "15", {"--force"}).status, 0);
  EXPECT_EQ(urls_under(opener, server.url("set/")).size(), names.size() - 2) << "one shard less";

  const std::string smaller = server.url("re/b-%06d.tar");
  const ProcessResult resharded =
      millrace({"reshard", server.url("set/"), smaller, "--maxcount", "7"}, with);
  EXPECT_EQ(resharded.status, 0) << resharded.err;
  const ProcessResult onto_itself =
      millrace({"reshard", server.url("re/"), smaller, "--force"}, with);
  EXPECT_EQ(onto_itself.status, 2);
  EXPECT_THAT(onto_itself.err, HasSubstr("would be read and replaced"));

  opener.remove(server.url("re/b-000002.tar.index.json"));
  opener.remove(server.url("re/b-manifest.json"));
  const ProcessResult indexed = millrace({"index", server.url("re/")}, with);
  EXPECT_EQ(indexed.status, 0) << indexed.err;
  EXPECT_THAT(indexed.out, HasSubstr("b-000002.tar.index.json: 7 samples\n"));
  EXPECT_THAT(indexed.out, HasSubstr("b-000001.tar.index.json: 7 samples, kept\n"));
  const ProcessResult verified =
      millrace({"verify", "--json", "--require-index", server.url("re/b-manifest.json")}, with);
  EXPECT_EQ(verified.status, 0) << verified.err;
  EXPECT_THAT(verified.out, HasSubstr("\"samples\":30"));

  const auto view = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"view", server.url("re/"), "-o", server.url("v.png")};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words, with).status;
  };
  EXPECT_EQ(view({}), 0);
  EXPECT_EQ(view({}), 2) << "it exists";
  EXPECT_EQ(view({"--force"}), 0);
  EXPECT_THAT(io::read_object(opener, server.url("v.png"), 1 << 24).text(), HasSubstr("PNG"));
}

/// nginx as a store: it takes PUT, perhaps DELETE, and cannot list.
ProcessResult create_at(const Nginx& server, const std::string& count,
                        const std::vector<std::string>& more = {}) {
  std::vector<std::string> words = {"create",      server.url("a-%06d.tar"),
                                    "--synthetic", "classes",
                                    "--count",     count,
                                    "--size",      "16",
                                    "--maxcount",  "10"};
  words.insert(words.end(), more.begin(), more.end());
  return millrace(words);
}

TEST(ServersThatCannotList, HoldASetThatIsRefusedOrReplacedWhole) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir dir;
  const Nginx server(dir.path(), {.location_lines = "dav_methods PUT DELETE; "
                                                    "client_max_body_size 100m;"});
  const ProcessResult created = create_at(server, "40");
  ASSERT_EQ(created.status, 0) << created.err;
  const ProcessResult again = create_at(server, "40");
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("exists (4 shards of this pattern in all)"));
  std::filesystem::remove(dir / "a-000001.tar");  // a gap, as killed processes leave
  const ProcessResult replaced = create_at(server, "20", {"--force"});
  EXPECT_EQ(replaced.status, 0) << replaced.err;
  EXPECT_TRUE(std::filesystem::exists(dir / "a-000001.tar"));
  for (const char* stale : {"a-000002.tar", "a-000003.tar", "a-000003.tar.index.json"})
    EXPECT_FALSE(std::filesystem::exists(dir / stale)) << stale;
}

TEST(ServersThatCannotList, ReplaceNoShardBehindAGap) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir dir;
  const Nginx server(dir.path(), {.location_lines = "dav_methods PUT DELETE; "
                                                    "client_max_body_size 100m;"});
  const TempDir in;
  const std::string set = make_set(in, 18, 18);
  write_file(dir / "x-000017.tar", "another's");
  std::vector<std::string> words = {"reshard", set, server.url("x-%06d.tar"), "--maxcount", "1"};
  const ProcessResult refused = millrace(words);
  EXPECT_EQ(refused.status, 2) << refused.err;
  EXPECT_THAT(refused.err, HasSubstr("object exists and may not be replaced (url " +
                                     server.url("x-000017.tar")));
  EXPECT_EQ(read_file(dir / "x-000017.tar"), "another's");
  words.emplace_back("--force");
  const ProcessResult forced = millrace(words);
  EXPECT_EQ(forced.status, 0) << forced.err;
  EXPECT_NE(read_file(dir / "x-000017.tar"), "another's");
}

TEST(ServersThatCannotList, AndDoNotDeleteTakeANewSetByForce) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir dir;
  const Nginx server(dir.path(), {.location_lines = "dav_methods PUT; client_max_body_size 100m;"});
  const ProcessResult created = create_at(server, "20", {"--force"});
  EXPECT_EQ(created.status, 0) << created.err;
  const ProcessResult replaced = create_at(server, "10", {"--force"});
  EXPECT_EQ(replaced.status, 2);
  EXPECT_THAT(replaced.err, HasSubstr("cannot be removed (url " + server.url("a-000000.tar")));
  EXPECT_TRUE(std::filesystem::exists(dir / "a-000001.tar")) << "nothing is lost";
}

TEST(ServersThatCannotList, AndAnswerForEveryNameAreRefused) {
  const ScriptedHttpServer server(
      [](const ScriptedRequest&) -> ScriptedReply { return {http_reply(200, "", "a page")}; });
  for (const std::vector<std::string>& more : {std::vector<std::string>{}, {"--force"}}) {
    std::vector<std::string> words = {
        "create", server.url("/a-%06d.tar"), "--synthetic", "classes", "--count", "20"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult refused = millrace(words);
    EXPECT_EQ(refused.status, 2);
    EXPECT_THAT(refused.err, HasSubstr("can hardly be there"));
  }
}

/// `millrace WORD...` in three processes.
ProcessResult millrace_in_three(const std::vector<std::string>& words, ProcessOptions with) {
  with.environment.insert(
      {{"OMPI_ALLOW_RUN_AS_ROOT", "1"}, {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}});
  std::vector<std::string> all = {"mpirun", "--oversubscribe", "-np", "3", MILLRACE_PROGRAM};
  all.insert(all.end(), words.begin(), words.end());
  return run_process(all, with);
}

TEST_P(BucketCommands, SeveralProcessesWriteTheObjectsOfOne) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const TempDir dir;
  const io::UrlOpener opener({.object_stores = server.options()});
  const ProcessOptions with{.environment = server.environment()};
  if (millrace_in_three({"--version"}, with).status != 0) GTEST_SKIP() << "mpirun starts nothing";
  const auto create = [&](const std::string& place) -> std::vector<std::string> {
    return {"create", place + "a-%06d.tar", "--synthetic", "classes", "--count", "31", "--size",
            "16",     "--maxcount",         "10"};
  };
  const auto reshard = [&](const std::string& place) -> std::vector<std::string> {
    return {"reshard", place + "a-{000000..000003}.tar", place + "b-%06d.tar", "--maxcount", "7"};
  };
  const std::string folder = dir.path().string() + "/set/";
  const std::string bucket = server.url("set/");
  ASSERT_EQ(millrace(create(folder)).status, 0);
  ASSERT_EQ(millrace(reshard(folder)).status, 0);
  const ProcessResult created = millrace_in_three(create(bucket), with);
  if (created.err.find("built without MPI") != std::string::npos) GTEST_SKIP() << created.err;
  ASSERT_EQ(created.status, 0) << created.err;
  const ProcessResult resharded = millrace_in_three(reshard(bucket), with);
  ASSERT_EQ(resharded.status, 0) << resharded.err;
  for (const std::string name : {"a-000001.tar.index.json", "a-manifest.json"})
    opener.remove(bucket + name);
  const ProcessResult indexed =
      millrace_in_three({"index", bucket + "a-{000000..000003}.tar"}, with);
  EXPECT_EQ(indexed.status, 0) << indexed.err;

  const auto names = list_dir(folder);
  EXPECT_EQ(urls_under(opener, bucket), names);
  for (const std::string& name : names)
    EXPECT_TRUE(read_file(folder + name) == io::read_object(opener, bucket + name, 1 << 24).text())
        << name;
  const ProcessResult again = millrace_in_three(create(bucket), with);
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("exists (4 shards of this pattern in all)"));
}

/// A checkpoint's file, which in a bucket is the object that the manifest names.
std::string checkpoint_file(const io::Opener& opener, const std::string& checkpoint,
                            const std::string& name) {
  const auto manifest =
      nlohmann::json::parse(io::read_object(opener, checkpoint + "/manifest.json", 1 << 20).text());
  const std::string object = manifest["files"][name].value("object", name);
  return std::string(io::read_object(opener, checkpoint + "/" + object, 1 << 24).text());
}

bool has_object(const io::Opener& opener, const std::string& url) {
  const auto listed = opener.list(url);
  return std::ranges::any_of(listed, [&](const auto& object) { return object.url == url; });
}

TEST_P(BucketCommands, TrainResumeAndPredictFromABucket) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const TempDir dir;
  make_set(dir, 64, 32, {"--force"});
  copy_folder(dir.path().string(), server);
  const ProcessOptions with{.environment = server.environment()};
  const auto train = [&](const std::string& set, const std::string& run,
                         const std::vector<std::string>& more) {
    std::vector<std::string> words = {
        "train",     "--train",   set,          "--model",    "lenet",   "--size", "16",
        "--classes", "10",        "--channels", "3",          "--lr",    "0.05",   "--batch-size",
        "8",         "--run-dir", dir / run,    "--schedule", "constant"};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words, with);
    EXPECT_EQ(result.status, 0) << result.err;
  };
  train(dir.path().string(), "disk", {"--epochs", "2"});
  const std::string kept = server.url("runs/one");
  train(server.url("data/"), "first", {"--epochs", "1", "--upload", kept});
  train(server.url("data/*.tar"), "second",
        {"--epochs", "2", "--upload", kept, "--resume", kept + "/last"});
  const io::UrlOpener opener({.object_stores = server.options()});
  EXPECT_TRUE(checkpoint_file(opener, kept + "/last", "model.safetensors") ==
              read_file(dir / "disk/checkpoints/last/model.safetensors"))
      << "the weights that a run on disk has";
  const ProcessResult predicted = millrace({"predict", server.url("data/"), "--checkpoint",
                                            kept + "/last", "-o", server.url("rows.csv")},
                                           with);
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  const auto rows = io::read_object(opener, server.url("rows.csv"), 1 << 24);
  EXPECT_EQ(std::count(rows.text().begin(), rows.text().end(), '\n'), 65);
}

// The second upload of `last` is cut short by the machine's loss.
TEST_P(BucketCommands, AnUploadThatIsKilledIsContinuedByAMachineThatHasNothing) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const TempDir dir;
  const std::string set = make_set(dir, 64, 32);
  const std::string kept = server.url("runs/one");
  const io::UrlOpener opener({.object_stores = server.options()});
  const auto train = [&](const std::string& run, const std::vector<std::string>& more,
                         ProcessOptions with) {
    std::vector<std::string> words = {"train",
                                      set,
                                      "--model",
                                      "lenet",
                                      "--size",
                                      "16",
                                      "--classes",
                                      "10",
                                      "--channels",
                                      "3",
                                      "--epochs",
                                      "3",
                                      "--batch-size",
                                      "8",
                                      "--run-dir",
                                      dir / run,
                                      "--workers",
                                      "1",
                                      "--devices",
                                      "1",
                                      "--save-every-steps",
                                      "2"};
    words.insert(words.end(), more.begin(), more.end());
    with.environment = server.environment();
    return millrace(words, with);
  };
  ASSERT_EQ(train("whole", {}, {}).status, 0);
  const auto models = [&] {
    return std::ranges::count_if(opener.list(kept + "/last/model-"),
                                 [](const auto&) { return true; });
  };
  const ProcessResult killed = train(
      "lost", {"--upload", kept}, {.signal_when = [&] { return models() > 1; }, .signal = SIGKILL});
  EXPECT_TRUE(killed.status == 128 + SIGKILL || killed.status == 0) << killed.err;
  const ProcessResult again = train("other", {"--upload", kept}, {});
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr("holds another run's checkpoints"));
  const ProcessResult resumed = train("fresh", {"--upload", kept, "--resume", "auto"}, {});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, HasSubstr("using the uploaded one"));
  EXPECT_TRUE(checkpoint_file(opener, kept + "/last", "model.safetensors") ==
              read_file(dir / "whole/checkpoints/last/model.safetensors"));
}

// All of it in the bucket: the set, the run's folder, and the checkpoint that is evaluated.
TEST_P(BucketCommands, ARunThatIsKilledIsResumedToTheWeightsOfOneOnDisk) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const TempDir dir;
  const io::UrlOpener opener({.object_stores = server.options()});
  ProcessOptions with{.environment = server.environment()};
  const std::string secret = "the-secret";
  if (GetParam() == BucketServer::Kind::kS3) with.environment["AWS_SECRET_ACCESS_KEY"] = secret;
  if (GetParam() == BucketServer::Kind::kGcs)
    with.environment["GOOGLE_OAUTH_ACCESS_TOKEN"] = secret;
  const std::string set = server.url("set/");
  const std::string run = server.url("runs/one");
  ASSERT_EQ(millrace({"create", set + "a-%06d.tar", "--synthetic", "classes", "--count", "96",
                      "--size", "16", "--maxcount", "24"},
                     with)
                .status,
            0);
  EXPECT_THAT(millrace({"ls", set, "--json"}, with).out, HasSubstr(set + "a-000003.tar\""));
  EXPECT_EQ(millrace({"verify", set}, with).status, 0);
  const auto train = [&](const std::string& run_dir, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"train",
                                      "--train",
                                      set,
                                      "--val",
                                      set + "a-000000.tar",
                                      "--model",
                                      "lenet",
                                      "--size",
                                      "16",
                                      "--classes",
                                      "10",
                                      "--channels",
                                      "3",
                                      "--lr",
                                      "0.05",
                                      "--schedule",
                                      "constant",
                                      "--warmup-steps",
                                      "0",
                                      "--batch-size",
                                      "8",
                                      "--shuffle",
                                      "20",
                                      "--epochs",
                                      "4",
                                      "--save-every-steps",
                                      "2",
                                      "--save-top-k",
                                      "1",
                                      "--run-dir",
                                      run_dir};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words, with);
  };
  ASSERT_EQ(train(dir / "run").status, 0);
  with.signal = SIGKILL;
  with.signal_when = [&] { return has_object(opener, run + "/checkpoints/last/manifest.json"); };
  const ProcessResult killed = train(run);
  ASSERT_EQ(killed.status, 128 + SIGKILL) << killed.err;
  with.signal_when = {};
  with.signal = 0;
  EXPECT_TRUE(has_object(opener, run + "/.lock"));
  const ProcessResult again = train(run);
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err, HasSubstr(run + " holds a run: continue it with --resume auto"));

  const ProcessResult resumed = train(run, {"--resume", "auto"});
  ASSERT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, ::testing::AllOf(HasSubstr("left its lock, which is taken over"),
                                            HasSubstr("Resumed from " + run + "/checkpoints/")));
  for (const std::string checkpoint : {"last", "best"})
    EXPECT_TRUE(checkpoint_file(opener, run + "/checkpoints/" + checkpoint, "model.safetensors") ==
                read_file(dir / ("run/checkpoints/" + checkpoint + "/model.safetensors")))
        << checkpoint;
  EXPECT_FALSE(has_object(opener, run + "/.lock"));
  EXPECT_THAT(io::read_object(opener, run + "/metrics.jsonl", 1 << 24).text(),
              HasSubstr("\"event\":\"end\""));
  for (const char* name : {"/run.json", "/first-batch.json"})
    EXPECT_TRUE(has_object(opener, run + name)) << name << ", for its page";
  const ProcessResult page = millrace({"report", run, "-o", dir / "page.html"}, with);
  EXPECT_EQ(page.status, 0) << page.err;
  EXPECT_THAT(read_file(dir / "page.html"), HasSubstr("millrace train"));
  const auto evaluated = [&](const std::string& checkpoint) {
    const ProcessResult result =
        millrace({"eval", set, "--checkpoint", checkpoint, "--json"}, with);
    EXPECT_EQ(result.status, 0) << result.err;
    auto line = nlohmann::json::parse(result.out);
    line.erase("seconds");
    return line;
  };
  EXPECT_EQ(evaluated(run), evaluated(dir / "run"));
  for (const std::string& text : {killed.err, again.err, resumed.err, resumed.out})
    EXPECT_THAT(text, Not(HasSubstr(secret)));
  for (const auto& object : opener.list(server.url(""), {.recursive = true}))
    EXPECT_THAT(io::read_object(opener, object.url, 1 << 24).text(), Not(HasSubstr(secret)))
        << object.url;
}

// Of one store alone: what differs between stores is below what these commands call.
TEST(BucketOutputs, AreStatisticsPicturesAndPredictedShards) {
  constexpr auto kKind = BucketServer::Kind::kS3;
  if (const auto reason = BucketServer::missing(kKind)) GTEST_SKIP() << *reason;
  const BucketServer server(kKind);
  const TempDir dir;
  const io::UrlOpener opener({.object_stores = server.options()});
  const ProcessOptions with{.environment = server.environment()};
  const std::string set = make_scene_set(dir, 4, 32);
  const std::string run = dir / "run";
  const ProcessResult trained =
      millrace({"train", set, "--model", "unet(width=16)", "--size", "32", "--mask-value", "1",
                "--epochs", "1", "--batch-size", "4", "--run-dir", run},
               with);
  ASSERT_EQ(trained.status, 0) << trained.err;
  const auto starts_as = [&](const std::string& name, std::string_view start) {
    return io::read_object(opener, server.url(name), 1 << 24).text().starts_with(start);
  };
  const ProcessResult pictured =
      millrace({"eval", "--checkpoint", run, set, "--pictures", server.url("p.png")}, with);
  EXPECT_EQ(pictured.status, 0) << pictured.err;
  EXPECT_TRUE(starts_as("p.png", "\x89PNG"));
  const std::string predicted = server.url("predicted/p-%06d.tar");
  const auto predict = [&] {
    return millrace({"predict", set, "--checkpoint", run, "--shards", predicted}, with).status;
  };
  EXPECT_EQ(predict(), 0);
  EXPECT_EQ(predict(), 2) << "they exist";
  EXPECT_THAT(millrace({"verify", "--json", server.url("predicted/*.tar")}, with).out,
              HasSubstr("\"samples\":4"));
  const auto stats = [&](const std::string& place, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"stats", set, "--json", "-o", place};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words, with).status;
  };
  EXPECT_EQ(stats(server.url("s.json")), 0);
  EXPECT_EQ(stats(server.url("s.json")), 2) << "it exists";
  EXPECT_EQ(stats(server.url("s.json"), {"--force"}), 0);
  EXPECT_EQ(stats(dir / "s.json"), 0);
  EXPECT_EQ(stats(dir / "s.json"), 2);
  EXPECT_EQ(io::read_object(opener, server.url("s.json"), 1 << 24).text(),
            read_file(dir / "s.json"));
}

TEST_P(BucketCommands, AnUnfinishedSetIsCalledThat) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const io::UrlOpener opener({.object_stores = server.options()});
  ProcessOptions with{.environment = server.environment()};
  with.signal = SIGKILL;
  with.signal_when = [&] { return has_object(opener, server.url("a-000001.tar")); };
  const std::vector<std::string> create = {"create",      server.url("a-%06d.tar"),
                                           "--synthetic", "classes",
                                           "--count",     "20000",
                                           "--size",      "16",
                                           "--maxcount",  "100"};
  ASSERT_EQ(millrace(create, with).status, 128 + SIGKILL);
  with.signal_when = {};
  with.signal = 0;
  auto small = create;
  small[5] = "300";
  const ProcessResult again = millrace(small, with);
  EXPECT_EQ(again.status, 2);
  EXPECT_THAT(again.err,
              ::testing::AllOf(HasSubstr("a-000000.tar is of a set that was not finished"),
                               HasSubstr("--force begins it again")));
  small.emplace_back("--force");
  EXPECT_EQ(millrace(small, with).status, 0);
  EXPECT_THAT(millrace({"verify", "--json", server.url("a-manifest.json")}, with).out,
              HasSubstr("\"samples\":300"));
}

/// An S3 server with one bucket, which refuses requests as it is told to.
struct ScriptedBucket {
  /// Whether the request is refused, and how.
  std::function<std::optional<ScriptedReply>(const ScriptedRequest& request)> fault;
  std::map<std::string, std::string> objects;  ///< by key
  ScriptedHttpServer server{[this](const ScriptedRequest& request) { return answer(request); }};

  std::map<std::string, std::string> environment() const {
    return {{"AWS_ACCESS_KEY_ID", "the-key"},
            {"AWS_SECRET_ACCESS_KEY", "the-secret"},
            {"AWS_SESSION_TOKEN", "the-token"},
            {"AWS_ENDPOINT_URL", server.url("")}};
  }

  ScriptedReply answer(const ScriptedRequest& request) {
    if (fault) {
      if (auto refused = fault(request)) return *refused;
    }
    return heed(request);
  }

  ScriptedReply heed(const ScriptedRequest& request) {
    if (request.target.find("list-type=2") != std::string::npos) return {listing(request.target)};
    const std::string key = request.target.substr(std::string("/b/").size());
    if (request.method == "PUT") {
      objects[key] = request.body;
      return {http_reply(200, "ETag: \"1\"\r\n", "")};
    }
    if (request.method == "DELETE")
      return objects.erase(key), ScriptedReply{http_reply(204, "", "")};
    const auto found = objects.find(key);
    if (found == objects.end())
      return {http_reply(404, "",
                         request.method == "HEAD" ? "" : "<Error><Code>NoSuchKey</Code></Error>")};
    if (request.method == "HEAD") return {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"};
    return {http_serve(request, found->second)};
  }

  std::string listing(const std::string& target) const {
    const std::size_t at = target.find("&prefix=") + std::string("&prefix=").size();
    std::string prefix = target.substr(at, target.find('&', at) - at);
    for (std::size_t slash; (slash = prefix.find("%2F")) != std::string::npos;)
      prefix.replace(slash, 3, "/");
    const bool flat = target.find("delimiter=") != std::string::npos;
    std::string text = "<ListBucketResult><IsTruncated>false</IsTruncated>";
    std::set<std::string> folders;
    for (const auto& [key, content] : objects) {
      if (!key.starts_with(prefix)) continue;
      const std::size_t slash = key.find('/', prefix.size());
      if (flat && slash != std::string::npos) {
        folders.insert(key.substr(0, slash + 1));
      } else {
        text += "<Contents><Key>" + key + "</Key><Size>" + std::to_string(content.size()) +
                "</Size></Contents>";
      }
    }
    for (const std::string& folder : folders)
      text += "<CommonPrefixes><Prefix>" + folder + "</Prefix></CommonPrefixes>";
    return http_reply(200, "", text + "</ListBucketResult>");
  }

  /// Trains two epochs of eight steps into s3://b/run.
  ProcessResult train(const std::string& set, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words = {
        "train",     set,  "--model",    "lenet",      "--size",       "16",
        "--classes", "10", "--channels", "3",          "--batch-size", "8",
        "--epochs",  "2",  "--run-dir",  "s3://b/run", "--log-steps",  "1"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words, {.environment = environment()});
  }

  /// Trains on a disk, and uploads to s3://b/up.
  ProcessResult train_uploading(const std::string& set, const std::string& run_dir,
                                const std::vector<std::string>& more = {},
                                ProcessOptions with = {}) const {
    std::vector<std::string> words = {"train",
                                      set,
                                      "--model",
                                      "lenet",
                                      "--size",
                                      "16",
                                      "--classes",
                                      "10",
                                      "--channels",
                                      "3",
                                      "--batch-size",
                                      "8",
                                      "--epochs",
                                      "2",
                                      "--run-dir",
                                      run_dir,
                                      "--upload",
                                      "s3://b/up",
                                      "--workers",
                                      "1",
                                      "--devices",
                                      "1",
                                      "--save-every-steps",
                                      "4"};
    words.insert(words.end(), more.begin(), more.end());
    with.environment = environment();
    return millrace(words, with);
  }

  void expect_no_secrets(const std::vector<std::string>& outputs) const {
    for (const char* secret : {"the-secret", "the-token", "the-key"}) {
      for (const std::string& output : outputs) EXPECT_THAT(output, Not(HasSubstr(secret)));
      for (const auto& [key, content] : objects)
        EXPECT_THAT(content, Not(HasSubstr(secret))) << key;
    }
  }
};

std::string date_in(std::chrono::minutes time) {
  const std::time_t then = std::time(nullptr) + std::chrono::seconds(time).count();
  std::tm parts{};
  ::gmtime_r(&then, &parts);
  char text[64];
  return {text, std::strftime(text, sizeof text, "%a, %d %b %Y %H:%M:%S GMT", &parts)};
}

bool is_dated(const ScriptedRequest& request, std::chrono::minutes ahead) {
  std::tm parts{};
  ::strptime(request.header("x-amz-date").c_str(), "%Y%m%dT%H%M%SZ", &parts);
  const std::time_t wanted = std::time(nullptr) + std::chrono::seconds(ahead).count();
  return std::abs(std::difftime(::timegm(&parts), wanted)) < 120;
}

TEST(BucketRun, SurvivesAClockThatIsOffBusyPhasesAndLostAnswers) {
  const TempDir dir;
  const std::string set = make_set(dir, 64, 32);
  ScriptedBucket store;
  constexpr std::chrono::minutes kOff(20);
  int number = 0;
  store.fault = [&](const ScriptedRequest& request) -> std::optional<ScriptedReply> {
    if (!is_dated(request, kOff))
      return ScriptedReply{http_reply(403, "Date: " + date_in(kOff) + "\r\n",
                                      "<Error><Code>RequestTimeTooSkewed</Code></Error>")};
    ++number;
    if (number == 12 || number == 13 || number == 20)
      return ScriptedReply{http_reply(503, "", "<Error><Code>SlowDown</Code></Error>")};
    if (number == 16) return ScriptedReply{"", After::kReset};
    return std::nullopt;
  };
  const ProcessResult result = store.train(set, {"--save-every-steps", "4"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_GT(number, 20);
  EXPECT_THAT(result.err, HasSubstr("503 (SlowDown)"));
  const ProcessResult on_disk = millrace(
      {"train", set, "--model", "lenet", "--size", "16", "--classes", "10", "--channels", "3",
       "--batch-size", "8", "--epochs", "2", "--run-dir", dir / "run", "--save-every-steps", "4"});
  const auto manifest =
      nlohmann::json::parse(store.objects.at("run/checkpoints/last/manifest.json"));
  const std::string model = manifest["files"]["model.safetensors"]["object"];
  EXPECT_TRUE(store.objects.at("run/checkpoints/last/" + model) ==
              read_file(dir / "run/checkpoints/last/model.safetensors"));
  EXPECT_FALSE(store.objects.contains("run/.lock"));
  store.expect_no_secrets({result.out, result.err});
}

TEST(BucketRun, ThatMayNoLongerWriteEndsWithOneLineAndAWholeCheckpoint) {
  const TempDir dir;
  const std::string set = make_set(dir, 64, 32);
  ScriptedBucket store;
  int models = 0;
  store.fault = [&](const ScriptedRequest& request) -> std::optional<ScriptedReply> {
    const bool is_model =
        request.method == "PUT" && request.target.find("/last/model") != std::string::npos;
    if (!is_model || ++models < 3) return std::nullopt;
    return ScriptedReply{http_reply(
        403, "",
        "<Error><Code>AccessDenied</Code><AWSAccessKeyId>the-key</AWSAccessKeyId></Error>")};
  };
  const ProcessResult failed = store.train(set, {"--save-every-steps", "2"});
  EXPECT_EQ(failed.status, 1);
  const std::string last = failed.err.substr(failed.err.rfind('\n', failed.err.size() - 2) + 1);
  EXPECT_THAT(last, ::testing::AllOf(HasSubstr("403 (AccessDenied)"),
                                     HasSubstr("s3://b/run/checkpoints/last/model-")));
  EXPECT_FALSE(store.objects.contains("run/.lock"));
  store.fault = {};
  const ProcessResult resumed = store.train(set, {"--resume", "auto"});
  EXPECT_EQ(resumed.status, 0) << resumed.err;
  EXPECT_THAT(resumed.err, ::testing::AllOf(HasSubstr("Resumed from s3://b/run/checkpoints/last"),
                                            Not(HasSubstr("skipped"))));
  const ProcessResult evaluated = millrace({"eval", set, "--json", "--checkpoint", "s3://b/run"},
                                           {.environment = store.environment()});
  EXPECT_EQ(evaluated.status, 0) << evaluated.err;
  store.expect_no_secrets(
      {failed.out, failed.err, resumed.out, resumed.err, evaluated.out, evaluated.err});
}

/// The program is killed at its `number`-th request, before or after the store has heeded it.
void kill_at(ScriptedBucket& store, int number, bool heeded, std::atomic<bool>& reached) {
  store.fault = [&store, &reached, number, heeded, count = 0](
                    const ScriptedRequest& request) mutable -> std::optional<ScriptedReply> {
    if (++count < number) return std::nullopt;
    if (count == number && heeded) static_cast<void>(store.heed(request));
    reached = true;
    return ScriptedReply{"", After::kHang};
  };
}

// A machine is lost at any moment: what was uploaded before is there, and a machine that has
// nothing continues from it to the same weights.
TEST(BucketUpload, ThatIsKilledAtAnyRequestLeavesACheckpointThatIsResumed) {
  const TempDir dir;
  const std::string set = make_set(dir, 64, 32);
  ScriptedBucket whole;
  int requests = 0;
  whole.fault = [&](const ScriptedRequest&) { return ++requests, std::nullopt; };
  ASSERT_EQ(whole.train_uploading(set, dir / "whole").status, 0);
  const std::string expected = read_file(dir / "whole/checkpoints/last/model.safetensors");
  ASSERT_GT(requests, 20);
  const int step = is_long() ? 1 : 7;
  for (int number = 1; number <= requests; number += step) {
    ScriptedBucket store;
    std::atomic<bool> reached = false;
    kill_at(store, number, number % 2 == 0, reached);
    const std::string lost = dir / ("lost-" + std::to_string(number));
    const ProcessResult killed = store.train_uploading(
        set, lost, {}, {.signal_when = [&] { return reached.load(); }, .signal = SIGKILL});
    ASSERT_EQ(killed.status, 128 + SIGKILL) << number << ": " << killed.err;
    store.fault = {};
    const bool has_last = store.objects.contains("up/last/manifest.json");
    const std::string fresh = dir / ("fresh-" + std::to_string(number));
    const ProcessResult resumed = store.train_uploading(set, fresh, {"--resume", "auto"});
    ASSERT_EQ(resumed.status, 0) << number << ": " << resumed.err;
    EXPECT_EQ(resumed.err.find("using the uploaded one") != std::string::npos, has_last) << number;
    EXPECT_THAT(resumed.err, Not(HasSubstr("cannot be read"))) << number;
    EXPECT_TRUE(read_file(fresh + "/checkpoints/last/model.safetensors") == expected) << number;
    EXPECT_FALSE(store.objects.contains("up/.lock")) << number;
    std::map<std::string, int> files;
    for (const auto& [key, content] : store.objects) ++files[key.substr(0, key.rfind('/'))];
    EXPECT_EQ(files["up/last"], 4) << number << ": nothing is left over";
  }
}

TEST(BucketUpload, OfTwoRunsAtOnceIsRefused) {
  const TempDir dir;
  const std::string set = make_set(dir, 64, 32);
  ScriptedBucket store;
  store.objects["up/.lock"] = "{}";
  std::atomic<int> reads = 0;
  store.fault = [&](const ScriptedRequest& request) -> std::optional<ScriptedReply> {
    if (request.method == "GET" && request.target == "/b/up/.lock")
      store.objects["up/.lock"] = "{\"beat\":" + std::to_string(++reads) + "}";
    return std::nullopt;
  };
  const ProcessResult result = store.train_uploading(set, dir / "run");
  EXPECT_EQ(result.status, 2) << result.err;
  EXPECT_THAT(result.err, HasSubstr("another run writes to s3://b/up"));
}

TEST(BucketWriter, ThatIsRefusedLeavesNoSecret) {
  ScriptedHttpServer server([](const ScriptedRequest& request) -> ScriptedReply {
    if (request.method == "GET" && request.target.find("list-type=2") != std::string::npos)
      return {http_reply(200, "",
                         "<ListBucketResult><IsTruncated>false</IsTruncated>"
                         "</ListBucketResult>")};
    return {http_reply(403, "",
                       "<Error><Code>SignatureDoesNotMatch</Code><AWSAccessKeyId>the-key"
                       "</AWSAccessKeyId><StringToSign>the-secret</StringToSign></Error>")};
  });
  const TempDir dir;
  const ProcessResult result =
      millrace({"create", "s3://b/a-%06d.tar", "--synthetic", "classes", "--count", "3"},
               {.environment = {{"AWS_ACCESS_KEY_ID", "the-key"},
                                {"AWS_SECRET_ACCESS_KEY", "the-secret"},
                                {"AWS_SESSION_TOKEN", "the-token"},
                                {"AWS_ENDPOINT_URL", server.url("")}},
                .folder = dir.path().string()});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("403 (SignatureDoesNotMatch)"));
  EXPECT_THAT(result.err, ::testing::Not(HasSubstr("the-")));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_TRUE(list_dir(dir.path().string()).empty());
}

INSTANTIATE_TEST_SUITE_P(Real, BucketCommands,
                         ::testing::Values(BucketServer::Kind::kS3, BucketServer::Kind::kGcs),
                         [](const auto& server) {
                           return server.param == BucketServer::Kind::kS3 ? "S3" : "Gcs";
                         });

}  // namespace
}  // namespace millrace::testing
