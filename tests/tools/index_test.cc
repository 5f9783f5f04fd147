// index: the shards' indexes and the set's manifest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "tests/support/nginx.h"
#include "tests/support/tar_builder.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class Index : public ::testing::Test {
 protected:
  Index() : shards_(make_set(dir_, 30, 20)) {}

  std::vector<nlohmann::json> index(std::vector<std::string> words, int status = 0) {
    words.insert(words.begin(), {"index", "--json"});
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, status) << result.err;
    error_ = result.err;
    return json_lines(result.out);
  }

  TempDir dir_;
  std::string shards_;
  std::string error_;
};

TEST_F(Index, IsBesideItsShardAndTheManifestNamesAll) {
  const auto lines = index({shards_});
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["url"], dir_ / "set-000000.tar");
  EXPECT_EQ(lines[0]["samples"], 20);
  EXPECT_EQ(lines[1]["samples"], 10);
  EXPECT_EQ(lines[0]["bytes"], std::filesystem::file_size(dir_ / "set-000000.tar"));
  EXPECT_EQ(lines[0]["kept"], false);
  const auto sum = run_process({"/usr/bin/sha256sum", dir_ / "set-000000.tar"});
  EXPECT_EQ(lines[0]["sha256"], sum.out.substr(0, 64));
  const auto manifest = nlohmann::json::parse(read_file(dir_ / "set-manifest.json"));
  EXPECT_EQ(manifest["shardlist"][1]["url"], "set-000001.tar");
  EXPECT_EQ(manifest["shardlist"][1]["nsamples"], 10);
  EXPECT_EQ(json_lines(millrace({"ls", "--json", dir_ / "set-manifest.json"}).out).size(), 30U);
}

TEST_F(Index, EachSetOfAFolderHasItsOwnManifest) {
  std::filesystem::rename(dir_ / "set-000001.tar", dir_ / "other-000000.tar");
  index({dir_.path().string()});
  EXPECT_EQ(list_samples(dir_ / "set-manifest.json").size(), 20U);
  EXPECT_EQ(list_samples(dir_ / "other-manifest.json").size(), 10U);
}

TEST_F(Index, IsKeptUnlessForced) {
  index({shards_});
  const std::string before = read_file(dir_ / "set-000000.tar.index.json");
  EXPECT_EQ(index({shards_})[0]["kept"], true);
  EXPECT_EQ(index({shards_, "--force"})[0]["kept"], false);
  EXPECT_EQ(read_file(dir_ / "set-000000.tar.index.json"), before);
}

TEST_F(Index, OfOneShardKeepsTheSetsManifest) {
  index({shards_});
  const std::string manifest = read_file(dir_ / "set-manifest.json");
  index({dir_ / "set-000001.tar"});
  EXPECT_EQ(read_file(dir_ / "set-manifest.json"), manifest);
  write_file(dir_ / "set-000002.tar", TarBuilder().file("a.cls", "1").end().bytes());
  index({dir_ / "set-{000000..000002}.tar"}, 2);
  EXPECT_THAT(error_, HasSubstr("set-manifest.json"));
}

TEST_F(Index, ForcedOfOneShardKeepsTheOthersOfTheManifest) {
  index({shards_});
  const auto counts = [this] {
    std::vector<int> numbers;
    const auto manifest = nlohmann::json::parse(read_file(dir_ / "set-manifest.json"));
    for (const auto& shard : manifest["shardlist"]) numbers.push_back(shard["nsamples"]);
    return numbers;
  };
  write_file(dir_ / "set-000001.tar", TarBuilder().file("a.cls", "1").end().bytes());
  index({dir_ / "set-000001.tar", "--force"});
  EXPECT_EQ(counts(), (std::vector{20, 1}));
  std::filesystem::remove(dir_ / "set-000000.tar");
  index({dir_ / "set-000001.tar", "--force"});
  EXPECT_EQ(counts(), std::vector{1}) << "of shards that are there";
}

TEST_F(Index, OfAnotherShardIsRefused) {
  index({shards_});
  write_file(dir_ / "set-000000.tar", TarBuilder().file("a.cls", "1").end().bytes());
  index({shards_}, 1);
  EXPECT_THAT(error_, HasSubstr("--force"));
  EXPECT_EQ(index({shards_, "--force"})[0]["samples"], 1);
}

TEST_F(Index, ADamagedShardHasNoneAndIsLeftOutWhenSkipping) {
  const std::string tar = read_file(dir_ / "set-000000.tar");
  write_file(dir_ / "set-000000.tar", tar.substr(0, tar.size() / 2));
  index({shards_}, 1);
  EXPECT_THAT(error_, HasSubstr("set-000000.tar"));
  const auto lines = index({shards_, "--on-fault", "skip"});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["samples"], 10);
  EXPECT_FALSE(std::filesystem::exists(dir_ / "set-000000.tar.index.json"));
}

TEST_F(Index, DalisIsWrittenToo) {
  index({dir_ / "set-000001.tar", "--dali"});
  const std::string idx = read_file(dir_ / "set-000001.idx");
  EXPECT_THAT(idx, StartsWith("v1.2 10\n"));
  const auto samples = json_lines(millrace({"ls", "--json", dir_ / "set-000001.tar"}).out);
  EXPECT_THAT(idx, HasSubstr("cls " + samples[0]["fields"]["cls"]["offset"].dump() + " 1 "));
}

TEST_F(Index, WhatDaliCannotReadIsRefusedByName) {
  write_file(dir_ / "odd.tar", TarBuilder().file("two words.cls", "1").end().bytes());
  index({dir_ / "odd.tar", "--dali"}, 1);
  EXPECT_THAT(error_,
              AllOf(HasSubstr("odd.tar"), HasSubstr("two words.cls"), HasSubstr("white space")));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "odd.idx"));
}

TEST_F(Index, OfShardsOnTheNetworkGoesToAFolder) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const Nginx nginx(dir_.path());
  const TempDir out;
  const std::string url = nginx.url("set-{000000..000001}.tar");
  index({url}, 2);
  EXPECT_THAT(error_, HasSubstr("--output"));
  index({url, "--out", out / "indexes"});
  EXPECT_THAT(
      list_dir(out / "indexes"),
      ElementsAre("set-000000.tar.index.json", "set-000001.tar.index.json", "set-manifest.json"));
  EXPECT_EQ(json_lines(millrace({"ls", "--json", out / "indexes/set-manifest.json"}).out).size(),
            30U);
  index({shards_});
  EXPECT_EQ(read_file(out / "indexes/set-000001.tar.index.json"),
            read_file(dir_ / "set-000001.tar.index.json"));
}

}  // namespace
}  // namespace millrace::testing
