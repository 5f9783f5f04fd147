#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <zlib.h>

#include <filesystem>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// key + "." + suffix → size of all fields, in the order of `ls`.
std::vector<std::string> members(const std::string& spec) {
  const ProcessResult result = millrace({"ls", "--json", spec});
  EXPECT_EQ(result.status, 0) << result.err;
  std::vector<std::string> names;
  for (const auto& line : json_lines(result.out))
    for (const auto& [suffix, field] : line["fields"].items())
      names.push_back(line["key"].get<std::string>() + "." + suffix);
  return names;
}

TEST(CreateFromFolder, TakesClassFoldersInOrderAndWritesTheirNames) {
  const TempDir dir;
  write_file(dir / "in/dog/b.v2.jpg", "dog b");
  write_file(dir / "in/cat/one.JPG", "cat one");
  write_file(dir / "in/cat/more/two.png", "cat two");
  write_file(dir / "in/cat/notes.txt", "left out");
  write_file(dir / "in/cat/.hidden.jpg", "left out");
  const auto result =
      millrace({"create", dir / "out/set-%06d.tar", "--from-folder", dir / "in", "--json"});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("1 file left out"));
  EXPECT_THAT(members(dir / "out/set-000000.tar"),
              ElementsAre("cat/one.cls", "cat/one.jpg", "cat/more/two.cls", "cat/more/two.png",
                          "dog/b_v2.cls", "dog/b_v2.jpg"));
  EXPECT_EQ(millrace({"cat", dir / "out", "dog/b_v2.cls"}).out, "1");
  EXPECT_EQ(millrace({"cat", dir / "out", "cat/more/two.png"}).out, "cat two");
  EXPECT_EQ(read_file(dir / "out/set-classes.txt"), "cat\ndog\n");
}

TEST(CreateFromFolder, ImagesWithoutClassFoldersHaveNoLabels) {
  const TempDir dir;
  write_file(dir / "in/a.jpg", "a");
  write_file(dir / "in/b.jpg", "b");
  ASSERT_EQ(millrace({"create", dir / "s-%d.tar", "--from-folder", dir / "in"}).status, 0);
  EXPECT_THAT(members(dir / "s-0.tar"), ElementsAre("a.jpg", "b.jpg"));
}

TEST(CreateFromFolder, TwoFilesWithOneKeyAreRefusedByName) {
  const TempDir dir;
  write_file(dir / "in/cat/a.jpg", "a");
  write_file(dir / "in/cat/a.png", "a");
  const auto result = millrace({"create", dir / "s-%d.tar", "--from-folder", dir / "in"});
  EXPECT_EQ(result.status, 2);
  EXPECT_THAT(result.err, HasSubstr("cat/a.jpg"));
  EXPECT_THAT(result.err, HasSubstr("cat/a.png"));
  EXPECT_FALSE(std::filesystem::exists(dir / "s-0.tar"));
}

std::string gzip(const std::string& path, const std::string& content) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, content.data(), static_cast<unsigned>(content.size()));
  gzclose(file);
  return path;
}

class CreateFromIdx : public ::testing::Test {
 protected:
  ProcessResult create(const std::string& images, const std::string& labels) {
    write_file(dir_ / "images", images);
    gzip(dir_ / "labels.gz", labels);
    return millrace({"create", dir_ / "s-%d.tar", "--from-idx", dir_ / "images", dir_ / "labels.gz",
                     "--format", "ppm"});
  }
  TempDir dir_;
};

TEST_F(CreateFromIdx, MakesAnImageAndALabelOfEachRow) {
  const std::string pixels = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const auto result = create(idx_bytes({2, 2, 3}, pixels), idx_bytes({2}, {7, 0}));
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(members(dir_ / "s-0.tar"),
              ElementsAre("00000000.cls", "00000000.pgm", "00000001.cls", "00000001.pgm"));
  EXPECT_EQ(millrace({"cat", dir_ / "s-0.tar", "00000000.cls"}).out, "7");
  EXPECT_EQ(millrace({"cat", dir_ / "s-0.tar", "00000001.pgm"}).out,
            "P5\n3 2\n255\n" + pixels.substr(6));
}

TEST_F(CreateFromIdx, SizesThatDisagreeAreFaultsThatNameTheFile) {
  EXPECT_THAT(create(idx_bytes({2, 2, 2}, "1234567"), idx_bytes({2}, "ab")).err,
              HasSubstr("Truncated"));
  EXPECT_THAT(create(idx_bytes({1, 2, 2}, "12345"), idx_bytes({1}, "a")).err, HasSubstr("images"));
  EXPECT_THAT(create(idx_bytes({2, 1, 1}, "12"), idx_bytes({3}, "abc")).err,
              HasSubstr("2 images, but 3 labels"));
  EXPECT_THAT(create("PK\3\4", idx_bytes({3}, "abc")).err, HasSubstr("not an IDX file"));
  EXPECT_THAT(list_dir(dir_.path().string()), ElementsAre("images", "labels.gz"));
}

TEST_F(CreateFromIdx, NoImagesAndWhatFollowsGzipAreFaults) {
  const ProcessResult none = create(idx_bytes({0, 2, 3}, ""), idx_bytes({0}, ""));
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("no images"));
  const std::string images = dir_ / "images.gz";
  gzip(images, idx_bytes({1, 2, 2}, "1234"));
  write_file(dir_ / "labels", idx_bytes({1}, "a"));
  const auto made = [&] {
    return millrace(
        {"create", dir_ / "g-%d.tar", "--force", "--from-idx", images, dir_ / "labels"});
  };
  EXPECT_EQ(made().status, 0);
  const std::string whole = read_file(images);
  for (const std::string& behind : {std::string("garbage"), std::string("x")}) {
    write_file(images, whole + behind);
    const ProcessResult refused = made();
    EXPECT_EQ(refused.status, 1) << behind;
    EXPECT_THAT(refused.err, HasSubstr("images.gz"));
  }
  write_file(images, whole.substr(0, whole.size() - 3));
  EXPECT_THAT(made().err, HasSubstr("Truncated"));
}

TEST_F(CreateFromIdx, ABombIsRefusedBeforeItIsUnpacked) {
  constexpr std::size_t kMegabyte = std::size_t{1} << 20;
  const std::string images = dir_ / "images.gz";
  gzip(images, idx_bytes({400'000, 32, 32}, std::string(400 * kMegabyte, '\0')));
  write_file(dir_ / "labels", idx_bytes({1}, "a"));
  const ProcessResult refused =
      millrace({"create", dir_ / "g-%d.tar", "--from-idx", images, dir_ / "labels"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("Exhausted"));
  EXPECT_LT(refused.peak_bytes, 300 * kMegabyte);
}

TEST_F(CreateFromIdx, AHugeClaimIsRefusedWithoutBeingAllocated) {
  const auto result =
      create(idx_bytes({2'000'000'000, 2'000'000'000, 4}, "x"), idx_bytes({1}, "a"));
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("Exhausted"));
}

TEST(CreateFromIdxFashionMnist, KeepsEveryPixel) {
  const std::string raw = "/usr/share/datasets/fashion-mnist/";
  if (!std::filesystem::exists(raw)) GTEST_SKIP() << "dataset-fashion-mnist is not installed";
  const std::string python = oracle_python("numpy, PIL");
  if (python.empty()) GTEST_SKIP() << "no Python with numpy and PIL";
  const TempDir dir;
  const auto made =
      millrace({"create", dir / "t-%06d.tar", "--from-idx", raw + "t10k-images-idx3-ubyte.gz",
                raw + "t10k-labels-idx1-ubyte.gz", "--maxcount", "4000", "--json"});
  ASSERT_EQ(made.status, 0) << made.err;
  ASSERT_EQ(json_lines(made.out).size(), 3U);
  EXPECT_EQ(json_lines(made.out)[2]["samples"], 2000);
  const auto compared = run_process({python, "-c", R"(
import sys, gzip, tarfile, io, numpy as np
from PIL import Image
raw, folder = sys.argv[1:]
images = np.frombuffer(gzip.open(raw + 't10k-images-idx3-ubyte.gz').read()[16:], np.uint8).reshape(-1, 28, 28)
labels = gzip.open(raw + 't10k-labels-idx1-ubyte.gz').read()[8:]
n = 0
for s in range(3):
    for m in (t := tarfile.open(f'{folder}/t-{s:06d}.tar')):
        data = t.extractfile(m).read()
        i = int(m.name[:8])
        if m.name.endswith('.png'):
            assert (np.array(Image.open(io.BytesIO(data))) == images[i]).all(); n += 1
        else: assert int(data) == labels[i]
print(n)
)",
                                     raw, dir.path().string()});
  EXPECT_EQ(compared.out, "10000\n") << compared.err;
}

TEST(CreateSynthetic, IsTheSameForEveryNumberOfThreads) {
  const TempDir one;
  const TempDir eight;
  make_set(one, 200, 64, {"--threads", "1", "--shuffle", "3"});
  make_set(eight, 200, 64, {"--threads", "8", "--shuffle", "3"});
  ASSERT_EQ(list_dir(one.path().string()), list_dir(eight.path().string()));
  for (const std::string& name : list_dir(one.path().string()))
    EXPECT_EQ(read_file(one / name), read_file(eight / name)) << name;
}

TEST(CreateSynthetic, ShardsHoldAtMostWhatWasAsked) {
  const TempDir dir;
  const auto result = millrace({"create", dir / "s-%03d.tar", "--synthetic", "classes", "--count",
                                "5", "--maxcount", "2", "--json"});
  const auto lines = json_lines(result.out);
  ASSERT_EQ(lines.size(), 3U) << result.err;
  EXPECT_EQ(lines[0]["samples"], 2);
  EXPECT_EQ(lines[2]["samples"], 1);
  EXPECT_EQ(lines[2]["url"], dir / "s-002.tar");
  EXPECT_EQ(lines[2]["bytes"], std::filesystem::file_size(dir / "s-002.tar"));
}

TEST(Create, NeverOverwritesUnlessForced) {
  const TempDir dir;
  const std::string spec = make_set(dir, 20, 10);
  const std::string before = read_file(dir / "set-000000.tar");
  const std::vector<std::string> again = {
      "create", dir / "set-%06d.tar", "--synthetic", "classes", "--count", "5", "--seed", "9"};
  const auto refused = millrace(again);
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("--force"));
  EXPECT_EQ(read_file(dir / "set-000000.tar"), before);
  auto forced = again;
  forced.push_back("--force");
  EXPECT_EQ(millrace(forced).status, 0);
  EXPECT_NE(read_file(dir / "set-000000.tar"), before);
  EXPECT_FALSE(std::filesystem::exists(dir / "set-000001.tar")) << "a shard of the old set is left";
}

TEST(Create, WritesToTheHomeFolderThatReadersFind) {
  const TempDir dir;
  std::filesystem::create_directories(dir / "home");
  const ProcessOptions with{.environment = {{"HOME", dir / "home"}}, .folder = dir.path().string()};
  const auto run = [&](std::vector<std::string> words) {
    const ProcessResult result = millrace(words, with);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  };
  run({"create", "~/a-%06d.tar", "--synthetic", "classes", "--count", "4", "--size", "16"});
  run({"reshard", "~/a-000000.tar", "~/new/b-%06d.tar", "--maxcount", "2"});
  run({"view", "~/new", "-o", "~/sheet.png"});
  EXPECT_EQ(json_lines(run({"ls", "--json", "~/new/b-*.tar"})).size(), 4U);
  EXPECT_TRUE(std::filesystem::exists(dir / "home/sheet.png"));
  EXPECT_FALSE(std::filesystem::exists(dir / "~"));
}

/// How many shards a run leaves if it is interrupted after `time`; all are complete.
int shards_when_interrupted_after(std::chrono::milliseconds time) {
  const TempDir dir;
  const auto result = millrace({"create", dir / "s-%06d.tar", "--synthetic", "classes", "--count",
                                "1000000", "--maxcount", "500", "--size", "32"},
                               {.signal_after = time, .signal = SIGINT});
  EXPECT_EQ(result.status, 130);
  EXPECT_THAT(result.err, HasSubstr("interrupted"));
  int shards = 0;
  for (const std::string& name : list_dir(dir.path().string())) {
    EXPECT_EQ(name.find(".tmp"), name.npos) << name;
    if (!name.ends_with(".tar")) continue;
    EXPECT_EQ(members(dir / name).size(), 1000U);
    ++shards;
  }
  return shards;
}

TEST(Create, LeavesOnlyWholeShardsWhenInterrupted) {
  using std::chrono_literals::operator""ms;
  int shards = 0;
  for (auto time = 400ms; shards == 0 && time < 30'000ms; time *= 4)  // longer on a busy machine
    shards = shards_when_interrupted_after(time);
  EXPECT_GT(shards, 0);
}

TEST(Create, WritesIndexesAndAManifestThatReadersAccept) {
  const TempDir dir;
  ASSERT_EQ(millrace({"create", dir / "s-%06d.tar", "--synthetic", "classes", "--count", "10",
                      "--maxcount", "4"})
                .status,
            0);
  EXPECT_THAT(list_dir(dir.path().string()),
              ElementsAre("s-000000.tar", "s-000000.tar.index.json", "s-000001.tar",
                          "s-000001.tar.index.json", "s-000002.tar", "s-000002.tar.index.json",
                          "s-classes.txt", "s-manifest.json"));
  EXPECT_EQ(members(dir / "s-manifest.json"), members(dir.path().string()));
  const auto manifest = nlohmann::json::parse(read_file(dir / "s-manifest.json"));
  EXPECT_EQ(manifest["shardlist"][2]["url"], "s-000002.tar");
  EXPECT_EQ(manifest["shardlist"][2]["nsamples"], 2);
  EXPECT_EQ(manifest["shardlist"][2]["sha256"].get<std::string>().size(), 64U);
}

}  // namespace
}  // namespace millrace::testing
