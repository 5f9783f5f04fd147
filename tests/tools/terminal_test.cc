// What commands show on a terminal while they work: lines that fit and are erased, with what is
// done, of how much, and how long it will take; nothing on what is no terminal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/tools/support.h"

namespace millrace::testing {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class OnATerminal : public ::testing::Test {
 protected:
  nlohmann::json show(int columns, std::vector<std::string> words,
                      const std::string& terminal = "xterm") const {
    words.insert(words.begin(), {"/usr/bin/python3", "tests/tools/terminal.py",
                                 std::to_string(columns), MILLRACE_PROGRAM});
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

TEST_F(OnATerminal, CommandsSayHowFarTheyAre) {
  const std::vector<std::vector<std::string>> commands = {
      {"create", dir_ / "made-%06d.tar", "--synthetic", "classes", "--count", "64", "--size", "32"},
      {"index", shards_},
      {"verify", shards_},
      {"stats", shards_},
      {"reshard", shards_, dir_ / "new-%06d.tar"},
      {"order", shards_}};
  for (const auto& words : commands) {
    const auto shown = show(80, words);
    EXPECT_EQ(shown["status"], 0) << words.front();
    EXPECT_GT(shown["drawn"], 0) << words.front();
    EXPECT_LT(shown["widest"], 80) << words.front();
    EXPECT_TRUE(shown["erased"]) << words.front();
  }
  // Where an index or a manifest has the number of samples, it is known how many are left.
  for (const char* command : {"stats", "order"})
    EXPECT_THAT(
        show(80, {command, dir_ / "made-000000.tar"})["lines"].get<std::vector<std::string>>(),
        Contains(HasSubstr("/64 ")))
        << command;
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
