// ls, cat and order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <set>

#include "tests/support/nginx.h"
#include "tests/support/tar_builder.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::HasSubstr;

/// What Python's tarfile says about the shards, in the form of `ls --json`.
constexpr const char* kTarfileLs = R"(
import sys, json, tarfile, zlib, re
for url in sys.argv[1:]:
    with tarfile.open(url, 'r:') as tar:
        last = None
        for m in tar:
            if not m.isfile(): continue
            key, suffix = re.match(r'^((?:.*/|)[^.]+)[.]([^/]*)$', m.name).groups()
            if last is None or last['key'] != key:
                if last: print(json.dumps(last))
                last = {'url': url, 'key': key, 'offset': m.offset, 'fields': {}}
            last['fields'][suffix.lower()] = {'offset': m.offset_data, 'size': m.size,
                'crc32': '%08x' % zlib.crc32(tar.extractfile(m).read())}
        if last: print(json.dumps(last))
)";

void expect_agreement(const std::vector<std::string>& shards) {
  std::vector<std::string> theirs = {"/usr/bin/python3", "-c", kTarfileLs};
  std::vector<std::string> ours = {"ls", "--json"};
  theirs.insert(theirs.end(), shards.begin(), shards.end());
  ours.insert(ours.end(), shards.begin(), shards.end());
  const auto expected = json_lines(run_process(theirs).out);
  const ProcessResult result = millrace(ours);
  ASSERT_EQ(result.status, 0) << result.err;
  const auto got = json_lines(result.out);
  ASSERT_FALSE(expected.empty());
  ASSERT_EQ(got.size(), expected.size());
  for (std::size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], expected[i]);
}

TEST(Ls, AgreesWithPythonsTarfile) {
  const TempDir dir;
  make_set(dir, 30, 20);
  expect_agreement({dir / "set-000000.tar", dir / "set-000001.tar"});
}

TEST(Ls, AgreesWithPythonsTarfileOnEveryDialect) {
  const TempDir dir;
  const auto made = run_process({"/usr/bin/python3", "-c", R"(
import sys, tarfile, io
for name, form in (('gnu', tarfile.GNU_FORMAT), ('pax', tarfile.PAX_FORMAT), ('ustar', tarfile.USTAR_FORMAT)):
    with tarfile.open(f'{sys.argv[1]}/{name}.tar', 'w', format=form) as t:
        for i in range(7):
            for s in ('JPG', 'cls'):
                folder = 'f' * 90 + '/' + ('g' * 60 if form != tarfile.USTAR_FORMAT else 'g' * 20)
                m = tarfile.TarInfo(f'{folder}/{i:03d}.{s}'); m.size = 100 * i + len(s)
                t.addfile(m, io.BytesIO(bytes([i]) * m.size))
)",
                                 dir.path().string()});
  ASSERT_EQ(made.status, 0) << made.err;
  expect_agreement({dir / "gnu.tar", dir / "pax.tar", dir / "ustar.tar"});
}

TEST(Ls, AgreesWithPythonsTarfileOnRealShards) {
  const char* data = ::getenv("MILLRACE_TEST_DATA");
  if (data == nullptr) GTEST_SKIP() << "MILLRACE_TEST_DATA is not set";
  expect_agreement({std::string(data) + "/cifar10/test-000000.tar",
                    std::string(data) + "/mnist/test-000000.tar"});
}

TEST(Ls, ACutShardIsAFaultThatNamesIt) {
  const TempDir dir;
  make_set(dir, 20, 20);
  const std::string whole = read_file(dir / "set-000000.tar");
  write_file(dir / "cut.tar", whole.substr(0, whole.size() / 2));
  const auto result = millrace({"ls", "--json", dir / "cut.tar"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("Truncated"));
  EXPECT_THAT(result.err, HasSubstr("cut.tar"));
  EXPECT_LT(json_lines(result.out).size(), 20U);
  const auto skipped = millrace({"ls", "--json", dir / "cut.tar", "--on-fault", "skip"});
  EXPECT_EQ(skipped.status, 0);
  EXPECT_EQ(skipped.out, result.out);
}

TEST(Ls, IsTheSameOverHttp) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir dir;
  make_set(dir, 30, 20);
  Nginx nginx(dir.path());
  const auto local = json_lines(millrace({"ls", "--json", dir / "set-000001.tar"}).out);
  const ProcessResult result = millrace({"ls", "--json", nginx.url("set-000001.tar")});
  ASSERT_EQ(result.status, 0) << result.err;
  auto remote = json_lines(result.out);
  ASSERT_EQ(remote.size(), local.size());
  for (std::size_t i = 0; i < remote.size(); ++i) {
    EXPECT_EQ(remote[i]["url"], nginx.url("set-000001.tar"));
    remote[i]["url"] = local[i]["url"];
    EXPECT_EQ(remote[i], local[i]);
  }
}

TEST(Cat, AFieldThatIsNotThereIsAFault) {
  const TempDir dir;
  const std::string shards = make_set(dir, 8, 4);
  EXPECT_EQ(millrace({"cat", shards, "00000006.cls"}).status, 0);
  const auto result = millrace({"cat", shards, "00000008.cls"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("00000008.cls"));
  EXPECT_EQ(result.out, "");
}

TEST(Cat, BytesThatAreNotWhatTheIndexSaysAreAFault) {
  const TempDir dir;
  const std::string shard = dir / "a.tar";
  write_file(shard, TarBuilder().file("a.txt", "first").file("b.txt", "second").end().bytes());
  ASSERT_EQ(millrace({"index", shard}).status, 0);
  EXPECT_EQ(millrace({"cat", shard, "b.txt"}).out, "second");
  std::string bytes = read_file(shard);
  bytes[bytes.find("second")] ^= 1;
  write_file(shard, bytes);
  const ProcessResult result = millrace({"cat", shard, "b.txt"});
  EXPECT_EQ(result.status, 1);
  EXPECT_EQ(result.out, "");
  EXPECT_THAT(result.err, HasSubstr("CRC-32 is not what the index says"));
  EXPECT_EQ(millrace({"cat", shard, "a.txt"}).out, "first");
}

TEST(Cat, AFullDiskIsAFault) {
  const TempDir dir;
  const std::string shards = make_set(dir, 1, 1);
  const auto result = run_process(
      {"/bin/sh", "-c",
       std::string(MILLRACE_PROGRAM) + " cat '" + shards + "' 00000000.png > /dev/full"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("No space left"));
}

class Order : public ::testing::Test {
 protected:
  Order() : shards_(make_set(dir_, 100, 11)) {}

  std::string order(std::vector<std::string> more) {
    more.insert(more.begin(), {"order", shards_, "--json"});
    const ProcessResult result = millrace(more);
    EXPECT_EQ(result.status, 0) << result.err;
    return result.out;
  }

  TempDir dir_;
  std::string shards_;
};

// What the shard alone would show: `order` reads no shard that has an index.
TEST(OrderOfIndexes, NamesNoKeysOfADamagedIndex) {
  const TempDir dir;
  const std::string shard = make_set(dir, 8, 8);
  ASSERT_EQ(millrace({"index", shard}).status, 0);
  const std::string path = dir / "set-000000.tar.index.json";
  const std::string index = read_file(path);
  const ProcessResult sound = millrace({"order", shard});
  ASSERT_EQ(sound.status, 0) << sound.err;
  for (std::size_t at = 3; at < index.size(); at += index.size() / 26) {
    std::string damaged = index;
    damaged[at] = static_cast<char>(damaged[at] ^ 1);
    write_file(path, damaged);
    const ProcessResult read = millrace({"order", shard});
    EXPECT_EQ(read.status, 0) << read.err;
    EXPECT_EQ(read.out, sound.out) << at;
    EXPECT_THAT(read.err, HasSubstr("a damaged index is not used")) << at;
  }
}

TEST_F(Order, IsTheSameForEveryNumberOfThreads) {
  const std::vector<std::string> options = {"--seed",    "7",  "--workers", "4",
                                            "--shuffle", "20", "--epoch",   "1"};
  const auto with_threads = [&](const char* threads) {
    auto words = options;
    words.insert(words.end(), {"--threads", threads});
    return order(words);
  };
  const std::string one = with_threads("1");
  EXPECT_EQ(json_lines(one).size(), 100U);
  EXPECT_EQ(with_threads("2"), one);
  EXPECT_EQ(with_threads("8"), one);
}

TEST_F(Order, ProcessesTogetherSeeEveryKeyOnce) {
  std::multiset<std::string> keys;
  std::set<std::int64_t> slots;
  for (const char* process : {"0", "1"}) {
    for (const auto& line : json_lines(order(
             {"--processes", "2", "--process", process, "--workers", "2", "--shuffle", "16"}))) {
      keys.insert(line["key"].get<std::string>());
      EXPECT_TRUE(slots.insert(line["slot"].get<std::int64_t>()).second);
      EXPECT_EQ(line["slot"].get<int>() % 2, line["stream"].get<int>() % 2);
    }
  }
  EXPECT_EQ(keys.size(), 100U);
  EXPECT_EQ(std::set<std::string>(keys.begin(), keys.end()).size(), 100U);
}

TEST_F(Order, WithoutAProcessItIsAllOfThemBySlot) {
  std::set<std::string> apart;
  for (const char* process : {"0", "1"})
    for (const auto& line : json_lines(order({"--processes", "2", "--process", process})))
      apart.insert(line.dump());
  std::set<std::string> all;
  for (const auto& line : json_lines(order({"--processes", "2"}))) all.insert(line.dump());
  EXPECT_EQ(all, apart);
}

TEST_F(Order, EpochsAndSeedsDiffer) {
  const std::string base = order({"--shuffle", "20"});
  EXPECT_NE(order({"--shuffle", "20", "--epoch", "1"}), base);
  EXPECT_NE(order({"--shuffle", "20", "--seed", "1"}), base);
  EXPECT_EQ(order({"--shuffle", "20"}), base);
}

TEST_F(Order, TheGlobalOrderIsTheSameForEveryNumberOfProcessesThatDividesTheStreams) {
  const std::string one = order({"--streams", "4", "--shuffle", "16", "--limit", "40"});
  EXPECT_EQ(order({"--processes", "2", "--streams", "4", "--shuffle", "16", "--limit", "40"}), one);
  EXPECT_EQ(order({"--processes", "4", "--streams", "4", "--shuffle", "16", "--limit", "40"}), one);
}

TEST_F(Order, AnEpochMayHaveSomeSamplesAloneOrSomeMoreOften) {
  const std::string some = order({"--where", "cls in [1, 2] and key != '00000000'"});
  std::set<std::string> classes;
  for (const auto& line : json_lines(some))
    classes.insert(millrace({"cat", shards_, line["key"].get<std::string>() + ".cls"}).out);
  EXPECT_EQ(classes, (std::set<std::string>{"1", "2"}));
  EXPECT_EQ(order({"--order", "permutation(where=\"cls in [1, 2] and key != '00000000'\")"}), some);
  const auto even = json_lines(order({"--balance", "classes", "--epoch-samples", "200"}));
  EXPECT_EQ(even.size(), 200U);
}

// By the name that was typed, the place, and what to write.
TEST_F(Order, NamesTheOptionWhoseExpressionIsWrong) {
  const auto wrong = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words = {"order", shards_};
    words.insert(words.end(), more.begin(), more.end());
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 2);
    return result.err;
  };
  EXPECT_EQ(wrong({"--where", "cls = 1"}),
            "millrace order: --where 'cls = 1', column 5: = compares nothing: write cls == 1\n");
  EXPECT_EQ(wrong({"--balance", "json.x y"}),
            "millrace order: --balance 'json.x y', column 8: expected one value's name, such as "
            "cls or json.score\n");
  EXPECT_THAT(wrong({"--weight", "json.x y"}), ::testing::HasSubstr("--weight 'json.x y', column"));
  EXPECT_THAT(wrong({"--order", "permutation(where='cls = 1')"}),
              ::testing::HasSubstr("--order: permutation: where 'cls = 1', column 5"));
  const ProcessResult val =
      millrace({"train", shards_, "--val", shards_, "--val-where", "cls = 1"});
  EXPECT_THAT(val.err, ::testing::HasSubstr("--val-where 'cls = 1', column 5"));
}

}  // namespace
}  // namespace millrace::testing
