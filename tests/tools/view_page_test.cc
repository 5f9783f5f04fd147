// `view --html`: what a data set's page finds in shards where it was planted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <string>

#include "tests/support/tar_builder.h"
#include "tests/tools/pages.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

/// A PGM whose levels `level_of(x, y)` says.
template <typename LevelOf>
std::string drawn_pgm(int width, int height, const LevelOf& level_of) {
  std::string file = "P5 " + std::to_string(width) + " " + std::to_string(height) + " 255\n";
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) file += static_cast<char>(level_of(x, y));
  return file;
}

/// Levels at random, from `least` to `most`; no two seeds look alike.
std::string noise(unsigned seed, int least = 0, int most = 255, int width = 32, int height = 32) {
  std::mt19937 random(seed);
  const auto range = static_cast<unsigned>(most - least + 1);
  return drawn_pgm(width, height,
                   [&](int, int) { return least + static_cast<int>(random() % range); });
}

/// The same levels as colours: other bytes, the same picture.
std::string as_ppm(const std::string& pgm) {
  const std::size_t head = pgm.find("255\n") + 4;
  std::string file = "P6" + pgm.substr(2, head - 2);
  for (const char level : pgm.substr(head)) file += std::string(3, level);
  return file;
}

class ViewPage : public ::testing::Test {
 protected:
  /// 24 samples of two classes that have nothing to be named for, and `more`.
  std::string shard(const std::string& name, unsigned seed,
                    const std::vector<std::pair<std::string, std::string>>& more = {}) const {
    TarBuilder tar;
    for (unsigned i = 0; i < 24; ++i)
      tar.file("plain" + std::to_string(i) + ".pgm", noise(seed + i))
          .file("plain" + std::to_string(i) + ".cls", std::to_string(i % 2));
    for (const auto& [member, data] : more) tar.file(member, data);
    write_file(dir_ / name, tar.end().bytes());
    return dir_ / name;
  }
  nlohmann::json view(std::vector<std::string> words) const {
    words.insert(words.begin(), {"view", "--json"});
    words.insert(words.end(), {"--html", dir_ / "page.html", "--force"});
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 0) << result.err;
    const auto lines = json_lines(result.out);
    return lines.empty() ? nlohmann::json() : lines.front();
  }
  nlohmann::json page() const { return parse_page(dir_ / "page.html"); }

  TempDir dir_;
};

TEST_F(ViewPage, CountsSamplesWithoutAClass) {
  view({shard("set-000000.tar", 1, {{"more.pgm", noise(99)}})});
  EXPECT_THAT(text_of(page()),
              AllOf(HasSubstr("1 sample without the field cls"), HasSubstr("no class")));
  write_file(dir_ / "bare.tar", TarBuilder().file("a.pgm", noise(1)).end().bytes());
  view({dir_ / "bare.tar"});
  EXPECT_THAT(text_of(page()), HasSubstr("no sample has the field cls"));
}

TEST_F(ViewPage, ShowsASetThatHasNothingToBeNamedFor) {
  const auto said = view({shard("set-000000.tar", 1), "--count", "10"});
  EXPECT_EQ(said["samples"], 24);
  EXPECT_EQ(said["broken"], 0);
  EXPECT_EQ(said["same_bytes"], 0);
  EXPECT_EQ(said["alike"], 0);
  for (const auto& [name, count] : said["outliers"].items()) EXPECT_EQ(count, 0) << name;
  const auto found = page();
  EXPECT_EQ(found["alts"].size(), 10);
  EXPECT_EQ(found["alts"][0], "plain0.pgm, class 0");
  EXPECT_THAT(text_of(found), AllOf(HasSubstr("2 classes"), HasSubstr("12 (50.0 %)"),
                                    HasSubstr("10 of 24 pictures"), HasSubstr("32 × 32"),
                                    HasSubstr("every sample could be read")));
  EXPECT_THAT(found["rows"].dump(), HasSubstr(R"(["set-000000.tar","24","24",)"));
}

TEST_F(ViewPage, NamesCopiesAndPicturesThatLookAlike) {
  const std::string one = shard("set-000000.tar", 1, {{"twin.pgm", noise(3)}});
  const std::string two = shard("set-000001.tar", 100, {{"alike.ppm", as_ppm(noise(5))}});
  const auto said = view({one, two, "--count", "1"});
  EXPECT_EQ(said["same_bytes"], 1);
  EXPECT_EQ(said["alike"], 1);
  const auto alts = page()["alts"];
  EXPECT_THAT(alts, AllOf(Contains("twin.pgm"), Contains("plain2.pgm, class 0")));
  EXPECT_THAT(alts, AllOf(Contains("alike.ppm"), Contains("plain4.pgm, class 0")));
  EXPECT_EQ(alts.size(), 5);
}

TEST_F(ViewPage, NamesCopiesOfDifferentClasses) {
  const std::string set = shard(
      "set.tar", 1,
      {{"same.pgm", noise(3)}, {"same.cls", "0"}, {"wrong.pgm", noise(4)}, {"wrong.cls", "0"}});
  const auto said = view({set, "--count", "1"});
  EXPECT_EQ(said["same_bytes"], 2);
  EXPECT_EQ(said["of_different_classes"], 1);
  const auto found = page();
  EXPECT_THAT(found["alts"], Contains("wrong.pgm, class 0"));
  EXPECT_THAT(text_of(found), HasSubstr("1 picture of different classes"));
}

TEST_F(ViewPage, NamesWhatIsInBothSets) {
  const std::string train = shard("train.tar", 1);
  const std::string val =
      shard("val.tar", 100, {{"leaked.pgm", noise(7)}, {"recoded.ppm", as_ppm(noise(9))}});
  const auto said = view({train, "--against", val, "--count", "1"});
  EXPECT_EQ(said["in_both"], 1);
  EXPECT_EQ(said["alike_in_both"], 1);
  EXPECT_EQ(said["same_bytes"], 0) << "within the set";
  const auto found = page();
  EXPECT_THAT(found["alts"], AllOf(Contains("leaked.pgm"), Contains("plain6.pgm, class 0"),
                                   Contains("recoded.ppm"), Contains("plain8.pgm, class 0")));
  EXPECT_THAT(found["headings"], Contains("In both sets"));
  EXPECT_THAT(text_of(found), AllOf(HasSubstr("train.tar"), HasSubstr("val.tar")));
}

TEST_F(ViewPage, NamesPicturesUnlikeTheOthers) {
  const auto said =
      view({shard("set.tar", 1,
                  {{"dark.pgm", noise(70, 0, 20)},
                   {"bright.pgm", noise(71, 236, 255)},
                   {"empty.pgm", noise(72, 90, 91)},
                   {"blurred.pgm", drawn_pgm(32, 32, [](int x, int y) { return 4 * x + 3 * y; })},
                   {"wide.pgm", noise(73, 0, 255, 160, 16)},
                   {"large.pgm", noise(74, 0, 255, 200, 200)}}),
            "--count", "1"});
  EXPECT_EQ(
      said["outliers"],
      (nlohmann::json{{"Dark", 1}, {"Bright", 1}, {"Empty", 1}, {"Blurred", 1}, {"Odd-sized", 2}}));
  EXPECT_EQ(page()["alts"], (nlohmann::json{"plain0.pgm, class 0", "dark.pgm", "bright.pgm",
                                            "empty.pgm", "blurred.pgm", "large.pgm", "wide.pgm"}));
  EXPECT_EQ(millrace({"cat", dir_ / "set.tar", "dark.pgm"}).out, noise(70, 0, 20))
      << "by the names on the page";
}

TEST_F(ViewPage, SaysWhatIsBrokenAndWhy) {
  std::string cut = noise(80);
  cut.resize(cut.size() / 2);
  const auto said =
      view({shard("set.tar", 1, {{"cut.pgm", cut}, {"word.pgm", noise(81)}, {"word.cls", "x"}})});
  EXPECT_EQ(said["samples"], 26);
  EXPECT_EQ(said["pictures"], 24);
  EXPECT_EQ(said["broken"], 2);
  EXPECT_THAT(page()["rows"].dump(), AllOf(HasSubstr("cut.pgm"), HasSubstr("word.cls")));
  const ProcessResult strict = millrace(
      {"view", dir_ / "set.tar", "--html", dir_ / "page.html", "--force", "--on-fault", "fail"});
  EXPECT_EQ(strict.status, 1);
}

// A label alone can be read, and yet training on pictures would lose the sample.
TEST_F(ViewPage, NamesSamplesWithoutAPicture) {
  const std::string set = shard("set-000000.tar", 1, {{"lonely.cls", "1"}});
  const auto line = view({set});
  EXPECT_EQ(line["samples"], 25);
  EXPECT_EQ(line["broken"], 0);
  EXPECT_EQ(line["without_picture"], 1);
  EXPECT_THAT(
      text_of(page()),
      AllOf(HasSubstr("1 sample without a picture, which training would lose"), HasSubstr("lonely"),
            HasSubstr("1 other without a picture"), Not(HasSubstr("None: every sample"))));
  EXPECT_THAT(millrace({"view", set, "--html", dir_ / "page.html", "--force"}).out,
              HasSubstr(", 1 without a picture"));
  EXPECT_EQ(view({shard("whole-000000.tar", 1)})["without_picture"], 0);
}

TEST_F(ViewPage, GoesOnBehindADamagedShard) {
  const std::string one = shard("set-000000.tar", 1);
  const std::string two = shard("set-000001.tar", 100);
  const std::string whole = read_file(one);
  write_file(one, whole.substr(0, whole.size() / 2));
  const auto said = view({one, two});
  EXPECT_GT(said["broken"], 0);
  EXPECT_GE(said["samples"], 24 + 8);
  EXPECT_THAT(page()["rows"].dump(), HasSubstr("set-000000.tar"));
}

TEST_F(ViewPage, EscapesWhatComesFromOutside) {
  const std::string evil = "\"'><script>alert(1)<\xE2\x80\xAE/script>&amp;";
  const std::string shards = shard(
      "set.tar", 1, {{evil + ".pgm", noise(3)}, {evil + "2.pgm", "P5 no"}, {evil + "3.cls", "1"}});
  write_file(dir_ / "set-classes.txt", evil + "\n</style>\n");
  view({shards});
  const auto found = page();
  EXPECT_THAT(text_of(found), HasSubstr("<script>alert(1)<")) << "as text";
  const std::string shown = "\"'><script>alert(1)<\xEF\xBF\xBD/script>&amp;.pgm";
  EXPECT_THAT(found["alts"], Contains(shown)) << "without what turns the text around";
}

TEST_F(ViewPage, IsTheSameWithAnyNumberOfThreadsAndFromPackedShards) {
  const std::string shards = shard("set.tar", 1, {{"twin.pgm", noise(3)}});
  const auto drawn = [&](const std::string& spec, const std::string& threads) {
    view({spec, "--threads", threads});
    return read_file(dir_ / "page.html");
  };
  const std::string one = drawn(shards, "1");
  EXPECT_TRUE(drawn(shards, "3") == one);
  const auto pictures = page()["alts"];
  EXPECT_EQ(pictures.size(), 25 + 2);
  ASSERT_EQ(run_process({"/bin/gzip", "-k", shards}).status, 0);
  drawn(shards + ".gz", "2");
  EXPECT_EQ(page()["alts"], pictures);
}

TEST_F(ViewPage, OfStandardInputHasNoThumbnails) {
  const std::string page_path = dir_ / "page.html";
  const std::string command = R"(exec "$0" view - --html "$1" < "$2")";
  const ProcessResult result =
      run_process({"/bin/sh", "-c", command, MILLRACE_PROGRAM, page_path, shard("set.tar", 1)});
  ASSERT_EQ(result.status, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("24 samples"));
  EXPECT_TRUE(page()["alts"].empty());
  EXPECT_THAT(text_of(page()),
              AllOf(HasSubstr("not drawn"), HasSubstr("24 pictures of this page are not drawn"),
                    HasSubstr("24: their shard can be read only once")));
}

TEST_F(ViewPage, SaysOfALargeSetWhichPicturesItComparesAndHasAllCopiesOfThem) {
  std::vector<std::pair<std::string, std::string>> more;
  for (unsigned i = 0; i < 200; ++i)  // each three times
    more.emplace_back("again" + std::to_string(i) + ".pgm", noise(1000 + i / 2));
  for (unsigned i = 0; i < 100; ++i)
    more.emplace_back("third" + std::to_string(i) + ".pgm", noise(1000 + i));
  const std::string set = shard("set.tar", 1, more);
  const auto whole = view({set});
  EXPECT_EQ(whole["same_bytes"], 200);
  EXPECT_THAT(text_of(page()), Not(HasSubstr("chosen by the bytes' digest")));
  const auto sampled = view({set, "--most-pictures", "100"});
  EXPECT_EQ(sampled["pictures"], 324) << "counts are of all";
  EXPECT_THAT(text_of(page()), AllOf(HasSubstr("one file of "), HasSubstr("324")));
  const int copies = sampled["same_bytes"];
  EXPECT_GT(copies, 0);
  EXPECT_LT(copies, 100);
  EXPECT_EQ(copies % 2, 0) << "two of three, of each file that is among them";
  // The other set is sampled as this one is: of each file there all its copies are in both.
  const int in_both = view({set, "--against", set, "--most-pictures", "100"})["in_both"];
  EXPECT_GE(in_both, copies / 2);
  EXPECT_LT(in_both, 124) << "files that differ";
}

TEST_F(ViewPage, OfASetWithoutPicturesHasItsSamples) {
  write_file(dir_ / "set.tar", TarBuilder().file("a.cls", "1").file("b.txt", "x").end().bytes());
  EXPECT_EQ(view({dir_ / "set.tar"})["samples"], 2);
  EXPECT_THAT(text_of(page()), HasSubstr("There is no picture."));
}

TEST_F(ViewPage, RefusesOptionsOfASheet) {
  const std::string shards = shard("set.tar", 1);
  const auto refused = [&](std::vector<std::string> words) {
    words.insert(words.begin(), {"view", shards});
    const ProcessResult result = millrace(words);
    EXPECT_EQ(result.status, 2) << result.err;
    return result.err;
  };
  EXPECT_THAT(refused({}), HasSubstr("--html"));
  EXPECT_THAT(refused({"--html", dir_ / "p.html", "--raw"}), HasSubstr("--raw"));
  EXPECT_THAT(refused({"--html", dir_ / "p.html", "-o", dir_ / "p.png"}), HasSubstr("--html"));
  EXPECT_THAT(refused({"-o", dir_ / "p.png", "--against", shards}), HasSubstr("--against"));
  EXPECT_THAT(refused({"--html", dir_ / "p.html", "--count", "5000"}), HasSubstr("2000"));
  EXPECT_FALSE(std::filesystem::exists(dir_ / "p.html"));
}

TEST_F(ViewPage, FitsATelephoneAndAWideWindow) {
  if (!std::filesystem::exists(kBrowser)) GTEST_SKIP() << "no " << kBrowser;
  view({shard("set.tar", 1, {{"twin.pgm", noise(3)}, {std::string(90, 'k') + ".pgm", noise(4)}})});
  expect_fits_windows(dir_, read_file(dir_ / "page.html"));
}

}  // namespace
}  // namespace millrace::testing
