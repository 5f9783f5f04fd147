// reshard: rewriting shards.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <map>

#include "tests/support/nginx.h"
#include "tests/support/tar_builder.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

class Reshard : public ::testing::Test {
 protected:
  ProcessResult reshard(std::vector<std::string> words, int status = 0) {
    words.insert(words.begin(), {"reshard", "--json"});
    ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, status) << result.err;
    return result;
  }

  /// Keys and contents of the fields, in order.
  std::vector<std::string> samples(const std::string& spec) {
    std::vector<std::string> list;
    for (const auto& line : json_lines(millrace({"ls", "--json", spec}).out)) {
      std::string text = line["key"];
      for (const auto& [suffix, field] : line["fields"].items())
        text += " " + suffix + ":" + field["crc32"].get<std::string>();
      list.push_back(text);
    }
    return list;
  }

  TempDir dir_;
  std::string pattern_ = dir_ / "new/out-%06d.tar";
  std::string written_ = dir_ / "new/";
};

TEST_F(Reshard, KeepsEverySampleInOrderAtOtherSizes) {
  const std::string shards = make_set(dir_, 30, 20);
  const auto lines = json_lines(reshard({shards, pattern_, "--maxcount", "7"}).out);
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0]["samples"], 7);
  EXPECT_EQ(lines[4]["samples"], 2);
  EXPECT_EQ(samples(written_), samples(shards));
}

TEST_F(Reshard, ReadsFromTheNetworkWhatItReadsFromDisk) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const std::string shards = make_set(dir_, 30, 20);
  const Nginx nginx(dir_.path());
  reshard({nginx.url("set-{000000..000001}.tar"), pattern_, "--maxsize", "10k"});
  EXPECT_EQ(samples(written_), samples(shards));
}

TEST_F(Reshard, ShufflesBySeed) {
  const std::string shards = make_set(dir_, 60, 10);
  reshard({shards, pattern_, "--shuffle", "3", "--buffer", "20"});
  reshard({shards, dir_ / "same/out-%06d.tar", "--shuffle", "3", "--buffer", "20"});
  reshard({shards, dir_ / "other/out-%06d.tar", "--shuffle", "4", "--buffer", "20"});
  auto shuffled = samples(written_);
  auto all = samples(shards);
  EXPECT_NE(shuffled, all);
  EXPECT_EQ(shuffled, samples(dir_ / "same"));
  EXPECT_NE(shuffled, samples(dir_ / "other"));
  std::sort(shuffled.begin(), shuffled.end());
  std::sort(all.begin(), all.end());
  EXPECT_EQ(shuffled, all);
}

TEST_F(Reshard, SelectsRenamesAndDropsDuplicates) {
  write_file(dir_ / "a.tar", TarBuilder()
                                 .file("x.jpeg", "1")
                                 .file("x.cls", "2")
                                 .file("y.txt", "3")
                                 .file("z.jpeg", "4")
                                 .end()
                                 .bytes());
  write_file(dir_ / "b.tar", TarBuilder().file("x.jpeg", "5").end().bytes());
  const auto result = reshard({dir_ / "{a,b}.tar", pattern_, "--rename", "jpeg=jpg", "--select",
                               "jpg,cls", "--drop-duplicates"});
  const auto lines = json_lines(millrace({"ls", "--json", written_}).out);
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["key"], "x");
  EXPECT_EQ(lines[0]["fields"].size(), 2U);
  EXPECT_TRUE(lines[0]["fields"].contains("jpg"));
  EXPECT_EQ(lines[1]["key"], "z");
  EXPECT_THAT(result.err, HasSubstr("1 duplicate left out, 1 had no field to keep"));
}

TEST_F(Reshard, NothingToWriteIsAFaultThatLeavesNothing) {
  const std::string shards = make_set(dir_, 6, 3);
  const auto result = reshard({shards, pattern_, "--select", "none"}, 1);
  EXPECT_THAT(result.err, HasSubstr("no sample is left to write, 6 had no field to keep"));
  EXPECT_THAT(list_dir(written_), IsEmpty());
}

TEST_F(Reshard, PaxRecordsAreLeftBehind) {
  TarBuilder tar;
  for (int i = 0; i < 100; ++i)
    tar.pax_file("k" + std::to_string(i) + ".cls", "1", {{"mtime", "1700000000.123"}});
  write_file(dir_ / "pax.tar", tar.end().bytes());
  reshard({dir_ / "pax.tar", pattern_});
  const auto bytes = [](const std::string& path) { return std::filesystem::file_size(path); };
  EXPECT_LE(bytes(written_ + "out-000000.tar") + 100'000, bytes(dir_ / "pax.tar"));
  EXPECT_EQ(samples(written_), samples(dir_ / "pax.tar"));
}

TEST_F(Reshard, DamageGoesByThePolicy) {
  const std::string shards = make_set(dir_, 20, 10);
  const std::string tar = read_file(dir_ / "set-000000.tar");
  write_file(dir_ / "set-000000.tar", tar.substr(0, tar.size() / 2));
  EXPECT_THAT(reshard({shards, pattern_}, 1).err, HasSubstr("set-000000.tar"));
  EXPECT_THAT(list_dir(written_), IsEmpty()) << "no half shard";
  reshard({shards, pattern_, "--on-fault", "skip"});
  EXPECT_GT(samples(written_).size(), 10U);
}

TEST_F(Reshard, TheClassesNamesComeAlong) {
  const std::string shards = make_set(dir_, 4, 4);
  write_file(dir_ / "set-classes.txt", "one\ntwo\n");
  reshard({shards, pattern_});
  EXPECT_EQ(read_file(dir_ / "new/out-classes.txt"), "one\ntwo\n");
}

TEST_F(Reshard, NeverReplacesWhatItReads) {
  const std::string shards = make_set(dir_, 4, 4);
  const std::string before = read_file(dir_ / "set-000000.tar");
  EXPECT_THAT(reshard({shards, dir_ / "set-%06d.tar"}, 2).err, HasSubstr("--force"));
  EXPECT_THAT(reshard({shards, dir_ / "set-%06d.tar", "--force"}, 2).err, HasSubstr("replaced"));
  EXPECT_EQ(read_file(dir_ / "set-000000.tar"), before);
}

}  // namespace
}  // namespace millrace::testing
