// verify: the faults of shards, and their contents.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <span>

#include "io/base/hash.h"
#include "tests/support/tar_builder.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

nlohmann::json report_of(const std::vector<std::string>& specs, int status,
                         std::vector<std::string> more = {}) {
  more.insert(more.begin(), {"verify", "--json"});
  more.insert(more.end(), specs.begin(), specs.end());
  const ProcessResult result = millrace(more);
  EXPECT_EQ(result.status, status) << result.err;
  const auto lines = json_lines(result.out);
  EXPECT_EQ(lines.size(), 1U);
  return lines.empty() ? nlohmann::json() : lines.front();
}

std::string sha256_of(const std::string& bytes) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.hex();
}

/// A shard of samples "000", "001", ... of the classes given.
std::string shard_of_classes(const std::vector<int>& classes) {
  TarBuilder tar;
  for (std::size_t i = 0; i < classes.size(); ++i) {
    std::string key = std::to_string(i);
    key.insert(0, 6 - key.size(), '0');
    tar.file(key + ".cls", std::to_string(classes[i]));
  }
  return tar.end().bytes();
}

// 30 samples in shards of 20, with a manifest and no index.
std::string make_listed_set(const TempDir& dir) {
  std::string shards = make_set(dir, 30, 20);
  EXPECT_EQ(millrace({"index", shards}).status, 0);
  for (const char* shard : {"set-000000.tar", "set-000001.tar"})
    std::filesystem::remove(dir / shard + std::string(".index.json"));
  return shards;
}

// Of 8 and 12 bytes: a zstd or lz4 skippable frame, and nothing behind it.
TEST(Verify, EveryCommandSurvivesAShardOfSkippableFrames) {
  const TempDir dir;
  write_file(dir / "8.tar", std::string("\x50\x2a\x4d\x18\0\0\0\0", 8));
  write_file(dir / "12.tar", std::string("\x50\x2a\x4d\x18\4\0\0\0skip", 12));
  const std::vector<std::string> model = {
      "--model", "lenet", "--size", "28", "--channels", "1", "--classes", "2", "--run-dir", "none"};
  for (const char* shard : {"8.tar", "12.tar"}) {
    const std::string spec = dir / shard;
    for (std::vector<std::string> words : std::vector<std::vector<std::string>>{
             {"verify", spec},
             {"ls", spec},
             {"ls", "--on-fault", "skip", spec},
             {"cat", spec, "a.cls"},
             {"stats", spec},
             {"order", spec},
             {"order", "--on-fault", "skip", "--max-faults", "100", spec},
             {"bench", spec},
             {"bench", "--on-fault", "skip", spec},
             {"index", spec},
             {"reshard", spec, dir / "out-%06d.tar", "--on-fault", "skip"},
             {"train", "--train", spec},
             {"train", "--train", spec, "--on-fault", "skip"}}) {
      if (words.front() == "train") words.insert(words.end(), model.begin(), model.end());
      const ProcessResult result = millrace(words);
      EXPECT_TRUE(result.status >= 0 && result.status <= 2)
          << words.front() << ": " << result.status << ", " << result.err;
      EXPECT_TRUE(result.status == 0 || result.err.find(shard) != std::string::npos)
          << words.front() << ": " << result.err;
    }
  }
  EXPECT_THAT(millrace({"verify", dir / "8.tar"}).err, HasSubstr("Truncated"));
}

TEST(Verify, ASoundSetIsCountedAndSound) {
  const TempDir dir;
  const auto report = report_of({make_set(dir, 30, 20)}, 0);
  EXPECT_EQ(report["shards"], 2);
  EXPECT_EQ(report["samples"], 30);
  EXPECT_EQ(report["emitted"], 30);
  EXPECT_EQ(report["skipped"], 0);
  EXPECT_EQ(report["faults"], nlohmann::json::array());
  EXPECT_EQ(report["fields"]["cls"]["count"], 30);
  EXPECT_EQ(report["fields"]["cls"]["max"], 1);
  EXPECT_EQ(report["field_sets"].size(), 1U);
  EXPECT_EQ(report["num_duplicates"], 0);
}

TEST(Verify, PicturesOfDifferentSizesInASampleAreCountedAndNoFault) {
  const TempDir dir;
  const std::string folder = dir / "photos";
  std::filesystem::create_directories(folder);
  std::filesystem::create_directories(dir / "masks");
  const auto picture = [&](const std::string& size) {
    const std::string set = "of" + size;
    const auto made = millrace({"create", dir / (set + "-%d.tar"), "--synthetic", "classes",
                                "--count", "1", "--size", size, "--format", "png"});
    EXPECT_EQ(made.status, 0) << made.err;
    return millrace({"cat", dir / (set + "-0.tar"), "00000000.png"}).out;
  };
  const std::string large = picture("64");
  const std::string small = picture("32");
  for (const char* name : {"a", "b", "c"}) {
    write_file(folder + "/" + name + ".png", large);
    write_file(dir / ("masks/" + std::string(name) + ".png"), *name == 'a' ? large : small);
  }
  const auto made = millrace({"create", dir / "pairs-%d.tar", "--from-folder", folder, "--pair",
                              "mask=" + (dir / "masks")});
  ASSERT_EQ(made.status, 0) << made.err;
  const auto report = report_of({dir / "pairs-0.tar"}, 0);
  EXPECT_EQ(report["unequal_sizes"], 2);
  EXPECT_THAT(std::string(report["first_unequal_sizes"]),
              HasSubstr("mask.png 32 x 32, png 64 x 64 (width x height)"));
  EXPECT_THAT(millrace({"verify", dir / "pairs-0.tar"}).out,
              HasSubstr("2 samples with pictures of different sizes"));
}

TEST(Verify, ASetWithoutASampleIsAFault) {
  const TempDir dir;
  write_file(dir / "none-0.tar", TarBuilder().end().bytes());
  const ProcessResult none = millrace({"verify", dir / "none-0.tar"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("no sample in 1 shard"));
  const std::string set = make_set(dir, 2, 2);
  EXPECT_EQ(millrace({"verify", set + "::" + (dir / "none-0.tar")}).status, 0);
}

// A comment with a wrong checksum costs no pixel.
TEST(Verify, UntidyImagesAreCountedAndNoFault) {
  const TempDir dir;
  const std::string set = make_set(dir, 2, 2);
  const std::string tar = read_file(dir / "set-000000.tar");
  std::string png = tar.substr(tar.find("\x89PNG"));
  png = png.substr(0, png.find("IEND") + 8);
  const std::string comment = "Comment";
  const std::string chunk = std::string("\0\0\0\7", 4) + "tEXt" + comment + "badc";
  write_file(dir / "odd.tar", TarBuilder()
                                  .file("a.png", png)
                                  .file("b.png", png.substr(0, 33) + chunk + png.substr(33))
                                  .file("c.png", png.substr(0, 33) + chunk + png.substr(33))
                                  .end()
                                  .bytes());
  const auto report = report_of({dir / "odd.tar"}, 0);
  EXPECT_EQ(report["emitted"], 3);
  EXPECT_EQ(report["untidy"], 2);
  const std::string first = report["first_untidy"];
  EXPECT_THAT(first, HasSubstr("member b.png"));
  EXPECT_THAT(millrace({"verify", dir / "odd.tar"}).out, HasSubstr("2 untidy images"));
  EXPECT_EQ(report_of({set}, 0)["untidy"], 0);
}

TEST(Verify, FaultsAreListedWithTheirOffsetAndItContinues) {
  const TempDir dir;
  const std::string pgm = "P5 1 1 255 x";
  const std::string tar = TarBuilder()
                              .file("a.cls", "one")
                              .file("b.pgm", pgm)
                              .file("b.cls", "1")
                              .file("c.png", "GIF89a, not a PNG")
                              .file("d.json", "{")
                              .file("e.cls", "2")
                              .end()
                              .bytes();
  write_file(dir / "bad.tar", tar);
  write_file(dir / "cut.tar", tar.substr(0, 512 * 4));
  const auto report = report_of({dir / "bad.tar", dir / "cut.tar"}, 1);
  ASSERT_EQ(report["faults"].size(), 5U) << report.dump(1);
  const nlohmann::json& first = report["faults"][0];
  EXPECT_EQ(first["url"], dir / "bad.tar");
  EXPECT_EQ(first["key"], "a");
  EXPECT_EQ(first["member"], "a.cls");
  EXPECT_EQ(first["offset"], 512);
  EXPECT_EQ(first["code"], "Corrupt");
  EXPECT_THAT(first["message"].get<std::string>(), HasSubstr("integer"));
  EXPECT_EQ(report["faults"][1]["member"], "c.png");
  EXPECT_THAT(report["faults"][1]["message"].get<std::string>(), HasSubstr("GIF"));
  EXPECT_EQ(report["faults"][2]["member"], "d.json");
  EXPECT_EQ(report["faults"][3]["key"], "a") << "again, in the cut shard";
  EXPECT_EQ(report["faults"][4]["code"], "Truncated");
  EXPECT_EQ(report["emitted"], 2);
  EXPECT_EQ(report["samples"], report["emitted"].get<int>() + report["skipped"].get<int>());
  EXPECT_EQ(report["field_sets"].size(), 4U);
}

TEST(Verify, AnIndexFindsAFlippedByteThatNoDecoderSees) {
  const TempDir dir;
  const std::string shards = make_set(dir, 8, 8, {"--format", "ppm"});
  std::string tar = read_file(dir / "set-000000.tar");
  tar[tar.find("P6") + 200] ^= 1;
  ASSERT_EQ(millrace({"index", shards}).status, 0);
  std::filesystem::remove(dir / "set-manifest.json");
  write_file(dir / "set-000000.tar", tar);
  const auto indexed = report_of({shards}, 1);
  ASSERT_EQ(indexed["faults"].size(), 1U);
  EXPECT_THAT(indexed["faults"][0]["message"].get<std::string>(), HasSubstr("CRC-32"));
  EXPECT_EQ(indexed["indexed"], 1);
  EXPECT_EQ(indexed["samples"], 8);
  EXPECT_EQ(indexed["skipped"], 1);
  std::filesystem::remove(dir / "set-000000.tar.index.json");
  EXPECT_EQ(report_of({shards}, 0)["emitted"], 8);
}

TEST(Verify, AMissingShardIsAFaultAndTheOthersAreChecked) {
  const TempDir dir;
  make_set(dir, 8, 4);
  std::filesystem::remove(dir / "set-000000.tar");
  const auto report = report_of({dir / "set-{000000..000001}.tar"}, 1);
  EXPECT_EQ(report["emitted"], 4);
  ASSERT_EQ(report["faults"].size(), 1U);
  EXPECT_EQ(report["faults"][0]["code"], "NotFound");
  EXPECT_EQ(report["faults"][0]["offset"], nullptr);
}

TEST(Verify, SaysTheSameForEveryNumberOfThreads) {
  const TempDir dir;
  const std::string shards = make_set(dir, 60, 7);
  std::string tar = read_file(dir / "set-000003.tar");
  write_file(dir / "set-000003.tar", tar.substr(0, tar.size() / 2));
  const auto one = report_of({shards}, 1, {"--threads", "1"});
  EXPECT_EQ(report_of({shards}, 1, {"--threads", "2"}), one);
  EXPECT_EQ(report_of({shards}, 1, {"--threads", "8"}), one);
}

TEST(Verify, KeysThatComeTwiceAreCounted) {
  const TempDir dir;
  write_file(dir / "a.tar", shard_of_classes({1, 2, 3}));
  write_file(dir / "b.tar", shard_of_classes({1, 2}));
  write_file(dir / "c.tar",
             TarBuilder().file("x.a", "1").file("y.a", "2").file("x.b", "3").end().bytes());
  const auto report = report_of({dir / "a.tar", dir / "b.tar"}, 0);
  EXPECT_EQ(report["num_duplicates"], 2);
  EXPECT_EQ(
      report["duplicates"][0],
      (nlohmann::json{{"key", "000000"}, {"first", dir / "a.tar"}, {"again", dir / "b.tar"}}));
  EXPECT_EQ(report_of({dir / "c.tar"}, 1)["interleaved"], 1);
  EXPECT_EQ(report_of({dir / "c.tar"}, 0, {"--lenient"})["interleaved"], 1);
}

TEST(Verify, ShardsSortedByClassAreNamedWithTheBufferTheyNeed) {
  const TempDir dir;
  std::vector<int> sorted, mixed;
  for (int i = 0; i < 1000; ++i) {
    sorted.push_back(i / 100);
    mixed.push_back(i * 7 % 10);
  }
  write_file(dir / "sorted.tar", shard_of_classes(sorted));
  write_file(dir / "mixed.tar", shard_of_classes(mixed));
  const auto report = report_of({dir / "sorted.tar"}, 0);
  EXPECT_EQ(report["class_mix"]["sorted"], true);
  EXPECT_EQ(report["class_mix"]["run_length"], 100.0);
  EXPECT_EQ(report["class_mix"]["buffer"], 1000);
  EXPECT_EQ(report_of({dir / "mixed.tar"}, 0)["class_mix"]["sorted"], false);
  const auto text = millrace({"verify", dir / "sorted.tar"});
  EXPECT_THAT(text.out, HasSubstr("sorted by class: shuffle when creating or use a shuffle buffer "
                                  "of at least 1000"));
  EXPECT_THAT(millrace({"verify", dir / "mixed.tar"}).out, Not(HasSubstr("buffer")));
}

TEST(Verify, ShardsOfOneClassEachDiffer) {
  const TempDir dir;
  for (const int label : {0, 1, 2, 3})
    write_file(dir / ("s-" + std::to_string(label) + ".tar"),
               shard_of_classes(std::vector<int>(50, label)));
  const auto mix = report_of({dir / "s-{0..3}.tar"}, 0)["class_mix"];
  EXPECT_EQ(mix["skewed"], true);
  EXPECT_DOUBLE_EQ(mix["histogram_distance"].get<double>(), 0.75);
  EXPECT_EQ(mix["buffer"], 200);
}

TEST(Verify, ACutJpegPassesWhereTruncationIsTolerated) {
  const TempDir dir;
  ASSERT_EQ(millrace({"create", dir / "one-%06d.tar", "--synthetic", "classes", "--count", "1",
                      "--size", "64", "--format", "jpg"})
                .status,
            0);
  const auto jpeg = millrace({"cat", dir / "one-000000.tar", "00000000.jpg"}).out;
  write_file(dir / "cut.tar",
             TarBuilder().file("a.jpg", jpeg.substr(0, jpeg.size() * 3 / 4)).end().bytes());
  EXPECT_EQ(report_of({dir / "cut.tar"}, 1)["skipped"], 1);
  EXPECT_EQ(report_of({dir / "cut.tar"}, 0, {"--tolerate-truncated"})["emitted"], 1);
}

TEST(Verify, ASecondArchiveIsReadWhereAskedFor) {
  const TempDir dir;
  write_file(dir / "two.tar", TarBuilder().file("a.cls", "1").end().bytes() +
                                  TarBuilder().file("b.cls", "2").end().bytes());
  const auto first = report_of({dir / "two.tar"}, 1);
  EXPECT_THAT(first["faults"][0]["message"].get<std::string>(),
              HasSubstr("data behind the tar's end marker"));
  EXPECT_EQ(report_of({dir / "two.tar"}, 0, {"--concatenated"})["samples"], 2);
}

// All commands treat `cat a.tar b.tar` the same way, and no index is written that readers refuse.
TEST(Verify, ASecondArchiveIsAFaultInEveryCommand) {
  const TempDir dir;
  const std::string two = dir / "two.tar";
  write_file(two, shard_of_classes({1, 2, 3}) +
                      TarBuilder().file("100.cls", "4").file("101.cls", "5").end().bytes());
  const std::vector<std::vector<std::string>> commands = {
      {"ls", two},
      {"cat", two, "101.cls"},
      {"stats", two},
      {"index", two},
      {"verify", two},
      {"order", two},
      {"bench", two, "--stage", "read", "--seconds", "0.1"},
      {"reshard", two, dir / "new/n-%06d.tar", "--force"}};
  for (const auto& command : commands) {
    const ProcessResult refused = millrace(command);
    EXPECT_EQ(refused.status, 1) << command[0];
    EXPECT_THAT(refused.err, HasSubstr("data behind the tar's end marker")) << command[0];
    EXPECT_FALSE(std::filesystem::exists(two + ".index.json")) << command[0];
  }
  for (auto command : commands) {
    command.emplace_back("--concatenated");
    const ProcessResult read = millrace(command);
    EXPECT_EQ(read.status, 0) << command[0] << read.err;
  }
  EXPECT_TRUE(std::filesystem::exists(two + ".index.json"));
  EXPECT_EQ(json_lines(millrace({"order", two, "--json", "--concatenated"}).out).size(), 5U);
}

TEST(Verify, LinksAreResolvedOrAFault) {
  const TempDir dir;
  TarBuilder tar;
  tar.file("a.cls", "1").file("b.txt", "B").header({.name = "b.cls", .type = '1', .link = "a.cls"});
  write_file(dir / "hard.tar", TarBuilder(tar).end().bytes());
  EXPECT_EQ(report_of({dir / "hard.tar"}, 0)["fields"]["cls"]["count"], 2);
  EXPECT_EQ(millrace({"cat", dir / "hard.tar", "b.cls"}).out, "1");
  tar.header({.name = "b.jpg", .type = '2', .link = "c.jpg"});
  write_file(dir / "soft.tar", tar.end().bytes());
  const auto report = report_of({dir / "soft.tar"}, 1);
  EXPECT_EQ(report["emitted"], 2);
  EXPECT_THAT(report["faults"][0]["message"].get<std::string>(), HasSubstr("b.jpg"));
  const auto listed = millrace({"ls", dir / "soft.tar"});
  EXPECT_EQ(listed.status, 0);
  EXPECT_THAT(listed.err, HasSubstr("symbolic links and special files are left out: 1"));
}

TEST(Verify, SaysWhatNothingGuards) {
  const TempDir dir;
  const std::string shards = make_set(dir, 30, 20);
  EXPECT_EQ(report_of({shards}, 0)["unguarded"], 2);
  EXPECT_THAT(millrace({"verify", shards}).out, HasSubstr("2 shards without an index"));
  ASSERT_EQ(millrace({"index", shards}).status, 0);
  EXPECT_EQ(report_of({shards}, 0)["unguarded"], 0);
}

TEST(Verify, AnIndexesOwnHashIsCompared) {
  const TempDir dir;
  make_set(dir, 20, 20);
  const std::string shard = dir / "set-000000.tar";
  ASSERT_EQ(millrace({"index", shard}).status, 0);
  std::filesystem::remove(dir / "set-manifest.json");
  std::string index = read_file(shard + ".index.json");
  char& digit = index[index.find(R"("sha256")") + 15];
  digit = digit == '0' ? '1' : '0';
  write_file(shard + ".index.json", index);
  EXPECT_THAT(report_of({shard}, 1)["faults"][0]["message"].get<std::string>(),
              HasSubstr("its own CRC-32 is wrong"));
  write_file(shard + ".index.json", without_seal(index));
  const auto report = report_of({shard}, 1);
  EXPECT_EQ(report["num_faults"], 1);
  EXPECT_EQ(report["emitted"], 20) << "it costs no sample";
  EXPECT_THAT(report["faults"][0]["message"].get<std::string>(), HasSubstr("SHA-256"));
}

// A manifest may give the number of samples of the set, and contradict itself.
TEST(Verify, AManifestIsComparedWithItself) {
  const TempDir dir;
  const std::string shards = make_listed_set(dir);
  auto manifest = nlohmann::json::parse(read_file(dir / "set-manifest.json"));
  const auto faults = [&](const std::string& spec) {
    write_file(dir / "set-manifest.json", manifest.dump());
    return report_of({spec},
                     manifest["nsamples"] == 30 && manifest["shardlist"].size() == 2 ? 0 : 1);
  };
  for (const std::string& spec : {shards, dir / "set-manifest.json"}) {
    manifest["nsamples"] = 30;
    EXPECT_EQ(faults(spec)["num_faults"], 0);
    manifest["nsamples"] = 31;
    EXPECT_EQ(faults(spec)["faults"][0]["message"],
              "manifest: its shards have 30 samples, it says 31");
  }
}

TEST(Verify, AShardThatTheNamedManifestDoesNotListIsAFault) {
  const TempDir dir;
  const std::string shards = make_listed_set(dir);
  auto manifest = nlohmann::json::parse(read_file(dir / "set-manifest.json"));
  manifest["shardlist"].erase(1);
  manifest.erase("nsamples");
  write_file(dir / "other.json", manifest.dump());
  const auto report = report_of({shards, "--manifest", dir / "other.json"}, 1);
  EXPECT_EQ(report["num_faults"], 1);
  EXPECT_EQ(report["faults"][0]["message"], "the manifest does not list the shard");
  EXPECT_EQ(report["emitted"], 30);
}

TEST(Verify, AShardThatTheManifestListsAndThatIsNotThereIsNamed) {
  const TempDir dir;
  make_listed_set(dir);
  std::filesystem::remove(dir / "set-000001.tar");
  const std::string there = dir / "set-*.tar";
  const auto beside = millrace({"verify", there});
  EXPECT_EQ(beside.status, 0) << beside.err;
  EXPECT_THAT(beside.err, AllOf(HasSubstr("the manifest lists "), HasSubstr("set-000001.tar"),
                                HasSubstr(", which is not here")));
  const auto report = report_of({there, "--manifest", dir / "set-manifest.json"}, 1);
  EXPECT_EQ(report["num_faults"], 1);
  EXPECT_EQ(report["faults"][0]["message"], "the manifest lists the shard, which is not here");
}

TEST(Verify, AShardThatTheManifestBesideItLacksIsNamed) {
  const TempDir dir;
  const std::string shards = make_listed_set(dir);
  auto manifest = nlohmann::json::parse(read_file(dir / "set-manifest.json"));
  manifest["shardlist"].erase(1);
  manifest.erase("nsamples");
  write_file(dir / "set-manifest.json", manifest.dump());
  const auto beside = millrace({"verify", shards});
  EXPECT_EQ(beside.status, 0) << beside.err;
  EXPECT_THAT(beside.err,
              AllOf(HasSubstr("the manifest does not list "), HasSubstr("set-000001.tar")));
}

// The faults of a set of 30 samples in shards of 20, whose second shard a manifest lists otherwise.
nlohmann::json faults_when_listed_with(const nlohmann::json& change) {
  const TempDir dir;
  const std::string shards = make_listed_set(dir);
  auto manifest = nlohmann::json::parse(read_file(dir / "set-manifest.json"));
  manifest["shardlist"][1].update(change);
  write_file(dir / "set-manifest.json", manifest.dump());
  const auto report = report_of({shards}, change.empty() ? 0 : 1);
  EXPECT_EQ(report["in_manifest"], 2);
  EXPECT_EQ(report["emitted"], 30);
  EXPECT_EQ(report["skipped"], 0);
  for (const auto& fault : report["faults"]) EXPECT_EQ(fault["url"], dir / "set-000001.tar");
  return report["faults"];
}

TEST(Verify, AShardIsComparedWithTheManifestBesideIt) {
  EXPECT_TRUE(faults_when_listed_with(nlohmann::json::object()).empty());
  auto faults = faults_when_listed_with({{"nsamples", 11}});
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0]["message"], "shard has 10 samples, its manifest says 11");
  faults = faults_when_listed_with({{"filesize", 512}});
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0]["code"], "Corrupt");
  EXPECT_THAT(faults[0]["message"].get<std::string>(), HasSubstr("bytes, its manifest says 512"));
  faults = faults_when_listed_with({{"filesize", 1 << 30}});
  EXPECT_EQ(faults[0]["code"], "Truncated");
  faults = faults_when_listed_with({{"sha256", std::string(64, 'a')}});
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_THAT(faults[0]["message"].get<std::string>(),
              HasSubstr(", its manifest says " + std::string(64, 'a')));
}

TEST(Verify, AByteThatChangedIsFoundByTheManifestOnly) {
  const TempDir dir;
  const std::string shards = make_listed_set(dir);
  std::string tar = read_file(dir / "set-000000.tar");
  const std::size_t digit = tar.find_first_of("0123456789", 512);  // the first label
  ASSERT_LT(digit, 1024U);
  tar[digit] = tar[digit] == '1' ? '2' : '1';
  write_file(dir / "set-000000.tar", tar);
  const auto report = report_of({shards}, 1);
  ASSERT_EQ(report["faults"].size(), 1U) << report.dump(1);
  EXPECT_THAT(report["faults"][0]["message"].get<std::string>(), HasSubstr("SHA-256"));
  EXPECT_THAT(millrace({"verify", shards}).out, HasSubstr("2 in a manifest"));
}

TEST(Verify, TheHashOfADamagedShardIsOfAllItsBytes) {
  const TempDir dir;
  ASSERT_EQ(
      millrace({"create", dir / "s-%06d.tar", "--synthetic", "classes", "--count", "20"}).status,
      0);
  std::string tar = read_file(dir / "s-000000.tar");
  const std::string sound = tar;
  tar[512] ^= 1;  // detected by its index; the reader reopens the shard after the sample
  write_file(dir / "s-000000.tar", tar);
  auto report = report_of({dir / "s-000000.tar"}, 1);
  EXPECT_EQ(report["faults"].size(), 2U) << report.dump(1);
  auto manifest = nlohmann::json::parse(read_file(dir / "s-manifest.json"));
  const std::string said = report["faults"].back()["message"];
  const std::size_t begin = said.find("SHA-256 ") + 8;
  manifest["shardlist"][0]["sha256"] = said.substr(begin, 64);
  write_file(dir / "s-manifest.json", manifest.dump());
  report = report_of({dir / "s-000000.tar"}, 1);
  EXPECT_EQ(report["faults"].size(), 1U)
      << "the hash named is the file's, so only the index differs";
  EXPECT_EQ(sha256_of(tar), said.substr(begin, 64));
  EXPECT_NE(sha256_of(sound), said.substr(begin, 64));
}

TEST(Verify, AManifestCanBeNamedOrBeTheSpec) {
  const TempDir dir, other;
  const std::string shards = make_listed_set(dir);
  auto manifest = nlohmann::json::parse(read_file(dir / "set-manifest.json"));
  std::filesystem::remove(dir / "set-manifest.json");
  EXPECT_EQ(report_of({shards}, 0)["in_manifest"], 0);
  for (auto& shard : manifest["shardlist"]) shard["url"] = dir / shard["url"].get<std::string>();
  manifest["shardlist"][0]["nsamples"] = 5;
  write_file(other / "list.json", manifest.dump());
  EXPECT_EQ(report_of({shards}, 1, {"--manifest", other / "list.json"})["num_faults"], 1);
  EXPECT_EQ(report_of({other / "list.json"}, 1)["num_faults"], 1);
}

TEST(Verify, AManifestThatCannotBeReadIsAFault) {
  const TempDir dir;
  const std::string shards = make_listed_set(dir);
  write_file(dir / "set-manifest.json", "{");
  const auto report = report_of({shards}, 1);
  ASSERT_EQ(report["faults"].size(), 1U);
  EXPECT_EQ(report["faults"][0]["url"], dir / "set-manifest.json");
  EXPECT_EQ(report["emitted"], 30);
}

}  // namespace
}  // namespace millrace::testing
