#include "pipeline/data_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <map>

#include "io/base/error.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/temp_dir.h"

namespace millrace::pipeline {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;
using testing::write_file;

PipelineOptions of_shards(const TempDir& dir, const std::vector<std::string>& names) {
  PipelineOptions options{.batch = {.size = 8}};
  for (const std::string& name : names) options.shards.push_back(dir / name);
  return options;
}

std::shared_ptr<const io::Opener> without_patience() {
  return std::make_shared<io::UrlOpener>(
      io::UrlOpenerOptions{.http = {.retry = {.patience = std::chrono::milliseconds(0)}}});
}

DataIdentity through_json(const DataIdentity& identity) {
  return DataIdentity::from_json(identity.to_json());
}

TEST(DataIdentity, IsTheSameWhereverTheShardsLie) {
  const TempDir here;
  const TempDir there;
  for (const TempDir* dir : {&here, &there}) {
    write_file(*dir / "a.tar", std::string(100'000, 'a'));
    write_file(*dir / "b.tar", "");
  }
  const auto saved = through_json(identify(of_shards(here, {"a.tar", "b.tar"})));
  const auto given = identify(of_shards(there, {"a.tar", "b.tar"}));
  EXPECT_EQ("", content_difference(saved, given));
  EXPECT_EQ("", list_difference(saved, given));
  EXPECT_THAT(option_differences(saved, given), ElementsAre());
  EXPECT_EQ(100'000U, *saved.shards[0].bytes);
}

TEST(DataIdentity, NoticesSwappedShardsAndASetMadeAnew) {
  const TempDir dir;
  write_file(dir / "a.tar", std::string(100'000, 'a'));
  write_file(dir / "b.tar", std::string(100'000, 'b'));
  const auto saved = through_json(identify(of_shards(dir, {"a.tar", "b.tar"})));
  fs::rename(dir / "a.tar", dir / "c.tar");
  fs::rename(dir / "b.tar", dir / "a.tar");
  fs::rename(dir / "c.tar", dir / "b.tar");
  EXPECT_THAT(content_difference(saved, identify(of_shards(dir, {"a.tar", "b.tar"}))),
              ::testing::AllOf(HasSubstr("shard a.tar: 100000 bytes, checksum "),
                               HasSubstr(" saved, 100000 bytes, checksum "), HasSubstr(" given")));
  for (const std::size_t at : {std::size_t{3}, std::size_t{50'000}, std::size_t{99'990}}) {
    std::string changed(100'000, 'a');
    changed[at] = 'x';
    write_file(dir / "a.tar", changed);
    write_file(dir / "b.tar", std::string(100'000, 'b'));
    EXPECT_NE("", content_difference(saved, identify(of_shards(dir, {"a.tar", "b.tar"})))) << at;
  }
}

TEST(DataIdentity, SaysTheFirstNameThatDiffers) {
  const TempDir dir;
  const auto saved = identify(of_shards(dir, {"a.tar", "b.tar"}));
  EXPECT_EQ("shard 2 of the list: b.tar saved, c.tar given",
            list_difference(saved, identify(of_shards(dir, {"a.tar", "c.tar"}))));
  EXPECT_EQ("2 shards saved, 1 given: b.tar is in one list only",
            list_difference(saved, identify(of_shards(dir, {"a.tar"}))));
}

TEST(DataIdentity, SaysWhichOptionsOfTheOrderDiffer) {
  const TempDir dir;
  PipelineOptions options = of_shards(dir, {"a.tar"});
  const auto saved = through_json(identify(options));
  options.batch = {.size = 16, .uneven = Uneven::kDrop};
  options.shuffle.seed = 3;
  options.epochs.samples = 40;
  options.resources.threads = 7;
  options.split.topology = {.process = 1, .processes = 2};
  options.split.streams = 2;
  EXPECT_THAT(option_differences(saved, identify(options)),
              ElementsAre("streams: 1 saved, 2 given", "shuffle-seed: 0 saved, 3 given",
                          "epoch-samples: 0 saved, 40 given", "uneven: pad saved, drop given"));
}

TEST(DataIdentity, SaysWhichOptionsOneSideAloneHas) {
  const TempDir dir;
  PipelineOptions options = of_shards(dir, {"a.tar"});
  const DataIdentity plain = through_json(identify(options));
  options.shuffle.open_shards = 3;
  options.epochs.passes = 2;
  DataIdentity more = through_json(identify(options));
  EXPECT_THAT(option_differences(plain, more),
              ElementsAre("open-shards: none saved, 3 given", "passes: none saved, 2 given"));
  EXPECT_THAT(option_differences(more, plain),
              ElementsAre("open-shards: 3 saved, none given", "passes: 2 saved, none given"));
  DataIdentity older = plain;
  std::erase_if(older.options,
                [](const auto& option) { return option.first == "shuffle-initial"; });
  EXPECT_THAT(option_differences(older, plain), ElementsAre());
  EXPECT_THAT(option_differences(plain, older), ElementsAre());
}

TEST(DataIdentity, UnknownValuesAreNotDifferences) {
  const TempDir dir;
  write_file(dir / "a.tar", "aaaa");
  const auto options = of_shards(dir, {"a.tar"});
  DataIdentity saved = identify(options);
  saved.forget(dir / "a.tar");
  EXPECT_EQ("", content_difference(saved, identify(options)));
  const PipelineOptions remote{.shards = {"http://127.0.0.1:1/a.tar?key=secret"},
                               .batch = {.size = 8},
                               .opener = without_patience()};
  const DataIdentity far = identify(remote);
  EXPECT_EQ("a.tar", far.shards[0].name);
  EXPECT_EQ("", content_difference(identify(options), far));
  EXPECT_EQ("", list_difference(identify(options), far));
}

/// A set of objects that can be changed.
struct Store {
  std::map<std::string, std::string> objects;
  testing::ScriptedHttpServer server{[this](const testing::ScriptedRequest& request) {
    const auto found = objects.find(request.target.substr(1));
    if (found == objects.end()) return testing::ScriptedReply{testing::http_reply(404, "", "")};
    return testing::ScriptedReply{testing::http_serve(request, found->second)};
  }};

  PipelineOptions of(const std::vector<std::string>& names) const {
    PipelineOptions options{.batch = {.size = 8}};
    for (const std::string& name : names) options.shards.push_back(server.url("/" + name));
    return options;
  }
};

TEST(DataIdentity, NoticesSwappedShardsOnTheNetwork) {
  const TempDir dir;
  Store store{
      .objects = {{"a.tar", std::string(100'000, 'a')}, {"b.tar", std::string(100'000, 'b')}}};
  for (const auto& [name, bytes] : store.objects) write_file(dir / name, bytes);
  const PipelineOptions remote = store.of({"a.tar", "b.tar"});
  const auto saved = through_json(identify(remote));
  const auto local = through_json(identify(of_shards(dir, {"a.tar", "b.tar"})));
  EXPECT_EQ("", content_difference(saved, identify(remote)));
  EXPECT_EQ("", content_difference(local, identify(remote))) << "a set may move to a server";
  std::swap(store.objects["a.tar"], store.objects["b.tar"]);
  for (const DataIdentity& before : {saved, local})
    EXPECT_THAT(content_difference(before, identify(remote)),
                ::testing::AllOf(HasSubstr("shard a.tar: 100000 bytes, "), HasSubstr("given"),
                                 HasSubstr("beginning ")));
  store.objects["a.tar"] = std::string(100'001, 'a');
  EXPECT_THAT(content_difference(saved, identify(remote)), HasSubstr(" saved, 100001 bytes"));
  store.objects.erase("a.tar");
  EXPECT_THAT(content_difference(saved, identify(remote)), HasSubstr("shard b.tar"))
      << "of those that are there";
}

TEST(DataIdentity, AsksNoServerThatIsDownForEveryShard) {
  const testing::ScriptedHttpServer server([](const testing::ScriptedRequest& /*request*/) {
    return testing::ScriptedReply{testing::http_reply(503, "", "busy")};
  });
  PipelineOptions options{.batch = {.size = 8}};
  for (int shard = 0; shard < 200; ++shard)
    options.shards.push_back(server.url("/" + std::to_string(shard)));
  options.opener = without_patience();
  EXPECT_EQ(200U, identify(options).shards.size());
  EXPECT_LT(server.requests().size(), 100U);
}

TEST(DataIdentity, CountsOfSamplesAreCompared) {
  const TempDir dir;
  PipelineOptions options = of_shards(dir, {"a.tar"});
  options.found.counts = std::make_shared<const std::vector<std::uint64_t>>(1, 50);
  const auto saved = through_json(identify(options));
  options.found.counts = std::make_shared<const std::vector<std::uint64_t>>(1, 51);
  EXPECT_EQ("shard a.tar: 50 samples saved, 51 samples given",
            content_difference(saved, identify(options)));
}

TEST(DataIdentity, RefusesInvalidText) {
  for (const char* text :
       {"", "[]", "{}", R"({"options":[],"shards":[1]})", R"({"options":{"a":1},"shards":[]})",
        R"({"options":{},"shards":[["a",-1,null,""]]})", R"({"options":{},"shards":[["a",1]]})"}) {
    EXPECT_THROW(DataIdentity::from_json(text), Error) << text;
  }
}

}  // namespace
}  // namespace millrace::pipeline
