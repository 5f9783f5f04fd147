// Parquet files as shards, written by pyarrow (parquet_files.py).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "io/object_store_options.h"
#include "tests/support/bucket_server.h"
#include "tests/support/counting_opener.h"
#include "tests/support/effort.h"
#include "tests/support/mutator.h"
#include "tests/support/nginx.h"
#include "tests/support/process.h"
#include "tests/support/temp_dir.h"
#include "wds/parquet_shard.h"
#include "wds/sample_counts.h"
#include "wds/sample_stream.h"
#include "wds/shard_reader.h"
#include "wds/shard_spec.h"

namespace millrace::wds {
namespace {

using ::testing::AllOf;
using testing::CountingOpener;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Nginx;
using testing::TempDir;
using Strings = std::vector<std::string>;

constexpr std::uint64_t kParquetMutants = 60;

std::string jpeg_of(int i, int size = 50) {
  return "\xFF\xD8\xFF" + std::string(static_cast<std::size_t>(size + i), static_cast<char>(i));
}

Strings suffixes_of(const Sample& sample) {
  Strings suffixes;
  for (const Field& field : sample.fields) suffixes.push_back(field.suffix);
  return suffixes;
}

std::string field_text(const Sample& sample, const std::string& suffix) {
  const Field* field = sample.find(suffix);
  return field == nullptr ? "none" : std::string(field->data.text());
}

class ParquetShard : public ::testing::Test {
 protected:
  /// The files are written once.
  static void SetUpTestSuite() {
    files_ = std::make_unique<TempDir>();
    const std::string python = testing::oracle_python("pyarrow");
    if (python.empty()) {
      why_not_ = "no Python with pyarrow";
      return;
    }
    const auto script = std::filesystem::absolute("tests/wds/parquet_files.py").string();
    const auto made = testing::run_process({python, script}, {.folder = files_->path().string()});
    ASSERT_EQ(made.status, 0) << made.err;
    try {
      count_rows(io::UrlOpener(), *files_ / "a.parquet");
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kUnsupported) throw;
      why_not_ = error.what();
    }
  }
  static void TearDownTestSuite() { files_.reset(); }

  void SetUp() override {
    if (!why_not_.empty()) GTEST_SKIP() << why_not_;
  }

  std::string path(const std::string& name) const { return *files_ / name; }

  std::vector<Sample> samples(const std::string& name, const ShardOptions& options = {}) const {
    ShardReader reader(opener_, path(name), options);
    std::vector<Sample> all;
    for (Sample sample; reader.next(sample);) all.push_back(sample);
    EXPECT_TRUE(reader.at_end());
    return all;
  }

  StreamSpec spec_of(const Strings& shards, int streams) const {
    return {.shards = std::make_shared<const Strings>(shards),
            .num_streams = streams,
            .found = {.counts = sample_counts(opener_, shards)}};
  }

  const io::UrlOpener opener_;

 private:
  static inline std::unique_ptr<TempDir> files_;
  static inline std::string why_not_;
};

TEST_F(ParquetShard, EveryRowIsASample) {
  const auto all = samples("a.parquet");
  ASSERT_EQ(all.size(), 23U);
  for (int i = 0; i < 23; ++i) {
    const Sample& one = all[static_cast<std::size_t>(i)];
    EXPECT_EQ(one.key, (i < 10 ? "a/0000000" : "a/000000") + std::to_string(i));
    EXPECT_EQ(one.offset, static_cast<std::uint64_t>(i));
    EXPECT_THAT(suffixes_of(one),
                ElementsAre("jpg", "cls", "mask.png", "views.0.bin", "views.1.bin", "json"));
    EXPECT_EQ(field_text(one, "jpg"), jpeg_of(i));
    EXPECT_EQ(field_text(one, "cls"), std::to_string(i % 4));
    EXPECT_EQ(field_text(one, "views.0.bin"), "v" + std::to_string(i));
  }
  EXPECT_EQ(field_text(all[3], "json"), R"({"name":"n.3","score":null})");
  EXPECT_EQ(field_text(all[4], "json"), R"({"name":"n.4","score":0.5})");
}

TEST_F(ParquetShard, FilesThatCountOtherClassesAreNotOneSet) {
  EXPECT_EQ(sample_counts(opener_, Strings{path("named/cats.parquet"), path("a.parquet")})->size(),
            2U);
  try {
    sample_counts(opener_, Strings{path("a.parquet"), path("named/cats.parquet"),
                                   path("named/dogs.parquet")});
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("column label: its numbers are of other classes"),
                                    HasSubstr("cats.parquet"), HasSubstr("dogs.parquet")));
  }
}

TEST_F(ParquetShard, TheNameChoosesColumnsAndKeys) {
  const auto chosen =
      samples("a.parquet#image=Mask,image&label=label&text=name&columns=score&key=name");
  EXPECT_THAT(suffixes_of(chosen[4]), ElementsAre("png", "image.jpg", "cls", "txt", "json"));
  EXPECT_EQ(chosen[4].key, "n_4");
  EXPECT_EQ(field_text(chosen[4], "txt"), "n.4");
  EXPECT_EQ(field_text(chosen[4], "json"), R"({"score":0.5})");
  EXPECT_THAT(suffixes_of(samples("a.parquet#image=image")[0]), ElementsAre("jpg"));
  const auto refusal = [&](const std::string& name) {
    try {
      samples(name);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_THAT(
      refusal("a.parquet#image=photo"),
      AllOf(HasSubstr("no column 'photo': there are image, label"), HasSubstr("a.parquet")));
  EXPECT_THAT(refusal("a.parquet#picture=image"), HasSubstr("'picture' is none of image, label"));
  EXPECT_THAT(refusal("a.parquet#image"), HasSubstr("'image' chooses no column"));
  EXPECT_THAT(refusal("a.parquet#label=score"), HasSubstr("not a whole number"));
  EXPECT_THAT(refusal("a.parquet#image=label"), HasSubstr("no picture but another type"));
}

TEST_F(ParquetShard, StreamsDivideItsRowsAndGoOnAnywhere) {
  for (const int streams : {1, 3}) {
    StreamSpec spec = spec_of({path("a.parquet"), path("b.parquet")}, streams);
    ASSERT_TRUE(spec.found.counts);
    EXPECT_THAT(*spec.found.counts, ElementsAre(23U, 7U));
    spec.shuffle.buffer_samples = 4;
    Strings keys;
    for (spec.stream = 0; spec.stream < streams; ++spec.stream) {
      FaultLedger ledger;
      SampleStream stream(spec, opener_, ledger);
      Strings rest;
      std::vector<StreamPosition> positions;
      for (Sample sample; stream.next(sample);) {
        rest.push_back(sample.key);
        positions.push_back(stream.position());
      }
      EXPECT_NEAR(static_cast<double>(rest.size()), 30.0 / streams, 1);
      for (std::size_t i = 0; i < positions.size(); i += 4) {
        SampleStream again(spec, positions[i], opener_, ledger);
        for (std::size_t k = i + 1; k < rest.size(); ++k) {
          Sample sample;
          ASSERT_TRUE(again.next(sample)) << i;
          EXPECT_EQ(sample.key, rest[k]) << i;
        }
        Sample more;
        EXPECT_FALSE(again.next(more)) << i;
      }
      keys.insert(keys.end(), rest.begin(), rest.end());
    }
    std::ranges::sort(keys);
    EXPECT_EQ(std::ranges::unique(keys).begin(), keys.end());
    EXPECT_EQ(keys.size(), 30U);
  }
}

TEST_F(ParquetShard, ARowWithoutItsPictureOrLabelCostsThatRow) {
  FaultLedger ledger({.on_fault = OnFault::kSkip});
  SampleStream stream(spec_of({path("holes.parquet") + "#image=photo&label=kind"}, 1), opener_,
                      ledger);
  Strings labels;
  for (Sample sample; stream.next(sample);) labels.push_back(field_text(sample, "cls"));
  EXPECT_THAT(labels, ElementsAre("0", "1", "2", "4", "5", "7"));
  ASSERT_EQ(ledger.entries().size(), 2U);
  EXPECT_EQ(ledger.skipped(), 2U);
  const FaultLedger::Entry first = ledger.entries()[0];
  EXPECT_EQ(first.message, "row 3 of row group 1: column photo: no picture");
  EXPECT_EQ(first.where.key, "holes/00000003");
  EXPECT_THAT(first.where.url, HasSubstr("holes.parquet"));
  EXPECT_EQ(ledger.entries()[1].message, "row 6 of row group 2: column kind: no label");
}

TEST_F(ParquetShard, DamageInARowGroupCostsTheRestOfTheGroup) {
  const std::string whole = testing::read_file(path("summed.parquet"));
  std::string damaged = whole;
  damaged[whole.find(std::string(200, '\x07'))] ^= 1;  // the picture of row 7
  const TempDir dir;
  testing::write_file(dir / "damaged.parquet", damaged);
  for (const int streams : {1, 3}) {
    StreamSpec spec = spec_of({dir / "damaged.parquet"}, streams);
    FaultLedger ledger({.on_fault = OnFault::kSkip});
    std::size_t emitted = 0;
    for (spec.stream = 0; spec.stream < streams; ++spec.stream) {
      SampleStream stream(spec, opener_, ledger);
      for (Sample sample; stream.next(sample);) {
        EXPECT_EQ(field_text(sample, "jpg"), jpeg_of(static_cast<int>(sample.offset), 300));
        ++emitted;
      }
    }
    EXPECT_EQ(emitted, 15U);
    EXPECT_EQ(ledger.skipped(), 5U);
    EXPECT_THAT(ledger.entries()[0].message, HasSubstr("row group 1: "));
    EXPECT_EQ(ledger.entries()[0].where.offset, 5U);
  }
}

TEST_F(ParquetShard, MutantsAreFaultsOrWhole) {
  const std::string whole = testing::read_file(path("summed.parquet"));
  const TempDir dir;
  const std::string place = dir / "mutant.parquet";
  for (std::uint64_t number = 0; number < kParquetMutants; ++number) {
    std::string mutant = testing::mutated_pack(whole, number);
    if (number % 4 == 0) mutant = whole.substr(0, whole.size() * number / kParquetMutants);
    testing::write_file(place, mutant);
    FaultLedger ledger({.on_fault = OnFault::kSkip});
    try {
      StreamSpec spec{.shards = std::make_shared<const Strings>(Strings{place})};
      SampleStream stream(spec, opener_, ledger);
      std::size_t emitted = 0;
      for (Sample sample; emitted <= 20 && stream.next(sample);) ++emitted;
      EXPECT_LE(emitted, 20U) << number;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kCancelled) << number;
    }
    for (const FaultLedger::Entry& entry : ledger.entries())
      EXPECT_THAT(entry.where.url, HasSubstr("mutant.parquet")) << number;
    EXPECT_TRUE(number % 4 != 0 || !ledger.entries().empty()) << number;
  }
}

TEST_F(ParquetShard, OnlyTheWantedColumnsAreRead) {
  const auto bytes_for = [&](const Strings& suffixes) {
    const CountingOpener counting;
    ShardReader reader(counting, path("wide.parquet"), {.suffixes = suffixes});
    std::size_t count = 0;
    for (Sample sample; reader.next(sample); ++count)
      EXPECT_EQ(sample.fields.size(), suffixes.size());
    EXPECT_EQ(count, 40U);
    return counting.bytes();
  };
  const std::uint64_t footer = bytes_for({"cls"});
  EXPECT_LT(footer, 80'000U);
  // 121 KB of pictures, and what page headers repeat of them; the third column has 800 KB.
  EXPECT_NEAR(static_cast<double>(bytes_for({"jpg", "cls"}) - footer), 140'000, 25'000);
}

TEST_F(ParquetShard, AServerIsAskedForTheWantedColumnsOnly) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const Nginx nginx(std::filesystem::path(path("a.parquet")).parent_path());
  const std::string url = nginx.url("wide.parquet") + "#image=image&label=label";
  ShardReader reader(opener_, url, {.suffixes = {"jpg"}, .offset = 10, .max_samples = 10});
  std::size_t count = 0;
  for (Sample sample; reader.next(sample); ++count)
    EXPECT_EQ(field_text(sample, "jpg"), jpeg_of(static_cast<int>(sample.offset), 3'000));
  EXPECT_EQ(count, 10U);
  std::uint64_t sent = 0;
  std::size_t requests = 0;
  std::istringstream log(nginx.access_log());
  for (std::string method, uri, status, bytes, connection, range;
       log >> method >> uri >> status >> bytes >> connection >> range; ++requests) {
    EXPECT_EQ(status, "206");
    EXPECT_EQ(uri, "/wide.parquet");
    sent += std::stoull(bytes);
  }
  EXPECT_LE(requests, 5U);    // size, footer, and two leaves of the pictures
  EXPECT_LT(sent, 110'000U);  // of a file of 920 KB: 31 KB, and 64 KiB for the footer
}

/// The keys and pictures of stream 1 of 2 through a small buffer, from behind its 5th sample on if
/// it `resumes`. The file's address must not matter, so keys are without their folder.
Strings second_stream(const io::Opener& opener, const std::string& url, bool resumes) {
  const Strings shards{url};
  StreamSpec spec{.shards = std::make_shared<const Strings>(shards),
                  .shuffle = {.buffer_samples = 6, .seed = 5},
                  .num_streams = 2,
                  .stream = 1,
                  .found = {.counts = sample_counts(opener, shards)}};
  spec.shard.suffixes = {"jpg"};
  FaultLedger ledger;
  SampleStream stream(spec, opener, ledger);
  Sample sample;
  for (int i = 0; i < 5 && resumes; ++i) EXPECT_TRUE(stream.next(sample));
  SampleStream rest(spec, stream.position(), opener, ledger);
  Strings all;
  while (rest.next(sample)) all.push_back(sample.key + field_text(sample, "jpg"));
  return all;
}

TEST_F(ParquetShard, ABucketGivesWhatTheDiskDoes) {
  using testing::BucketServer;
  if (!testing::is_long()) GTEST_SKIP() << "only in the long suite: the server starts slowly";
  if (const auto reason = BucketServer::missing(BucketServer::Kind::kS3)) GTEST_SKIP() << *reason;
  const BucketServer server(BucketServer::Kind::kS3);
  const io::UrlOpener bucket({.object_stores = server.options()});
  const std::string file = testing::read_file(path("wide.parquet"));
  const auto sink = bucket.open_sink(server.url("wide.parquet"));
  sink->write(std::as_bytes(std::span(file)));
  sink->finish();
  for (const bool resumes : {false, true}) {
    const auto local = second_stream(opener_, path("wide.parquet"), resumes);
    EXPECT_EQ(local.size(), resumes ? 15U : 20U);
    EXPECT_EQ(second_stream(bucket, server.url("wide.parquet"), resumes), local);
  }
}

TEST_F(ParquetShard, AHubIsAskedForTheWantedColumnsOnly) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  const TempDir hub;
  const std::string name = "datasets/o/n/resolve/main/wide.parquet";
  std::filesystem::create_directories(std::filesystem::path(hub / name).parent_path());
  testing::write_file(hub / name, testing::read_file(path("wide.parquet")));
  const Nginx nginx(hub.path());
  std::string endpoint = nginx.url();
  endpoint.pop_back();
  const io::UrlOpener opener({.object_stores = {.hub = {.endpoint = endpoint}}});
  const auto local = second_stream(opener_, path("wide.parquet"), true);
  EXPECT_EQ(second_stream(opener, "hf://datasets/o/n/wide.parquet", true), local);
  std::uint64_t sent = 0;
  std::istringstream log(nginx.access_log());
  for (std::string method, uri, status, bytes, connection, range;
       log >> method >> uri >> status >> bytes >> connection >> range;)
    sent += std::stoull(bytes);
  EXPECT_LT(sent, 600'000U);  // of a file of 920 KB, 800 of them in another column
}

TEST_F(ParquetShard, FoldersAndWildCardsNameThem) {
  const TempDir dir;
  testing::write_file(dir / "a.tar", "");
  testing::write_file(dir / "a.parquet", "");
  EXPECT_THAT(expand_shards(dir.path().string()), ElementsAre(dir / "a.tar"));
  const auto folder = std::filesystem::path(path("")).parent_path().string();
  EXPECT_EQ(expand_shards(folder).size(), 5U);
  const auto found = expand_shards(path("{a,b}*.parquet") + "#image=image");
  EXPECT_THAT(found, ElementsAre(path("a.parquet#image=image"), path("b.parquet#image=image")));
  check_local_shards(found);
}

TEST(ParquetName, IsRecognisedWithItsChoice) {
  const auto split = [](const std::string& url) {
    return is_parquet(url) ? stored_url(url) + " " + std::string(column_choice(url)) : "no";
  };
  EXPECT_EQ(split("a.parquet"), "a.parquet ");
  EXPECT_EQ(split("a.parquet#image=b"), "a.parquet #image=b");
  EXPECT_EQ(split("a#1.parquet"), "a#1.parquet ");
  EXPECT_EQ(split("http://h/a.parquet?x=1#image=b"), "http://h/a.parquet?x=1 #image=b");
  EXPECT_EQ(split("http://h/a.parquet?x=1"), "http://h/a.parquet?x=1 ");
  EXPECT_EQ(split("a.parquet?x=1"), "no");
  EXPECT_EQ(split("a.tar#b"), "no");
  EXPECT_EQ(split("pipe:cat a.parquet"), "no");
  EXPECT_EQ(stored_url("a.tar#b"), "a.tar#b");
}

}  // namespace
}  // namespace millrace::wds
