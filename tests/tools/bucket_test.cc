// Buckets as folders, by the program: against real server programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/opener.h"
#include "tests/support/bucket_server.h"
#include "tests/support/scripted_http_server.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

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
  EXPECT_TRUE(io::read_object(opener, kept + "/last/model.safetensors", 1 << 24).text() ==
              read_file(dir / "disk/checkpoints/last/model.safetensors"))
      << "the weights that a run on disk has";
  const ProcessResult predicted = millrace({"predict", server.url("data/"), "--checkpoint",
                                            kept + "/last", "-o", server.url("rows.csv")},
                                           with);
  EXPECT_EQ(predicted.status, 0) << predicted.err;
  const auto rows = io::read_object(opener, server.url("rows.csv"), 1 << 24);
  EXPECT_EQ(std::count(rows.text().begin(), rows.text().end(), '\n'), 65);
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

// All of it in the bucket: the set, the run's folder, and the checkpoint that is evaluated.
TEST_P(BucketCommands, ARunThatIsKilledIsResumedToTheWeightsOfOneOnDisk) {
  if (const auto reason = BucketServer::missing(GetParam())) GTEST_SKIP() << *reason;
  const BucketServer server(GetParam());
  const TempDir dir;
  const io::UrlOpener opener({.object_stores = server.options()});
  ProcessOptions with{.environment = server.environment()};
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
  const auto evaluated = [&](const std::string& checkpoint) {
    const ProcessResult result =
        millrace({"eval", set, "--checkpoint", checkpoint, "--json"}, with);
    EXPECT_EQ(result.status, 0) << result.err;
    auto line = nlohmann::json::parse(result.out);
    line.erase("seconds");
    return line;
  };
  EXPECT_EQ(evaluated(run), evaluated(dir / "run"));
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
