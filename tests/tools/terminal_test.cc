// What commands show on a terminal while they work: lines that fit and are erased, with what is
// done, of how much, and how long it will take; nothing on what is no terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pty.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "tests/support/fake_clock.h"
#include "tests/support/nginx.h"
#include "tests/tools/support.h"
#include "tests/wds/memory_opener.h"
#include "tools/metered_opener.h"
#include "tools/read_share.h"
#include "tools/train/first_batch_line.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class OnATerminal : public ::testing::Test {
 protected:
  nlohmann::json show(int columns, std::vector<std::string> words,
                      const std::string& terminal = "xterm", bool both = false) const {
    words.insert(words.begin(), {std::to_string(columns), MILLRACE_PROGRAM});
    if (both) words.insert(words.begin(), "--both");
    words.insert(words.begin(), {"/usr/bin/python3", "tests/tools/terminal.py"});
    const ProcessResult result = run_process(words, {.environment = {{"TERM", terminal}}});
    EXPECT_EQ(result.status, 0) << result.err;
    return result.status == 0 ? nlohmann::json::parse(result.out) : nlohmann::json();
  }
  std::vector<std::string> train() const {
    return {"train", shards_,     "--val", shards_,    "--model", "lenet",     "--batch-size",
            "4",     "--devices", "2",     "--epochs", "3",       "--run-dir", "none"};
  }

  TempDir dir_;
  std::string shards_ = make_set(dir_, 96, 32);
};

TEST_F(OnATerminal, TrainingFitsAndLeavesNothing) {
  for (const int columns : {60, 80, 200}) {
    const auto shown = show(columns, train());
    EXPECT_EQ(shown["status"], 0);
    EXPECT_GT(shown["drawn"], 1);
    EXPECT_LT(shown["widest"], columns);
    EXPECT_TRUE(shown["erased"]);
    EXPECT_THAT(shown["text"].get<std::string>(), AllOf(HasSubstr("Done"), Not(HasSubstr("\r"))));
    EXPECT_THAT(shown["lines"].get<std::vector<std::string>>(),
                Contains(AllOf(HasSubstr("Epoch"), HasSubstr("/12"), HasSubstr("/s"))));
  }
}

/// Lines of more columns than that, and more than a word.
std::vector<std::string> wider_than(std::size_t columns, const std::string& text) {
  std::vector<std::string> wide = lines_of(text);
  std::erase_if(wide, [&](const std::string& line) {
    const std::size_t word = std::min(line.find_first_not_of(' '), line.size());
    return line.size() <= columns || line.find(' ', word) == std::string::npos;
  });
  return wide;
}

// A terminal would break lines within words.
TEST_F(OnATerminal, LinesOfTheLogAreBrokenBetweenWords) {
  const auto shown = show(60, train());
  const std::string text = shown["text"];
  EXPECT_THAT(wider_than(59, text), ::testing::IsEmpty());
  EXPECT_THAT(text, HasSubstr("\n  "));
  const std::string piped = millrace(train()).err;
  EXPECT_THAT(wider_than(100, piped), Not(::testing::IsEmpty())) << "a log is as it was";
}

TEST_F(OnATerminal, HelpFitsTheWidth) {
  for (const char* command : {"eval", "predict", "verify", "stats", "train"}) {
    const auto shown = show(60, {command, "--help"}, "xterm", true);
    EXPECT_THAT(wider_than(60, shown["text"]), ::testing::IsEmpty()) << command;
  }
  for (const int columns : {48, 60})
    EXPECT_THAT(wider_than(static_cast<std::size_t>(columns),
                           show(columns, {"--help"}, "xterm", true)["text"]),
                ::testing::IsEmpty())
        << columns;
}

TEST_F(OnATerminal, ResultsDoNotStandBesideProgress) {
  const auto shown = show(70, {"index", shards_, "--force"}, "xterm", true);
  EXPECT_EQ(shown["status"], 0);
  EXPECT_GT(shown["drawn"], 0);
  std::istringstream text(shown["text"].get<std::string>());
  int results = 0;
  for (std::string line; std::getline(text, line);) {
    results += line.ends_with("32 samples");
    EXPECT_THAT(line, Not(HasSubstr("% "))) << "progress is left before a result";
  }
  EXPECT_EQ(results, 3) << shown["text"];
}

/// The program's own list.
std::vector<std::string> commands() {
  std::vector<std::string> names;
  std::istringstream help(millrace({"--help"}).out);
  bool listed = false;
  for (std::string line; std::getline(help, line);) {
    if (listed && !line.starts_with("  ")) break;
    if (listed) names.push_back(line.substr(2, line.find(' ', 2) - 2));
    listed = listed || line == "Commands:";
  }
  return names;
}

/// What of a share a line says: "40 %", "12/64".
bool says_how_far(const std::string& line) {
  return std::regex_search(line, std::regex("[0-9]( %|/[0-9]+)"));
}

// A new command has its line here, or is named among those that need none.
TEST_F(OnATerminal, EveryCommandThatWorksForLongSaysHowFarItIs) {
  const std::set<std::string> print_as_they_go = {"ls", "cat"};
  const std::set<std::string> done_at_once = {"report", "plan", "devices", "completion", "man"};
  const std::string run = dir_ / "run";
  const std::string made = dir_ / "made-000000.tar";
  std::filesystem::create_directory(dir_ / "cache");
  std::map<std::string, std::vector<std::string>> words = {
      {"create", {dir_ / "made-%06d.tar", "--synthetic", "classes", "--count", "64"}},
      {"view", {made, "--html", dir_ / "page.html"}},
      {"stats", {made}},
      {"verify", {shards_}},
      {"index", {shards_}},
      {"reshard", {made, dir_ / "new-%06d.tar"}},
      {"order", {made}},
      {"cache", {"verify", dir_ / "cache"}},
      {"bench", {made, "--seconds", "0.3"}},
      {"eval", {shards_, "--checkpoint", run, "--batch-size", "4"}},
      {"predict", {shards_, "--checkpoint", run, "-o", dir_ / "rows.csv"}},
      {"trace", {"merge", dir_ / "t.json", "-o", dir_ / "all.json"}}};
  const auto training = train();
  words["train"] = {training.begin() + 1, training.end() - 1};
  words["train"].insert(words["train"].end(), {run, "--trace", dir_ / "t.json"});
  // Those first that make what the others take.
  std::vector<std::string> names = commands();
  std::ranges::stable_partition(
      names, [](const auto& name) { return name == "create" || name == "train"; });
  ASSERT_THAT(names, Contains("reshard"));
  for (const std::string& name : names) {
    if (print_as_they_go.contains(name) || done_at_once.contains(name)) continue;
    ASSERT_TRUE(words.contains(name)) << name << ": how far it is, is not shown, or not tested";
    std::vector<std::string> line = words[name];
    line.insert(line.begin(), name);
    const auto shown = show(80, line);
    EXPECT_EQ(shown["status"], 0) << name << shown["text"];
    EXPECT_GT(shown["drawn"], 0) << name;
    EXPECT_LT(shown["widest"], 80) << name;
    EXPECT_TRUE(shown["erased"]) << name;
    const auto lines = shown["lines"].get<std::vector<std::string>>();
    EXPECT_TRUE(name == "cache" || std::ranges::any_of(lines, says_how_far))
        << name << shown["lines"];
  }
}

/// Lines that say how far it is, and how long it will take.
bool says_what_is_left(const std::string& line) {
  return std::regex_search(line, std::regex("[0-9] %.*, [0-9:]+ left"));
}

// Neither samples nor shards say how far these are: one shard, of which nothing is known before.
TEST_F(OnATerminal, WhatIsReadFromAfarSaysHowFarACommandIs) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  std::filesystem::create_directory(dir_ / "far");
  ASSERT_EQ(millrace({"create", dir_ / "far/set-%06d.tar", "--synthetic", "classes", "--count",
                      "96", "--size", "48", "--no-index"})
                .status,
            0);
  const auto bytes = std::filesystem::file_size(dir_ / "far/set-000000.tar");
  const Nginx nginx(dir_.path(),
                    {.location_lines = "limit_rate " + std::to_string(bytes / 3) + ";"});
  const std::string far = nginx.url("far/set-000000.tar");
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"verify", far},
        std::vector<std::string>{"reshard", far, dir_ / "new-%06d.tar"}}) {
    const auto shown = show(60, words);
    EXPECT_EQ(shown["status"], 0) << words[0] << shown["text"];
    EXPECT_LT(shown["widest"], 60) << words[0];
    EXPECT_TRUE(shown["erased"]) << words[0];
    const auto lines = shown["lines"].get<std::vector<std::string>>();
    EXPECT_TRUE(std::ranges::any_of(lines, says_what_is_left)) << words[0] << shown["lines"];
  }
}

TEST_F(OnATerminal, ARunSaysThatItSendsItsCheckpoints) {
  if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  std::filesystem::create_directory(dir_ / "sent");
  const Nginx nginx(dir_.path(), {.location_lines = "dav_methods PUT DELETE; "
                                                    "create_full_put_path on; "
                                                    "client_max_body_size 100m;"});
  const auto shown =
      show(80, {"train", nginx.url("set-{000000..000002}.tar"), "--model", "lenet", "--batch-size",
                "4", "--classes", "10", "--run-dir", dir_ / "run", "--upload", nginx.url("sent")});
  EXPECT_EQ(shown["status"], 0) << shown["text"];
  EXPECT_TRUE(shown["erased"]);
  const auto lines = shown["lines"].get<std::vector<std::string>>();
  EXPECT_THAT(lines, Contains(HasSubstr("uploading last")));
  EXPECT_LT(shown["widest"], 80);
}

/// What a terminal was drawn, once nobody draws any more; it comes in as many parts as it likes.
std::string all_shown(int terminal) {
  std::string all;
  std::array<char, 1000> part{};
  for (ssize_t size = 0; (size = ::read(terminal, part.data(), part.size())) > 0;)
    all.append(part.data(), static_cast<std::size_t>(size));
  return all;
}

// A run that continues in mid-epoch knows how many samples fill its shuffle buffer again.
TEST(FirstBatchLine, SaysHowManySamplesAreReadAgain) {
  int shown = -1;
  int drawn = -1;
  ASSERT_EQ(::openpty(&shown, &drawn, nullptr, nullptr, nullptr), 0);
  std::FILE* file = ::fdopen(drawn, "w");
  MemoryOpener memory;
  memory.files = {{"a.tar", "abc"}};
  const auto source = memory.open("a.tar");
  FakeClock clock;
  {
    trainer::TerminalLine terminal(file);
    tools::FirstBatchLine line(&terminal, clock);
    trainer::InputState input;
    input.statistics.samples_to_restore = 5000;
    input.statistics.restored_samples = 1250;
    const tools::FirstBatchLine::Watched watched(line, [&] { return input; });
    line.on_epoch_start(3);
    clock.advance(std::chrono::seconds(10));
    line.hooks().on_read("a.tar", *source, 25'000'000);
    line.on_step_start({});
    clock.advance(std::chrono::seconds(10));
    line.hooks().on_read("a.tar", *source, 1);
  }
  std::fclose(file);
  EXPECT_THAT(
      all_shown(shown),
      ::testing::MatchesRegex(
          "\r.\\[KFilling the shuffle buffer \\[.*\\]  25 % 2.5 MB/s, 0:00:30 left\r.\\[K"));
  ::close(shown);
}

TEST(ReadShare, CountsEachShardByHowFarItWasRead) {
  MemoryOpener memory;
  memory.files = {{"a.tar", std::string(1000, 'a')}, {"b.tar", std::string(10, 'b')}};
  memory.step = 250;
  std::vector<double> told;
  auto reads = std::make_unique<tools::ReadShare>(
      tools::borrowed(memory), std::vector<std::string>{"a.tar", "b.tar"},
      [&](double share, std::uint64_t) { told.push_back(share); });
  std::array<std::byte, 1000> buffer{};
  const auto first = reads->opener()->open("a.tar");
  EXPECT_EQ(first->read(buffer), 250U);
  EXPECT_EQ(first->read(buffer), 250U);
  EXPECT_EQ(reads->opener()->open("a.tar")->read(buffer), 250U) << "read twice counts once";
  EXPECT_EQ(reads->opener()->open("b.tar")->read(buffer), 10U);
  EXPECT_THAT(told, ::testing::ElementsAre(0.125, 0.25, 0.25, 0.75));
  EXPECT_EQ(reads->bytes(), 760U);
  reads.reset();
  EXPECT_EQ(first->read(buffer), 250U) << "a source outlives whoever asks";
  EXPECT_EQ(told.size(), 4U);
}

TEST(ReadShare, OfWhatHasNoSizeIsNone) {
  MemoryOpener memory;
  memory.files = {{"pipe", "abc"}};
  memory.knows_size = false;
  tools::ReadShare reads(tools::borrowed(memory), std::vector<std::string>{"pipe"}, {});
  std::array<std::byte, 8> buffer{};
  reads.opener()->open("pipe")->read(buffer);
  EXPECT_EQ(reads.share(), 0.0);
  EXPECT_EQ(reads.bytes(), 3U);
}

TEST_F(OnATerminal, ADumbOneGetsTextAlone) {
  const auto shown = show(80, train(), "dumb");
  EXPECT_EQ(shown["status"], 0);
  EXPECT_FALSE(shown["controls"]);
  EXPECT_THAT(shown["text"].get<std::string>(), HasSubstr("Done"));
}

TEST_F(OnATerminal, APipeGetsTextAlone) {
  const ProcessResult result = millrace(train());
  EXPECT_EQ(result.status, 0);
  EXPECT_THAT(result.err, AllOf(HasSubstr("Done"), Not(HasSubstr("\r")), Not(HasSubstr("\x1b"))));
}

}  // namespace
}  // namespace millrace::testing
