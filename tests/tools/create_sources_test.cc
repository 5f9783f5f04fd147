// create from tables, lists and synthetic pictures; folds; recoding.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::string> keys_of(const std::string& spec) {
  std::vector<std::string> keys;
  for (const auto& sample : list_samples(spec)) keys.push_back(sample["key"]);
  return keys;
}

std::string field(const std::string& spec, const std::string& member) {
  const ProcessResult result = millrace({"cat", spec, member});
  EXPECT_EQ(result.status, 0) << result.err;
  return result.out;
}

/// Runs in `dir`, so that paths are short; the shards are out-0.tar, ...
ProcessResult create(const TempDir& dir, std::vector<std::string> words) {
  words.insert(words.begin(), {"create", "out-%d.tar"});
  return millrace(words, {.folder = dir.path().string()});
}

class CreateFromCsv : public ::testing::Test {
 protected:
  CreateFromCsv() {
    write_file(dir_ / "st1/se1/001_im.1.jpg", "one");
    write_file(dir_ / "st1/se1/002_im.2.jpg", "two");
    write_file(dir_ / "st2/se 3/009_im*.jpg", "three");
  }
  ProcessResult create_table(const std::string& table, std::vector<std::string> more = {}) {
    write_file(dir_ / "t.csv", table);
    more.insert(more.begin(), {"--from-csv", "t.csv", "--path", "{Study}/{Series}/*{Image}.jpg"});
    return create(dir_, more);
  }
  TempDir dir_;
};

TEST_F(CreateFromCsv, FindsFilesByColumnsAndPacksLabelsInColumnOrder) {
  const auto made = create_table(
      "\xEF\xBB\xBFStudy,Series,Image,a,b,note\r\n"
      "st1,se1,im.1,0,1.5,\"says \"\"no\"\", twice\nover\"\r\n"
      "\r\n"
      "st1,se1,im.2,1,-2e3,007\r\n"
      "st2,\"se 3\",im*,True,0.0,12",
      {"--labels", "b", "a", "--columns", "note", "--group-by", "Study", "--key", "{Image}"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(keys_of(dir_ / "out-0.tar"), ElementsAre("im_1", "im_2", "im*"));
  EXPECT_EQ(field(dir_ / "out-0.tar", "im_1.json"),
            R"({"labels":[1.5,0],"group":"st1","note":"says \"no\", twice\nover"})");
  EXPECT_EQ(field(dir_ / "out-0.tar", "im_2.json"),
            R"({"labels":[-2000.0,1],"group":"st1","note":"007"})");
  EXPECT_EQ(field(dir_ / "out-0.tar", "im*.json"),
            R"({"labels":[0.0,1],"group":"st2","note":"12"})");
  EXPECT_EQ(field(dir_ / "out-0.tar", "im*.jpg"), "three");
}

TEST_F(CreateFromCsv, AColumnIsOfNumbersOnlyWhereNoTextIsLost) {
  const auto made = create_table(
      "Study,Series,Image,n,price,x,exp,id,zip,q,version\n"
      "st1,se1,im.1,-3,1.50,0.1,12e5,12345678901234567890123,007,\"3\",1.1\n"
      "st1,se1,im.2, 18446744073709551615,12.25,1e-05,1200e3,1,12,4,1.10\n"
      "st2,se 3,im*,,0.00,100000.0,5,2,13,5,2.0\n",
      {"--columns", "n", "price", "x", "exp", "id", "zip", "q", "version", "--key", "{Image}"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(field(dir_ / "out-0.tar", "im_1.json"),
            R"({"n":-3,"price":1.5,"x":0.1,"exp":"12e5","id":"12345678901234567890123",)"
            R"("zip":"007","q":"3","version":"1.1"})");
  EXPECT_EQ(field(dir_ / "out-0.tar", "im_2.json"),
            R"({"n":18446744073709551615,"price":12.25,"x":1e-05,"exp":"1200e3","id":"1",)"
            R"("zip":"12","q":"4","version":"1.10"})");
  EXPECT_EQ(field(dir_ / "out-0.tar", "im*.json"),
            R"({"n":"","price":0.0,"x":100000.0,"exp":"5","id":"2","zip":"13","q":"5",)"
            R"("version":"2.0"})");
}

TEST_F(CreateFromCsv, WildCardsMatchWithinANameFromBothEnds) {
  for (const char* name : {"x-1-a.jpg", "x-11-a.jpg", "y-1-a.jpg", ".x-1-a.jpg", "x-[1]-a.jpg"})
    write_file(dir_ / ("in/" + std::string(name)), name);
  write_file(dir_ / "t.csv", "n,head,tail\n0,x-1-,a\n1,x-1,1-a\n2,y,\n3,x-[,]-a\n4,,x-1-a\n");
  const auto made =
      create(dir_, {"--from-csv", "t.csv", "--path", "i?/{head}*{tail}.jpg", "--key", "{n}"});
  ASSERT_EQ(made.status, 0) << made.err;
  const std::vector<std::string> expected = {"x-1-a.jpg", "x-11-a.jpg", "y-1-a.jpg", "x-[1]-a.jpg",
                                             "x-1-a.jpg"};
  for (std::size_t row = 0; row < expected.size(); ++row)
    EXPECT_EQ(field(dir_ / "out-0.tar", std::to_string(row) + ".jpg"), expected[row]);
}

TEST_F(CreateFromCsv, TheKeyIsTheFilesPathByDefault) {
  ASSERT_EQ(create_table("Study,Series,Image\nst1,se1,im.2\n").status, 0);
  EXPECT_THAT(keys_of(dir_ / "out-0.tar"), ElementsAre("st1/se1/002_im_2"));
}

TEST_F(CreateFromCsv, ClassNamesAreNumberedInOrderAndListed) {
  ASSERT_EQ(create_table("Study,Series,Image,what\nst1,se1,im.1,wolf\nst1,se1,im.2,ant\n",
                         {"--class", "what"})
                .status,
            0);
  EXPECT_EQ(field(dir_ / "out-0.tar", "st1/se1/001_im_1.cls"), "1");
  EXPECT_EQ(field(dir_ / "out-0.tar", "st1/se1/002_im_2.cls"), "0");
  EXPECT_EQ(read_file(dir_ / "out-classes.txt"), "ant\nwolf\n");
}

TEST_F(CreateFromCsv, ClassNumbersStayAsTheyAre) {
  ASSERT_EQ(
      create_table("Study,Series,Image,what\nst1,se1,im.1,7\nst1,se1,im.2,3\n", {"--class", "what"})
          .status,
      0);
  EXPECT_EQ(field(dir_ / "out-0.tar", "st1/se1/001_im_1.cls"), "7");
  EXPECT_THAT(list_dir(dir_.path().string()), ::testing::Not(Contains("out-classes.txt")));
}

TEST_F(CreateFromCsv, DifferentTextsAreNotOneClass) {
  const std::string head = "Study,Series,Image,what\n";
  for (const auto& [one, other] : {std::pair("01", "1"), std::pair("1", "1.0"),
                                   std::pair(" cat", "cat"), std::pair("cat", "cat ")}) {
    const auto made = create_table(head + "st1,se1,im.1," + one + "\nst1,se1,im.2," + other + "\n",
                                   {"--class", "what"});
    EXPECT_EQ(made.status, 1);
    EXPECT_THAT(made.err, HasSubstr(fmt::format("'{}' and '{}' would be one class", one, other)));
  }
  EXPECT_EQ(create_table(head + "st1,se1,im.1, 1\nst1,se1,im.2, 1\nst2,se 3,im*,02\n",
                         {"--class", "what"})
                .status,
            0);
}

struct BadTable {
  std::string what;
  std::string table;
  std::vector<std::string> more;
  int status;
  std::string says;
};

void PrintTo(const BadTable& table, std::ostream* os) { *os << table.what; }

class CreateFromBadCsv : public CreateFromCsv, public ::testing::WithParamInterface<BadTable> {};

TEST_P(CreateFromBadCsv, IsRefusedByFileAndLineAndNothingIsMade) {
  const auto result = create_table(GetParam().table, GetParam().more);
  EXPECT_EQ(result.status, GetParam().status) << result.err;
  EXPECT_THAT(result.err, HasSubstr(GetParam().says));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_THAT(list_dir(dir_.path().string()), ElementsAre("st1", "st2", "t.csv"));
}

const std::string kHead = "Study,Series,Image,a\n";

INSTANTIATE_TEST_SUITE_P(
    Create, CreateFromBadCsv,
    ::testing::Values(
        BadTable{"NoFile", kHead + "st1,se1,im.1,0\nst1,se1,im.9,0\n", {}, 1, "t.csv line 3"},
        BadTable{"TwoFiles", kHead + "st1,se1,,0\n", {}, 1, "t.csv line 2: 2 files match"},
        BadTable{"TooFewFields", kHead + "st1,se1,im.1\n", {}, 1, "line 2: 3 fields, but 4"},
        BadTable{"OpenQuote",
                 kHead + "st1,se1,im.1,\"0\n",
                 {},
                 1,
                 "line 2: an unterminated quoted field"},
        BadTable{"TextBehindQuote", kHead + "\"st1\"x,se1,im.1,0\n", {}, 1, "closing quote"},
        BadTable{"NoNumber",
                 kHead + "st1,se1,im.1,much\n",
                 {"--labels", "a"},
                 1,
                 "t.csv line 2: column a: 'much' is not a number"},
        BadTable{"NoClass", kHead + "st1,se1,im.1,\n", {"--class", "a"}, 1, "line 2: no class"},
        BadTable{"NoGroup", kHead + "st1,se1,im.1,\n", {"--group-by", "a"}, 1, "line 2: no a"},
        BadTable{"OneKeyTwice",
                 kHead + "st1,se1,im.1,0\nst1,se1,im.2,0\n",
                 {"--key", "{Study}"},
                 2,
                 "t.csv line 2 and t.csv line 3"},
        BadTable{"UnknownColumn",
                 kHead + "st1,se1,im.1,0\n",
                 {"--labels", "b"},
                 2,
                 "no column 'b': it has Study, Series, Image, a"},
        BadTable{"NoRows", kHead, {}, 1, "without rows"},
        BadTable{"NotUtf8", kHead + "st1,se1,im.1,\xFF\n", {"--columns", "a"}, 1, "UTF-8"},
        BadTable{"Empty", "", {}, 1, "no header"}),
    [](const auto& table) { return table.param.what; });

TEST(CreateFromList, TakesPathsAndLabels) {
  const TempDir dir;
  write_file(dir / "in/a b.jpg", "a b");
  write_file(dir / "in/c.v1.PNG", "c");
  write_file(dir / "list.txt", "a b.jpg\tzebra\r\n\nc.v1.PNG  ant\n");
  const auto made = create(dir, {"--from-list", "list.txt", "--root", "in"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(keys_of(dir / "out-0.tar"), ElementsAre("a b", "c_v1"));
  EXPECT_EQ(field(dir / "out-0.tar", "a b.cls"), "1");
  EXPECT_EQ(field(dir / "out-0.tar", "c_v1.png"), "c");
  EXPECT_EQ(read_file(dir / "out-classes.txt"), "ant\nzebra\n");
}

TEST(CreateFromList, DifferentTextsAreNotOneClass) {
  const TempDir dir;
  for (const char* name : {"a.jpg", "b.jpg"}) write_file(dir / name, name);
  write_file(dir / "t.txt", "a.jpg\t01\nb.jpg\t1\n");
  EXPECT_THAT(create(dir, {"--from-list", "t.txt"}).err,
              AllOf(HasSubstr("'01' and '1' would be one class"), HasSubstr("t.txt")));
}

TEST(CreateFromList, SaysWhichLineIsWrong) {
  const TempDir dir;
  write_file(dir / "a.jpg", "a");
  const auto create_list = [&](const std::string& list) {
    write_file(dir / "list.txt", list);
    return create(dir, {"--from-list", "list.txt"});
  };
  EXPECT_THAT(create_list("a.jpg 1\nnone.jpg 2\n").err, HasSubstr("list.txt line 2: no file"));
  EXPECT_THAT(create_list("a.jpg 1\n./a.jpg\n").err, HasSubstr("list.txt line 2: some lines"));
  EXPECT_THAT(create_list("a.jpg 1\n./a.jpg 2\n").err, HasSubstr("list.txt line 1 and list.txt"));
  EXPECT_EQ(list_dir(dir.path().string()).size(), 2U);
}

// The name is "cafe" with an accent as ISO 8859-1 writes it.
TEST(CreateKeys, ANameThatIsNotUtf8IsNamed) {
  const TempDir dir;
  write_file(dir / "in/caf\xE9.jpg", "x");
  const auto folder = create(dir, {"--from-folder", "in"});
  EXPECT_EQ(folder.status, 2);
  EXPECT_THAT(folder.err, AllOf(HasSubstr("in/caf\\xE9.jpg"), HasSubstr("not UTF-8")));
  write_file(dir / "list.txt", "caf\xE9.jpg\n");
  const auto list = create(dir, {"--from-list", "list.txt", "--root", "in"});
  EXPECT_EQ(list.status, 2);
  EXPECT_THAT(list.err, AllOf(HasSubstr("list.txt line 1"), HasSubstr("not UTF-8")));
  EXPECT_THAT(list_dir(dir.path().string()), ElementsAre("in", "list.txt"));
}

TEST(CreateFromFolder, PairsFilesByTheirNames) {
  const TempDir dir;
  write_file(dir / "images/a.v1.jpg", "image a");
  write_file(dir / "images/b.JPG", "image b");
  write_file(dir / "labels/a.v1.png", "mask a");
  write_file(dir / "labels/b.PNG", "mask b");
  write_file(dir / "labels/unused.png", "mask of nothing");
  write_file(dir / "depth/a.v1.npy", "depth a");
  write_file(dir / "depth/b.npy", "depth b");
  const auto made = create(
      dir, {"--from-folder", "images", "--pair", "mask=labels", "--pair", "far.depth=depth"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(made.err, HasSubstr("1 file of labels left out"));
  EXPECT_THAT(keys_of(dir / "out-0.tar"), ElementsAre("a_v1", "b"));
  EXPECT_EQ(field(dir / "out-0.tar", "a_v1.mask.png"), "mask a");
  EXPECT_EQ(field(dir / "out-0.tar", "b.mask.png"), "mask b");
  EXPECT_EQ(field(dir / "out-0.tar", "b.far.depth.npy"), "depth b");
}

TEST(CreateFromFolder, PairsBelowClassFoldersToo) {
  const TempDir dir;
  write_file(dir / "images/cat/1.ppm", "image 1");
  write_file(dir / "images/dog/1.ppm", "image 2");
  write_file(dir / "labels/cat/1.png", "mask 1");
  write_file(dir / "labels/dog/1.png", "mask 2");
  ASSERT_EQ(create(dir, {"--from-folder", "images", "--pair", "mask=labels"}).status, 0);
  EXPECT_EQ(field(dir / "out-0.tar", "dog/1.mask.png"), "mask 2");
  EXPECT_EQ(field(dir / "out-0.tar", "dog/1.cls"), "1");
}

/// The same where a folder may not be listed.
ProcessResult create_denied(const TempDir& dir, const std::string& folder,
                            std::vector<std::string> words) {
  words.insert(words.begin(), {"create", "out-%d.tar"});
  return millrace(words, {.environment = {{"LD_PRELOAD", MILLRACE_FAULTY_DISK},
                                          {"MILLRACE_TEST_DISK", folder},
                                          {"ASAN_OPTIONS", "verify_asan_link_order=0"}},
                          .folder = dir.path().string()});
}

TEST(CreateFromFolder, APipeIsNamedAndNotWaitedFor) {
  const TempDir dir;
  write_file(dir / "in/a.jpg", "a");
  std::filesystem::create_symlink("a.jpg", dir / "in/b.jpg");
  ASSERT_EQ(create(dir, {"--from-folder", "in"}).status, 0);
  ASSERT_EQ(::mkfifo((dir / "in/c.jpg").c_str(), 0600), 0);
  const ProcessResult made = create(dir, {"--from-folder", "in", "--force"});
  EXPECT_EQ(made.status, 2);
  EXPECT_THAT(made.err, AllOf(HasSubstr("in/c.jpg"), HasSubstr("no regular file")));
}

TEST(CreateFromFolder, WhatIsLeftOutIsNamed) {
  const TempDir dir;
  for (const char* name : {"x/a.jpg", "x/b.txt", "y/c.jpg", "y/d.csv"})
    write_file(dir / ("in/" + std::string(name)), name);
  EXPECT_THAT(create(dir, {"--from-folder", "in"}).err,
              HasSubstr("2 files left out: not an image by its suffix: in/x/b.txt, ..."));
}

TEST(CreateFromFolder, AFolderThatMayNotBeListedIsNamedAndNothingIsMade) {
  const TempDir dir;
  for (const char* name : {"in/a/x/1.jpg", "in/b/2.jpg", "masks/a/x/1.png", "masks/b/2.png"})
    write_file(dir / name, name);
  const std::vector<std::string> plain = {"--from-folder", "in"};
  const auto denied = create_denied(dir, "deny:in/a/x", plain);
  EXPECT_EQ(denied.status, 1);
  EXPECT_THAT(denied.err, AllOf(HasSubstr("list in/a/x: Permission denied"),
                                HasSubstr("would be missing: make it readable")));
  std::string said;
  for (int nth = 5; nth < 20 && said.find("list masks/") == said.npos; ++nth)
    said = create_denied(dir, fmt::format("list:{}", nth),
                         {"--from-folder", "in", "--pair", "mask=masks"})
               .err;
  EXPECT_THAT(said, HasSubstr("list masks/")) << "a folder below the one that is paired";
  EXPECT_THAT(list_dir(dir.path().string()), ElementsAre("in", "masks"));
}

// More files than one thread asks for at once; links are what they lead to.
TEST(CreateFromFolder, WhatChangedOfManyFilesIsNoticedByTheNextRun) {
  const TempDir dir;
  constexpr int kFiles = 700;
  for (int i = 0; i < kFiles; ++i) write_file(dir / fmt::format("real/{:03}.jpg", i), "x");
  std::filesystem::create_directory(dir / "in");
  std::filesystem::create_directory_symlink(dir / "real", dir / "in/cat");
  const std::vector<std::string> words = {"--from-folder", "in", "--maxcount", "300"};
  ASSERT_EQ(create_denied(dir, "rename:4", words).status, 128 + SIGKILL);
  write_file(dir / "real/650.jpg", "another size");
  const auto other = create(dir, words);
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(other.err, HasSubstr("of other options or inputs"));
  write_file(dir / "real/650.jpg", "x");
  auto forced = words;
  forced.push_back("--force");
  ASSERT_EQ(create(dir, forced).status, 0);
  EXPECT_EQ(keys_of(dir / "out-2.tar").back(), "cat/699");
}

TEST(CreateFromFolder, AMissingPairIsNamedAndNothingIsMade) {
  const TempDir dir;
  write_file(dir / "images/a.jpg", "image a");
  write_file(dir / "images/b.jpg", "image b");
  write_file(dir / "labels/a.png", "mask a");
  const std::vector<std::string> words = {"--from-folder", "images", "--pair", "mask=labels"};
  const auto missing = create(dir, words);
  EXPECT_EQ(missing.status, 1);
  EXPECT_THAT(missing.err, HasSubstr("images/b.jpg has no mask: no file is labels/b.*"));
  write_file(dir / "labels/b.png", "mask b");
  write_file(dir / "labels/b.txt", "what is this");
  const auto twice = create(dir, words);
  EXPECT_EQ(twice.status, 2);
  EXPECT_THAT(twice.err, AllOf(HasSubstr("labels/b.png"), HasSubstr("labels/b.txt")));
  EXPECT_THAT(list_dir(dir.path().string()), ElementsAre("images", "labels"));
}

// train accepts what create writes: a bitmap's black is 0 and its white 255.
TEST(CreateFromFolder, EverySuffixThatItTakesTrains) {
  const TempDir dir;
  const std::string bitmap = std::string("P4\n16 16\n") + std::string(32, '\x5a');
  const std::string grey = std::string("P5\n16 16\n255\n") + std::string(256, 'g');
  write_file(dir / "in/0/a.pbm", bitmap);
  write_file(dir / "in/1/b.pgm", grey);
  write_file(dir / "in/1/c.pnm", grey);
  ASSERT_EQ(create(dir, {"--from-folder", "in"}).status, 0);
  const auto trained = millrace({"train", "--train", dir / "out-0.tar", "--model", "lenet",
                                 "--channels", "1", "--size", "16", "--classes", "2", "--epochs",
                                 "1", "--batch-size", "3", "--run-dir", "none", "--json"});
  EXPECT_EQ(trained.status, 0) << trained.err;
  const auto resized = create(dir, {"--from-folder", "in", "--resize", "8", "--force"});
  EXPECT_EQ(resized.status, 0) << resized.err;
}

/// A record of CIFAR's: the labels, then the red, green and blue planes, each of one value.
std::string record(const std::string& labels, const std::string& colour) {
  std::string text = labels;
  for (const char value : colour) text += std::string(1024, value);
  return text;
}

class CreateFromCifar : public ::testing::Test {
 protected:
  ProcessResult create_from(std::vector<std::string> words) {
    words.insert(words.begin(), "--from-cifar");
    return create(dir_, words);
  }
  TempDir dir_;
};

TEST_F(CreateFromCifar, TakesCifar10AndItsClassNames) {
  write_file(dir_ / "one.bin", record("\x03", "abc") + record(std::string(1, '\0'), "def"));
  write_file(dir_ / "two.bin", record("\x09", "ghi"));
  write_file(dir_ / "batches.meta.txt", "n0\nn1\nn2\nn3\nn4\nn5\nn6\nn7\nn8\nn9\n\n");
  const auto made = create_from({"one.bin", "two.bin", "--format", "ppm"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_THAT(keys_of(dir_ / "out-0.tar"), ElementsAre("00000000", "00000001", "00000002"));
  EXPECT_EQ(field(dir_ / "out-0.tar", "00000000.cls"), "3");
  EXPECT_EQ(field(dir_ / "out-0.tar", "00000002.cls"), "9");
  const std::string ppm = field(dir_ / "out-0.tar", "00000001.ppm");
  EXPECT_EQ(ppm.substr(ppm.size() - 3), "def");
  EXPECT_EQ(ppm.size(), std::string("P6\n32 32\n255\n").size() + 3072);
  EXPECT_EQ(read_file(dir_ / "out-classes.txt"), "n0\nn1\nn2\nn3\nn4\nn5\nn6\nn7\nn8\nn9\n");
}

TEST_F(CreateFromCifar, TakesCifar100sFineAndCoarseLabels) {
  write_file(dir_ / "train.bin", record("\x13\x63", "abc") + record("\x01\x02", "def"));
  const auto made = create_from({"train.bin"});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(field(dir_ / "out-0.tar", "00000000.cls"), "99");
  EXPECT_EQ(field(dir_ / "out-0.tar", "00000000.coarse.cls"), "19");
}

TEST_F(CreateFromCifar, OtherFilesAreRefusedWithNameAndOffset) {
  write_file(dir_ / "cut.bin", record("\x03", "abc").substr(0, 3000));
  write_file(dir_ / "bad.bin", record("\x03", "abc") + record("\x0a", "abc"));
  write_file(dir_ / "ten.bin", record("\x03", "abc"));
  write_file(dir_ / "hundred.bin", record("\x03\x03", "abc"));
  EXPECT_THAT(create_from({"cut.bin"}).err, AllOf(HasSubstr("cut.bin"), HasSubstr("3000 bytes")));
  EXPECT_THAT(create_from({"bad.bin"}).err,
              AllOf(HasSubstr("bad.bin"), HasSubstr("record 1"), HasSubstr("offset 3073")));
  EXPECT_THAT(create_from({"ten.bin", "hundred.bin"}).err,
              AllOf(HasSubstr("hundred.bin"), HasSubstr("CIFAR-100 among those of CIFAR-10")));
  EXPECT_EQ(list_dir(dir_.path().string()).size(), 4U);
}

/// The groups of the samples in a set, from their JSON.
std::multiset<std::string> groups_in(const std::string& spec, const std::string& name) {
  std::multiset<std::string> groups;
  for (const auto& sample : list_samples(spec)) {
    const std::string key = sample["key"];
    const auto json = nlohmann::json::parse(field(spec, key + ".json"));
    groups.insert(json[name].get<std::string>());
  }
  return groups;
}

TEST(CreateFolds, NoGroupIsInTwoFoldsAndFoldsAreBalanced) {
  const TempDir dir;
  std::vector<std::string> patients;
  for (const int rows : {6, 5, 4, 3, 2, 1, 1, 1, 1}) {
    const std::string name = "p" + std::to_string(patients.size());
    patients.insert(patients.end(), static_cast<std::size_t>(rows), name);
  }
  std::string table = "patient,file\n";
  for (std::size_t i = 0; i < patients.size(); ++i) {
    const std::string file = std::to_string(i) + ".jpg";
    write_file(dir / file, file);
    table += patients[i * 5 % patients.size()] + "," + file + "\n";  // a patient's rows are apart
  }
  write_file(dir / "t.csv", table);
  const auto made = millrace(
      {"create", "out/fold{fold}/s-%d.tar", "--from-csv", "t.csv", "--path", "{file}", "--group-by",
       "patient", "--folds", "3", "--maxcount", "5", "--shuffle", "3", "--json"},
      {.folder = dir.path().string()});
  ASSERT_EQ(made.status, 0) << made.err;
  EXPECT_EQ(json_lines(made.out).size(), 6U);
  std::map<std::string, int> fold_of;
  std::size_t samples = 0;
  for (int fold = 0; fold < 3; ++fold) {
    const auto groups = groups_in(dir / ("out/fold" + std::to_string(fold)), "group");
    EXPECT_EQ(groups.size(), 8U) << fold;
    samples += groups.size();
    for (const std::string& group : groups)
      EXPECT_EQ(fold_of.emplace(group, fold).first->second, fold) << group << " is torn apart";
  }
  EXPECT_EQ(samples, 24U);
  EXPECT_EQ(fold_of.size(), 9U);
}

TEST(CreateFolds, WithoutGroupsTheyDifferByOneSampleAtMost) {
  const TempDir dir;
  const auto made = millrace({"create", dir / "s{fold}-%d.tar", "--synthetic", "classes", "--count",
                              "11", "--folds", "4"});
  ASSERT_EQ(made.status, 0) << made.err;
  std::multiset<std::size_t> sizes;
  std::set<std::string> keys;
  for (const char* fold : {"0", "1", "2", "3"}) {
    const auto here = keys_of(dir / ("s" + std::string(fold) + "-0.tar"));
    sizes.insert(here.size());
    keys.insert(here.begin(), here.end());
  }
  EXPECT_THAT(sizes, ElementsAre(2U, 3U, 3U, 3U));
  EXPECT_EQ(keys.size(), 11U);
  EXPECT_THAT(list_dir(dir.path().string()), Contains("s2-manifest.json"));
}

TEST(CreateSyntheticMultilabel, PatientsStayTogether) {
  const TempDir dir;
  const auto made =
      millrace({"create", dir / "f{fold}-%d.tar", "--synthetic", "multilabel", "--count", "56",
                "--classes", "6", "--folds", "2", "--group-by", "patient"});
  ASSERT_EQ(made.status, 0) << made.err;
  const auto first = groups_in(dir / "f0-0.tar", "patient");
  const auto second = groups_in(dir / "f1-0.tar", "patient");
  EXPECT_EQ(first.size(), 28U);
  EXPECT_EQ(second.size(), 28U);
  for (const std::string& patient : first) EXPECT_FALSE(second.contains(patient)) << patient;
}

TEST(CreateSyntheticMultilabel, HasAsManyLabelsAsAsked) {
  const TempDir dir;
  ASSERT_EQ(create(dir, {"--synthetic", "multilabel", "--count", "40", "--classes", "5"}).status,
            0);
  std::set<int> seen;
  int ones = 0;
  for (const auto& sample : list_samples(dir / "out-0.tar")) {
    const std::string key = sample["key"];
    const auto json = nlohmann::json::parse(field(dir / "out-0.tar", key + ".json"));
    EXPECT_TRUE(key.starts_with(json["patient"].get<std::string>() + "/")) << key;
    ASSERT_EQ(json["labels"].size(), 5U);
    for (const int label : json["labels"]) {
      seen.insert(label);
      ones += label;
    }
  }
  EXPECT_THAT(seen, ElementsAre(0, 1));
  EXPECT_GT(ones, 40);
  EXPECT_LT(ones, 160);
}

TEST(CreateSyntheticScenes, MaskAndDepthBelongToThePicture) {
  const std::string python = oracle_python("numpy, PIL");
  if (python.empty()) GTEST_SKIP() << "no Python with numpy and PIL";
  const TempDir dir;
  ASSERT_EQ(create(dir, {"--synthetic", "scenes", "--count", "12", "--size", "48"}).status, 0);
  const auto looked = run_process({python, "-c", R"(
import sys, tarfile, io, numpy as np
from PIL import Image
tar = tarfile.open(sys.argv[1])
get = lambda name: Image.open(io.BytesIO(tar.extractfile(name).read()))
for i in range(12):
    image, mask, depth = (get(f'{i:08d}.{s}') for s in ('png', 'mask.png', 'depth.png'))
    assert image.mode == 'RGB' and mask.mode == 'L' and depth.mode == 'L', (image, mask, depth)
    assert image.size == mask.size == depth.size == (48, 48)
    mask, depth = np.array(mask), np.array(depth)
    assert set(np.unique(mask)) == {0, 1}
    assert depth[mask == 1].min() >= 127 >= depth[mask == 0].max()
print('ok')
)",
                                   dir / "out-0.tar"});
  EXPECT_EQ(looked.out, "ok\n") << looked.err;
}

/// Height and width by a PPM's or PNG's header.
std::pair<int, int> size_of(const std::string& image) {
  if (image.starts_with("P6")) {
    int width = 0;
    int height = 0;
    EXPECT_EQ(std::sscanf(image.c_str(), "P6 %d %d", &width, &height), 2);
    return {height, width};
  }
  const auto number = [&](std::size_t at) {
    return (static_cast<unsigned char>(image[at + 2]) << 8) +
           static_cast<unsigned char>(image[at + 3]);
  };
  EXPECT_TRUE(image.starts_with("\x89PNG"));
  return {number(20), number(16)};
}

std::string ppm(int width, int height) {
  std::string text = "P6\n" + std::to_string(width) + " " + std::to_string(height) + "\n255\n";
  for (int i = 0; i < width * height * 3; ++i) text.push_back(static_cast<char>(i % 251));
  return text;
}

class CreateRecoding : public ::testing::Test {
 protected:
  CreateRecoding() { write_file(dir_ / "in/a.ppm", ppm(40, 20)); }
  /// The image that `words` produce from a picture 20 high and 40 wide.
  std::string made(const std::vector<std::string>& more, const std::string& member) {
    std::vector<std::string> words = {"--from-folder", "in", "--force"};
    words.insert(words.end(), more.begin(), more.end());
    const auto result = create(dir_, words);
    EXPECT_EQ(result.status, 0) << result.err;
    return field(dir_ / "out-0.tar", member);
  }
  TempDir dir_;
};

TEST_F(CreateRecoding, WithoutOptionsBytesPassUnchanged) {
  EXPECT_EQ(made({}, "a.ppm"), ppm(40, 20));
}

TEST_F(CreateRecoding, ChangesSizeAndFormat) {
  EXPECT_EQ(size_of(made({"--resize", "10"}, "a.ppm")), (std::pair{10, 20}));
  EXPECT_EQ(size_of(made({"--resize", "8x30", "--format", "png"}, "a.png")), (std::pair{8, 30}));
  EXPECT_EQ(made({"--format", "ppm"}, "a.ppm"), ppm(40, 20)) << "decoded and encoded again";
  const std::string fine = made({"--format", "jpg", "--quality", "95"}, "a.jpg");
  const std::string coarse = made({"--format", "jpg", "--quality", "20"}, "a.jpg");
  EXPECT_TRUE(fine.starts_with("\xFF\xD8"));
  EXPECT_LT(coarse.size(), fine.size());
}

// Depths of 16 bits became 8 in silence.
TEST_F(CreateRecoding, RefusesToCutLevelsOf16Bits) {
  const std::string deep = "P5 2 1 65535\n" + std::string("\x12\x34\x56\x78", 4);
  write_file(dir_ / "in/deep.pgm", deep);
  EXPECT_EQ(made({}, "deep.pgm"), deep);
  for (const std::vector<std::string>& how :
       {std::vector<std::string>{"--format", "png"}, {"--resize", "1"}}) {
    std::vector<std::string> words = {"--from-folder", "in", "--force"};
    words.insert(words.end(), how.begin(), how.end());
    const ProcessResult result = create(dir_, words);
    EXPECT_EQ(result.status, 1) << how.front();
    EXPECT_THAT(result.err, AllOf(HasSubstr("in/deep.pgm"), HasSubstr("16 bits"))) << how.front();
  }
}

TEST_F(CreateRecoding, WhatCannotBeDecodedIsAFaultThatNamesTheFile) {
  write_file(dir_ / "in/b.jpg", "no picture");
  const auto result = create(dir_, {"--from-folder", "in", "--format", "png"});
  EXPECT_EQ(result.status, 1);
  EXPECT_THAT(result.err, HasSubstr("in/b.jpg"));
}

// A table from elsewhere must not make a shard of what else can be read here.
TEST(CreateOutside, FilesOutsideTheFolderAreRefusedUnlessAllowed) {
  const TempDir dir;
  namespace fs = std::filesystem;
  for (const char* folder : {"data/in", "other"}) fs::create_directories(dir / folder);
  write_file(dir / "data/in/a.jpg", "A");
  write_file(dir / "other/secret.jpg", "secret");
  fs::create_symlink("a.jpg", dir / "data/in/near.jpg");
  fs::create_symlink("../../other/secret.jpg", dir / "data/in/far.jpg");
  fs::create_directory_symlink("../other", dir / "data/folder");
  fs::create_directory_symlink("data", dir / "link");
  const auto made = [&](const std::string& table, const std::string& path,
                        const std::vector<std::string>& more = {}) {
    const bool is_list = table.ends_with(".txt");
    write_file(dir / table, (is_list ? "" : "file\n") + path + "\n");
    std::vector<std::string> words = {"create", dir / "out/s-%06d.tar", "--force"};
    if (is_list)
      words.insert(words.end(), {"--from-list", dir / table});
    else
      words.insert(words.end(), {"--from-csv", dir / table, "--path", "{file}"});
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  };
  for (const std::string table : {"data/t.csv", "data/t.txt", "link/t.csv", "link/t.txt"}) {
    for (const std::string path : {"in/a.jpg", "in/near.jpg", "in/../in/a.jpg"})
      EXPECT_EQ(made(table, path).status, 0) << table << " " << path;
    for (const std::string& path : {std::string("../other/secret.jpg"), std::string("in/far.jpg"),
                                    std::string("folder/secret.jpg"), dir / "other/secret.jpg"}) {
      fs::remove_all(dir / "out");
      const ProcessResult refused = made(table, path);
      EXPECT_EQ(refused.status, 2) << table << " " << path << ": " << refused.err;
      EXPECT_THAT(refused.err, HasSubstr("--allow-outside"));
      EXPECT_THAT(refused.err, HasSubstr(table.substr(5)));
      EXPECT_FALSE(fs::exists(dir / "out/s-000000.tar"));
      EXPECT_EQ(made(table, path, {"--allow-outside"}).status, 0) << path;
      EXPECT_EQ(made(table, path == dir / "other/secret.jpg" ? path : "data/" + path,
                     {"--root", dir.path().string()})
                    .status,
                0)
          << "the root that is named is the user's word";
    }
  }
  EXPECT_EQ(millrace({"create", dir / "x-%06d.tar", "--synthetic", "classes", "--count", "2",
                      "--allow-outside"})
                .status,
            2);
}

}  // namespace
}  // namespace millrace::testing
