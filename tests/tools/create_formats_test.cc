// create from the formats of other libraries. What their original libraries write is compared
// sample for sample (foreign_formats.py); without these, files made here show how damage is
// reported.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "io/base/hash.h"
#include "tests/support/mutator.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr std::uint64_t kFormatMutants = 20;

struct Foreign {
  std::string format;
  std::string modules;
};

void PrintTo(const Foreign& foreign, std::ostream* os) { *os << foreign.format; }

class CreateFromForeign : public ::testing::TestWithParam<Foreign> {};

TEST_P(CreateFromForeign, EverySampleIsWhatTheLibraryWrote) {
  const std::string python = oracle_python(GetParam().modules);
  if (python.empty()) GTEST_SKIP() << "no Python with " << GetParam().modules;
  if (GetParam().format == "parquet" || GetParam().format == "hf") {
    const std::string said = millrace({"--version"}).out;
    if (said.find("Arrow") == said.npos) GTEST_SKIP() << "a build without Apache Arrow";
  }
  const TempDir dir;
  const std::string script = std::filesystem::absolute("tests/tools/foreign_formats.py").string();
  const ProcessResult result = run_process({python, script, MILLRACE_PROGRAM, GetParam().format},
                                           {.folder = dir.path().string()});
  EXPECT_EQ(result.status, 0) << result.err;
}

INSTANTIATE_TEST_SUITE_P(
    Libraries, CreateFromForeign,
    ::testing::Values(Foreign{"tfrecord", "tfrecord,crc32c,google.protobuf,PIL"},
                      Foreign{"mds", "streaming,PIL"}, Foreign{"litdata", "litdata,PIL"},
                      Foreign{"parquet", "pyarrow,PIL"}, Foreign{"hf", "datasets,pyarrow,PIL"},
                      Foreign{"coco", "pycocotools,PIL"}),
    [](const auto& use) { return use.param.format; });

std::string word(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text += static_cast<char>(value >> (8 * i) & 0xFFU);
  return text;
}

std::string masked(const std::string& data) {
  const std::uint32_t crc = crc32c(std::as_bytes(std::span(data)));
  return word((crc >> 15U | crc << 17U) + 0xa282ead8U, 4);
}

std::string tf_frame(const std::string& data) {
  const std::string length = word(data.size(), 8);
  return length + masked(length) + data + masked(data);
}

/// A protocol buffers field of counted bytes.
std::string proto(int field, const std::string& bytes) {
  return std::string{static_cast<char>(field * 8 + 2), static_cast<char>(bytes.size())} + bytes;
}

/// Of one feature, whose value is `feature`: a list of bytes (1), floats (2) or numbers (3).
std::string tf_example(const std::string& name, const std::string& feature) {
  return proto(1, proto(1, proto(1, name) + proto(2, feature)));
}

std::string tf_number(const std::string& name, char number) {
  return tf_example(name, proto(3, proto(1, std::string(1, number))));
}

/// An MDS folder of one shard with a column of texts.
std::string make_mds(const TempDir& dir, const std::vector<std::string>& texts,
                     const std::string& encoding = "str") {
  std::string offsets;
  std::string data;
  const std::size_t head = 4 * (texts.size() + 2);
  for (const std::string& text : texts) {
    offsets += word(head + data.size(), 4);
    data += word(text.size(), 4) + text;
  }
  offsets += word(head + data.size(), 4);
  write_file(dir / "mds/shard.00000.mds", word(texts.size(), 4) + offsets + data);
  const nlohmann::json shard = {{"format", "mds"},
                                {"column_names", {"t"}},
                                {"column_encodings", {encoding}},
                                {"column_sizes", {nullptr}},
                                {"samples", texts.size()},
                                {"raw_data", {{"basename", "shard.00000.mds"}}},
                                {"zip_data", nullptr},
                                {"compression", nullptr}};
  write_file(dir / "mds/index.json", nlohmann::json({{"version", 2}, {"shards", {shard}}}).dump());
  return "mds";
}

ProcessResult create_in(const TempDir& dir, std::vector<std::string> words) {
  words.insert(words.begin(), {"create", "s-%d.tar"});
  return millrace(words, {.folder = dir.path().string()});
}

std::string json_of(const TempDir& dir, const std::string& key) {
  return millrace({"cat", dir / "s-0.tar", key + ".json"}).out;
}

TEST(CreateFromTfrecord, TakesBothWaysToWriteNumbers) {
  const TempDir dir;
  const std::string apart = tf_example("n", proto(3, std::string("\x08\x05\x08\x07", 4)));
  const std::string half = tf_example("n", proto(2, proto(1, std::string("\0\0\0\x3f", 4))));
  write_file(dir / "a", tf_frame(tf_number("n", 5)) + tf_frame(apart) + tf_frame(half));
  const auto made = create_in(dir, {"--from-tfrecord", "a"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(json_of(dir, "00000000"), R"({"n":5})");
  EXPECT_EQ(json_of(dir, "00000001"), R"({"n":[5,7]})");
  EXPECT_EQ(json_of(dir, "00000002"), R"({"n":0.5})");
}

TEST(CreateFromTfrecord, AFeatureThatTheFirstRecordLacksIsNotDropped) {
  const TempDir dir;
  write_file(dir / "a", tf_frame(tf_number("n", 5)) + tf_frame(tf_number("m", 6)));
  const auto made = create_in(dir, {"--from-tfrecord", "a"});
  EXPECT_EQ(made.status, 1);
  EXPECT_THAT(made.err, AllOf(HasSubstr("a record 1 at "), HasSubstr("the feature 'm'")));
}

TEST(CreateFromTfrecord, NamesTheRecordAndOffsetOfWhatIsDamaged) {
  const TempDir dir;
  const std::string first = tf_frame(tf_number("n", 5));
  std::string second = first;
  second[14] ^= 1;
  write_file(dir / "a", first + second);
  const auto made = create_in(dir, {"--from-tfrecord", "a"});
  EXPECT_EQ(made.status, 1);
  EXPECT_THAT(made.err, AllOf(HasSubstr("record 1"), HasSubstr("checksum"),
                              HasSubstr("offset " + std::to_string(first.size() + 12))));
}

TEST(CreateFromTfrecord, MutantsNeitherCrashNorPassUnseen) {
  const TempDir dir;
  std::string whole;
  for (char i = 0; i < 8; ++i) whole += tf_frame(tf_number("n", i));
  for (std::uint64_t number = 0; number < kFormatMutants; ++number) {
    const std::string mutant = mutated_pack(whole, number);
    write_file(dir / "a", mutant);
    const auto made = create_in(dir, {"--from-tfrecord", "a", "--force"});
    EXPECT_TRUE(made.status >= 0 && made.status <= 2) << number << ": " << made.status;
    // Whole frames may be missing; every other byte is under a checksum.
    const bool whole_frames = mutant.size() % (whole.size() / 8) == 0;
    EXPECT_TRUE(made.status != 0 || mutant == whole || whole_frames) << number;
  }
}

TEST(CreateFromTfrecord, NumbersThatJsonLacksAreNamed) {
  for (const char* odd : {"\0\0\xc0\x7f", "\0\0\x80\x7f", "\0\0\x80\xff"}) {
    const TempDir dir;
    const auto scored = [](const char* bits) {
      return tf_frame(tf_example("score", proto(2, proto(1, std::string(bits, 4)))));
    };
    write_file(dir / "a", scored("\0\0\0\x3f") + scored(odd));
    for (const char* option : {"--labels", "--columns"}) {
      const auto made = create_in(dir, {"--from-tfrecord", "a", option, "score"});
      EXPECT_EQ(made.status, 1);
      EXPECT_THAT(made.err, AllOf(HasSubstr("a record 1"), HasSubstr("column score: "),
                                  ::testing::AnyOf(HasSubstr("NaN"), HasSubstr("infinite"))));
    }
  }
}

TEST(CreateFromTfrecord, TheSameFileTwiceIsRefused) {
  const TempDir dir;
  write_file(dir / "a", tf_frame(tf_number("n", 5)));
  std::filesystem::create_symlink(dir / "a", dir / "ab");
  for (const std::vector<std::string>& files :
       {std::vector<std::string>{"a", "a"}, {"a", "./a"}, {"a*"}}) {
    std::vector<std::string> words = {"--from-tfrecord"};
    words.insert(words.end(), files.begin(), files.end());
    const auto made = create_in(dir, words);
    EXPECT_EQ(made.status, 2) << made.err;
    EXPECT_THAT(made.err, HasSubstr("its samples would be in the set twice"));
  }
  EXPECT_EQ(create_in(dir, {"--from-tfrecord", "a"}).status, 0);
}

TEST(CreateFromMds, AShardThatTheIndexNamesTwiceIsRefused) {
  const TempDir dir;
  make_mds(dir, {"one", "two"});
  auto index = nlohmann::json::parse(read_file(dir / "mds/index.json"));
  index["shards"].push_back(index["shards"][0]);
  write_file(dir / "mds/index.json", index.dump());
  const auto made = create_in(dir, {"--from-mds", "mds"});
  EXPECT_EQ(made.status, 2) << made.err;
  EXPECT_THAT(made.err, HasSubstr("shard.00000.mds is listed twice"));
}

TEST(CreateFromMds, ReadsTexts) {
  const TempDir dir;
  const auto made = create_in(dir, {"--from-mds", make_mds(dir, {"one", "", "drei"})});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(json_of(dir, "00000002"), R"({"t":"drei"})");
}

TEST(CreateFromMds, TextsThatAreNotUtf8AreNamed) {
  const TempDir dir;
  const auto made = create_in(dir, {"--from-mds", make_mds(dir, {"one", "\xff"})});
  EXPECT_EQ(made.status, 1);
  EXPECT_THAT(made.err, AllOf(HasSubstr("shard.00000.mds sample 1"), HasSubstr("column t"),
                              HasSubstr("UTF-8")));
}

TEST(CreateFromMds, NumbersThatADoubleWouldRoundStayText) {
  const TempDir dir;
  const auto json_of_all = [&](const std::string& encoding, const std::vector<std::string>& texts) {
    const auto made = create_in(dir, {"--from-mds", make_mds(dir, texts, encoding), "--force"});
    EXPECT_EQ(made.status, 0) << made.err;
    std::string all;
    for (std::size_t i = 0; i < texts.size(); ++i)
      all += json_of(dir, "0000000" + std::to_string(i));
    return all;
  };
  EXPECT_EQ(json_of_all("str_int", {"18446744073709551615", "-12345678901234567890123"}),
            R"({"t":18446744073709551615}{"t":"-12345678901234567890123"})");
  EXPECT_EQ(json_of_all("str_decimal", {"0.10", "3.14159265358979323846264"}),
            R"({"t":"0.10"}{"t":"3.14159265358979323846264"})");
  EXPECT_EQ(json_of_all("str_float", {"0.1", "1e-07", "nan"}),
            R"({"t":0.1}{"t":1e-07}{"t":"nan"})");
}

TEST(CreateFromMds, MutantsNeitherCrashNorHang) {
  const TempDir dir;
  make_mds(dir, {"one", "two", "three", "four"});
  const std::string shard = read_file(dir / "mds/shard.00000.mds");
  const std::string index = read_file(dir / "mds/index.json");
  for (std::uint64_t number = 0; number < kFormatMutants; ++number) {
    const bool of_index = number % 2 == 0;
    write_file(dir / "mds/index.json", of_index ? mutated_text(index, number) : index);
    write_file(dir / "mds/shard.00000.mds", of_index ? shard : mutated_pack(shard, number));
    const auto made = create_in(dir, {"--from-mds", "mds", "--force"});
    EXPECT_TRUE(made.status >= 0 && made.status <= 2) << number << ": " << made.status;
    EXPECT_TRUE(made.status == 0 || !made.err.empty()) << number;
  }
}

TEST(CreateFromFolder, ClassesOfSeveralLevels) {
  const TempDir dir;
  write_file(dir / "in/animals/cat/1.png", "a");
  write_file(dir / "in/animals/dog/old/2.png", "b");
  write_file(dir / "in/plants/oak/3.png", "c");
  const auto classes = [&](const std::string& depth) {
    const auto made = create_in(dir, {"--from-folder", "in", "--class-depth", depth, "--force"});
    EXPECT_EQ(made.status, 0) << made.err;
    return lines_of(read_file(dir / "s-classes.txt"));
  };
  EXPECT_THAT(classes("1"), ElementsAre("animals", "plants"));
  EXPECT_THAT(classes("2"), ElementsAre("animals/cat", "animals/dog", "plants/oak"));
  EXPECT_THAT(classes("all"), ElementsAre("animals/cat", "animals/dog/old", "plants/oak"));
  EXPECT_EQ(millrace({"cat", dir / "s-0.tar", "animals/dog/old/2.cls"}).out, "1");
  const auto refused = create_in(dir, {"--from-folder", "in", "--class-depth", "3", "--force"});
  EXPECT_EQ(refused.status, 2);
  EXPECT_THAT(refused.err, HasSubstr("animals/cat/1.png is in no class's folder, 3 levels below"));
}

}  // namespace
}  // namespace millrace::testing
