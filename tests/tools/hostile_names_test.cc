// Names from outside (keys, classes, files) in what the program prints, and errors' codes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using Words = std::vector<std::string>;

bool is_harmless(const std::string& text) {
  return std::ranges::none_of(text, [](char byte) {
    return (static_cast<unsigned char>(byte) < 0x20 && byte != '\n' && byte != '\t') ||
           byte == 0x7F;
  });
}

class HostileNames : public ::testing::Test {
 protected:
  const TempDir dir_;
};

TEST_F(HostileNames, KeysAreListedEscapedOnOneLine) {
  const std::string key = "a\x1b[31m\nb\x7f";
  write_file(dir_ / "s.tar",
             TarBuilder().file(key + ".cls", "0").file("plain.cls", "1").end().bytes());
  for (const std::string command : {"ls", "order", "verify", "stats", "index"}) {
    const auto run = millrace({command, dir_ / "s.tar"});
    EXPECT_EQ(run.status, 0) << command << run.err;
    EXPECT_TRUE(is_harmless(run.out + run.err)) << command << run.out << run.err;
  }
  const std::string listed = millrace({"ls", dir_ / "s.tar"}).out;
  EXPECT_NE(listed.find("  a\\u001b[31m\\nb\\u007f  cls 1\n"), listed.npos) << listed;
  EXPECT_EQ(json_lines(millrace({"ls", dir_ / "s.tar", "--json"}).out).front()["key"], key);
  EXPECT_EQ(lines_of(millrace({"order", dir_ / "s.tar"}).out).size(), 2U);
}

// "photo\u202egpj.exe" reads as "photoexe.jpg".
TEST_F(HostileNames, WhatTurnsTheDirectionIsShown) {
  write_file(dir_ / "s.tar", TarBuilder().file("a\u202ecba.cls", "0").end().bytes());
  EXPECT_NE(millrace({"ls", dir_ / "s.tar"}).out.find("a\\u202ecba"), std::string::npos);
  write_file(dir_ / "run/metrics.jsonl", "");
  write_file(dir_ / "run/config.json", "{\"options\":{\"a\":\"b\u202ec\"}}");
  ASSERT_EQ(millrace({"report", dir_ / "run", "-o", dir_ / "page.html"}).status, 0);
  const std::string page = read_file(dir_ / "page.html");
  EXPECT_EQ(page.find("\u202e"), page.npos);
  EXPECT_NE(page.find("b\uFFFDc"), page.npos);
}

TEST_F(HostileNames, ClassNamesAreShownEscaped) {
  write_file(dir_ / "s.tar", TarBuilder().file("a.cls", "0").file("b.cls", "1").end().bytes());
  write_file(dir_ / "s-classes.txt", "red\x1b[31m\ncaf\xe9\n");
  const std::string text = millrace({"stats", dir_ / "s.tar"}).out;
  EXPECT_TRUE(is_harmless(text)) << text;
  EXPECT_NE(text.find("red\\x1b[31m"), text.npos) << text;
  const auto json = millrace({"stats", dir_ / "s.tar", "--json"});
  ASSERT_EQ(json.status, 0) << json.err;
  EXPECT_EQ(json_lines(json.out).front()["classes"][1]["name"], "caf\\xe9");
}

TEST_F(HostileNames, AClassNameInLatin1IsRefused) {
  write_file(dir_ / "a.ppm", "P6 1 1 255\nabc");
  write_file(dir_ / "t.csv", "path,label\na.ppm,caf\xe9\n");
  const auto made = millrace({"create", dir_ / "o-%d.tar", "--from-csv", dir_ / "t.csv", "--path",
                              "{path}", "--class", "label"});
  EXPECT_NE(made.status, 0);
  EXPECT_NE(made.err.find("the class name 'caf\\xe9' is not UTF-8"), made.err.npos) << made.err;
}

// A line break in a name would give every later class the name of the one before it.
TEST_F(HostileNames, AClassNameOfSeveralLinesIsRefusedAndNothingIsMade) {
  std::filesystem::create_directories(dir_ / "in/b\nzz");
  std::filesystem::create_directories(dir_ / "in/c");
  write_file(dir_ / "in/b\nzz/1.ppm", "P6 1 1 255\nabc");
  write_file(dir_ / "in/c/2.ppm", "P6 1 1 255\nabc");
  write_file(dir_ / "in.json",
             R"({"categories":[{"id":1,"name":"x\ny"},{"id":2,"name":"z"}],"annotations":[],)"
             R"("images":[{"id":1,"file_name":"c/2.ppm"}]})");
  const auto is_refused = [&](const Words& from, const std::string& name) {
    Words words = {"create", dir_ / "out/o-%d.tar"};
    words.insert(words.end(), from.begin(), from.end());
    const auto made = millrace(words);
    EXPECT_EQ(made.status, 2) << made.err;
    EXPECT_NE(made.err.find("a class name of several lines, '" + name + "'"), made.err.npos)
        << made.err;
    EXPECT_FALSE(std::filesystem::exists(dir_ / "out"));
  };
  is_refused({"--from-folder", dir_ / "in"}, "b zz");
  is_refused({"--from-json", dir_ / "in.json", "--root", dir_ / "in"}, "x y");
}

TEST_F(HostileNames, AFileMayBeNamedInLatin1) {
  const std::string shard = dir_ / "caf\xe9.tar";
  write_file(shard, TarBuilder().file("a.cls", "0").file("b.cls", "1").end().bytes());
  for (const std::string command : {"ls", "order", "verify", "stats"}) {
    const auto run = millrace({command, shard, "--json"});
    EXPECT_EQ(run.status, 0) << command << run.err;
    EXPECT_FALSE(json_lines(run.out).empty()) << command;
  }
}

class Codes : public ::testing::Test {
 protected:
  ProcessResult train(const std::string& spec, const Words& more) const {
    Words words = {"train", spec,       "--model", "lenet",        "--size",
                   "32",    "--epochs", "1",       "--batch-size", "8"};
    words.insert(words.end(), more.begin(), more.end());
    return millrace(words);
  }
  const TempDir dir_;
  const std::string spec_ = make_set(dir_, 24, 8);
};

TEST_F(Codes, ALabelBeyondTheClassesIsAUsageError) {
  const auto run = train(spec_, {"--classes", "2"});
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_NE(run.err.find("is not one of the 2 classes (url"), run.err.npos) << run.err;
  EXPECT_EQ(run.err.find("Corrupt"), run.err.npos) << run.err;
}

TEST_F(Codes, ALossThatIsNotFiniteIsCalledSo) {
  const auto run = train(spec_, {"--lr", "1e30"});
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_NE(run.err.find("NotFinite: "), run.err.npos) << run.err;
}

TEST_F(Codes, AMemberThatASampleLacksIsNotFound) {
  ASSERT_EQ(train(spec_, {"--run-dir", dir_ / "run"}).status, 0);
  write_file(dir_ / "n.tar", TarBuilder().file("a.ppm", "P6 1 1 255\nabc").end().bytes());
  const auto run =
      millrace({"eval", dir_ / "n.tar", "--checkpoint", dir_ / "run/checkpoints/last"});
  EXPECT_EQ(run.status, 1) << run.err;
  EXPECT_NE(run.err.find("NotFound: the sample has none of the members cls"), run.err.npos)
      << run.err;
}

TEST_F(Codes, ALabelOutOfAllProportionIsNamed) {
  for (const std::string label : {"5000000", "1000000000"}) {
    write_file(dir_ / "l.tar", TarBuilder()
                                   .file("a.ppm", "P6 1 1 255\nabc")
                                   .file("a.cls", "1")
                                   .file("b.ppm", "P6 1 1 255\nabc")
                                   .file("b.cls", label)
                                   .end()
                                   .bytes());
    const auto run = train(dir_ / "l.tar", {});
    EXPECT_EQ(run.status, 2) << run.err;
    EXPECT_NE(run.err.find("label " + label), run.err.npos) << run.err;
    EXPECT_NE(run.err.find("key b"), run.err.npos) << run.err;
    EXPECT_LT(run.peak_bytes, std::size_t{500} << 20) << run.err;
  }
}

TEST_F(Codes, TooManyStreamsAreRefusedAtOnce) {
  const auto run = millrace({"bench", spec_, "--workers", "1000000"});
  EXPECT_EQ(run.status, 2) << run.err;
  EXPECT_NE(run.err.find("65536"), run.err.npos) << run.err;
}

}  // namespace
}  // namespace millrace::testing
