// Python's webdataset reads the same bytes that create writes. Skipped without a Python that has
// webdataset (MILLRACE_ORACLE_PYTHON).
#include <gtest/gtest.h>

#include <cstdio>
#include <map>
#include <span>

#include "io/base/hash.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using Fields = std::map<std::string, std::string>;
using Samples = std::map<std::string, Fields>;

std::string unhex(const std::string& digits) {
  std::string bytes;
  for (std::size_t i = 0; i < digits.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
  return bytes;
}

std::string crc32_text(const std::string& bytes) {
  char digits[9];
  std::snprintf(digits, sizeof digits, "%08x", crc32(std::as_bytes(std::span(bytes))));
  return digits;
}

class CreateOracle : public ::testing::Test {
 protected:
  void SetUp() override {
    static const std::string python = oracle_python("webdataset");
    if (python.empty()) GTEST_SKIP() << "no Python with webdataset";
    python_ = python;
  }

  void create(std::vector<std::string> words) const {
    words.insert(words.begin(), "create");
    const ProcessResult result = millrace(words, {.folder = dir_.path().string()});
    ASSERT_EQ(result.status, 0) << result.err;
  }

  /// All samples that webdataset reads from `spec`; each key occurs once.
  Samples read(const std::string& spec) const {
    const ProcessResult result = run_process({python_, "-c", R"(
import sys, json
sys.modules['torch'] = None  # which webdataset would import for seconds, and does without
import webdataset as wds
for s in wds.WebDataset(sys.argv[1], shardshuffle=False):
    print(json.dumps([s['__key__'], {k: v.hex() for k, v in s.items() if k[0] != '_'}]))
)",
                                              dir_ / spec});
    EXPECT_EQ(result.status, 0) << result.err;
    Samples samples;
    for (const auto& line : json_lines(result.out)) {
      Fields fields;
      for (const auto& [suffix, hex] : line[1].items())
        fields[suffix] = unhex(hex.get<std::string>());
      EXPECT_TRUE(samples.emplace(line[0].get<std::string>(), fields).second) << line[0];
    }
    return samples;
  }

  TempDir dir_;
  std::string python_;
};

TEST_F(CreateOracle, IdxFilesKeepPixelsAndLabels) {
  std::string pixels;
  for (int i = 0; i < 5 * 28 * 28; ++i) pixels.push_back(static_cast<char>(i * 31 % 256));
  write_file(dir_ / "images", idx_bytes({5, 28, 28}, pixels));
  write_file(dir_ / "labels", idx_bytes({5}, {9, 0, 3, 3, 1}));
  create({"s-%06d.tar", "--from-idx", "images", "labels", "--maxcount", "3", "--format", "ppm"});
  const Samples samples = read("s-{000000..000001}.tar");
  ASSERT_EQ(samples.size(), 5U);
  for (int i = 0; i < 5; ++i) {
    const Fields& fields = samples.at("0000000" + std::to_string(i));
    EXPECT_EQ(fields.at("cls"),
              std::to_string(std::vector{9, 0, 3, 3, 1}[static_cast<std::size_t>(i)]));
    EXPECT_EQ(fields.at("pgm"),
              "P5\n28 28\n255\n" + pixels.substr(static_cast<std::size_t>(i) * 784, 784));
  }
}

TEST_F(CreateOracle, AFolderKeepsItsFiles) {
  std::string every_byte;
  for (int i = 0; i < 2000; ++i) every_byte.push_back(static_cast<char>(i % 256));
  const std::string deep = std::string(60, 'd') + "/" + std::string(90, 'e') + "/";
  write_file(dir_ / "in/ant/a.v2.JPG", every_byte);
  write_file(dir_ / "in/b\xC3\xA4r/b.png", "no picture");
  write_file(dir_ / ("in/cat/" + deep + "c.jpeg"), "deep");
  create({"s-%d.tar", "--from-folder", "in"});
  EXPECT_EQ(read("s-0.tar"), (Samples{{"ant/a_v2", {{"cls", "0"}, {"jpg", every_byte}}},
                                      {"b\xC3\xA4r/b", {{"cls", "1"}, {"png", "no picture"}}},
                                      {"cat/" + deep + "c", {{"cls", "2"}, {"jpeg", "deep"}}}}));
}

TEST_F(CreateOracle, ATableWithGroupsKeepsFilesAndLabelsInItsFolds) {
  std::string table = "study,image,x,y\n";
  Samples expected;
  for (int i = 0; i < 12; ++i) {
    const std::string study = "st" + std::to_string(i % 4);
    const std::string name = "im" + std::to_string(i);
    write_file(dir_ / ("in/" + study + "/" + name + ".jpg"), "pixels of " + name);
    table += study + "," + name + "," + std::to_string(i % 2) + ",0.5\n";
    expected[study + "/" + name] = {
        {"jpg", "pixels of " + name},
        {"json", R"({"labels":[)" + std::to_string(i % 2) + R"(,0.5],"group":")" + study + "\"}"}};
  }
  write_file(dir_ / "t.csv", table);
  create({"f{fold}-%d.tar", "--from-csv", "t.csv", "--root", "in", "--path", "{study}/{image}.jpg",
          "--labels", "x", "y", "--group-by", "study", "--folds", "2", "--shuffle", "1"});
  Samples all = read("f0-0.tar");
  EXPECT_EQ(all.size(), 6U);
  all.merge(read("f1-0.tar"));
  EXPECT_EQ(all, expected);
}

TEST_F(CreateOracle, MadeUpSamplesHaveTheFieldsThatWeList) {
  create({"m-%d.tar", "--synthetic", "multilabel", "--count", "9", "--format", "jpg"});
  create({"s-%d.tar", "--synthetic", "scenes", "--count", "9"});
  const Samples theirs = read("{m,s}-0.tar");
  const auto ours = list_samples(dir_ / "{m,s}-0.tar");
  ASSERT_EQ(theirs.size(), 18U);
  ASSERT_EQ(ours.size(), 18U);
  for (const auto& sample : ours) {
    const Fields& fields = theirs.at(sample["key"].get<std::string>());
    EXPECT_EQ(fields.size(), sample["fields"].size());
    for (const auto& [suffix, field] : sample["fields"].items())
      EXPECT_EQ(crc32_text(fields.at(suffix)), field["crc32"]) << suffix;
  }
}

}  // namespace
}  // namespace millrace::testing
