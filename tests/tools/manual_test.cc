// What the program says of itself to shells and to man: candidates, in real shells on a terminal;
// pages, as mandoc checks them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tools/support.h"
#include "tools/completion/shell_line.h"
#include "tools/shell_word.h"

namespace millrace::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;
using tools::read_shell_line;

constexpr const char* kBreaks = " \t\n\"'><=;|&(:";

TEST(ShellWord, ShowsControlBytesAsAShellReadsThem) {
  EXPECT_EQ(tools::shown_shell_word("a b"), "'a b'");
  const std::string word = "it's\x1b[31m\\\n\xff";
  const std::string shown = tools::shown_shell_word(word);
  EXPECT_EQ(shown, R"($'it\'s\x1b[31m\\\x0a\xff')");
  if (!fs::exists("/bin/bash")) GTEST_SKIP() << "no bash";
  EXPECT_EQ(run_process({"/bin/bash", "-c", "printf %s " + shown}).out, word);
}

TEST(ShellLine, IsTheLastCommandsWords) {
  EXPECT_THAT(read_shell_line("cd x && A=1 millrace train --fold 1 ", kBreaks).words,
              ElementsAre("millrace", "train", "--fold", "1", ""));
  EXPECT_THAT(read_shell_line("millrace ls a\\ b 'c d'\"e\\\"f\" g", kBreaks).words,
              ElementsAre("millrace", "ls", "a b", "c de\"f", "g"));
}

TEST(ShellLine, KnowsWhereTheEditorsWordBegins) {
  const auto value = read_shell_line("millrace train --optimizer=sg", kBreaks);
  EXPECT_EQ(value.words.back(), "--optimizer=sg");
  EXPECT_EQ(value.edited_from, 12U);
  EXPECT_FALSE(value.in_quotes);
  const auto quoted = read_shell_line("millrace train --optimizer 'sgd(lr=0.1, mo", kBreaks);
  EXPECT_EQ(quoted.words.back(), "sgd(lr=0.1, mo");
  EXPECT_EQ(quoted.edited_from, 0U);
  EXPECT_TRUE(quoted.in_quotes);
}

/// The candidates for the last of the words, and before them the flags.
std::vector<std::string> candidates(std::vector<std::string> words) {
  words.insert(words.begin(), {"completion", "words", "--"});
  const ProcessResult result = millrace(words);
  EXPECT_EQ(result.status, 0) << result.err;
  std::vector<std::string> found = lines_of(result.out);
  for (std::string& line : found) line = line.substr(0, line.find('\t'));
  if (found.size() > 1) found.erase(found.begin() + 1);
  return found;
}

TEST(Completion, KnowsCommandsOptionsAndTheirValues) {
  EXPECT_THAT(candidates({""}), IsSupersetOf({"train", "create", "help", "--version"}));
  EXPECT_THAT(candidates({"t"}), ElementsAre("flags", "train", "trace"));
  EXPECT_THAT(candidates({"help", "tr"}), ElementsAre("flags", "train", "trace"));
  EXPECT_THAT(candidates({"train", "--batch"}), ElementsAre("flags", "--batch-size"));
  EXPECT_THAT(candidates({"train", "--allreduce", ""}),
              ElementsAre("flags", "tree", "tree-bf16", "mpi"));
  EXPECT_THAT(candidates({"train", "--allreduce=m"}), ElementsAre("flags", "--allreduce=mpi"));
  EXPECT_THAT(candidates({"train", "--val", "x"}), ElementsAre("flags files"));
  EXPECT_THAT(candidates({"train", "a.tar", "b"}), ElementsAre("flags files"));
  EXPECT_THAT(candidates({"train", "--config", "cifar10"}),
              ElementsAre("flags files", "cifar10-resnet18", "cifar10-resnet50", "cifar10-simclr"));
  EXPECT_THAT(candidates({"train", "--help", "sch"}), ElementsAre("flags", "schedule"));
  EXPECT_THAT(candidates({"completion", "z"}), ElementsAre("flags", "zsh"));
}

TEST(Completion, KnowsComponentsAndTheirParameters) {
  EXPECT_THAT(candidates({"train", "--optimizer", "a"}), ElementsAre("flags", "adam", "adamw"));
  EXPECT_THAT(candidates({"train", "--augment", "rcrop(padding=4), hf"}),
              ElementsAre("flags", "rcrop(padding=4), hflip"));
  EXPECT_THAT(candidates({"train", "--optimizer", "'sgd(0.1, mo"}),
              ElementsAre("flags goes-on", "sgd(0.1, momentum="));
  EXPECT_THAT(candidates({"train", "--optimizer", "sgd(momentum=0.9, "}),
              Not(Contains("sgd(momentum=0.9, momentum=")));
  EXPECT_THAT(candidates({"train", "--optimizer.mo"}),
              ElementsAre("flags", "--optimizer.momentum"));
  EXPECT_THAT(candidates({"train", "--optimizer", "nothing("}), ElementsAre("flags"));
}

TEST(Completion, MakesNothingOfNonsense) {
  for (const char* word :
       {"--=", "(((((", "a)b]c,d", "--optimizer='", "\"", "=", "--help=x", "\xff"})
    EXPECT_THAT(candidates({"train", word}), Contains(StartsWith("flags"))) << word;
  EXPECT_THAT(candidates({"nothing", ""}), ElementsAre("flags"));
  EXPECT_EQ(millrace({"completion", "line", "--", "millrace"}).status, 2);
  EXPECT_EQ(millrace({"completion", "tcsh"}).status, 2);
}

class InShell : public ::testing::TestWithParam<const char*> {};

TEST_P(InShell, TabCompletes) {
  if (run_process({"/usr/bin/env", GetParam(), "-c", "exit"}).status != 0)
    GTEST_SKIP() << "no " << GetParam();
  const TempDir dir;
  write_file(dir / "shard one.tar", "");
  const ProcessResult result = run_process(
      {"/usr/bin/python3", "tests/tools/shell_completion.py", GetParam(), MILLRACE_PROGRAM,
       dir.path(), "millrace verif", "millrace train --batch-s", "millrace train --allreduce=m",
       "millrace train --optimizer ada", "millrace train --optimizer 'sgd(0.1, mome",
       "millrace verify sha", "millrace help pred", "true; millrace eva"});
  ASSERT_EQ(result.status, 0) << result.err;
  std::vector<std::string> lines = nlohmann::json::parse(result.out);
  for (std::string& line : lines) line.erase(line.find_last_not_of(' ') + 1);
  ASSERT_EQ(lines.size(), 8U);
  EXPECT_EQ(lines[0], "millrace verify");
  EXPECT_EQ(lines[1], "millrace train --batch-size");
  EXPECT_EQ(lines[2], "millrace train --allreduce=mpi");
  EXPECT_EQ(lines[3], "millrace train --optimizer adam");
  EXPECT_THAT(lines[4], StartsWith("millrace train --optimizer 'sgd(0.1, momentum="));
  EXPECT_EQ(lines[5], "millrace verify shard\\ one.tar");
  EXPECT_EQ(lines[6], "millrace help predict");
  EXPECT_EQ(lines[7], "true; millrace eval");
}

INSTANTIATE_TEST_SUITE_P(Completion, InShell, ::testing::Values("bash", "zsh", "fish"),
                         [](const auto& shell) { return std::string(shell.param); });

TEST(Manual, HasAPageOfEachCommandThatMandocTakes) {
  const TempDir dir;
  const ProcessResult written = millrace({"man", "--out", dir / "man1"});
  ASSERT_EQ(written.status, 0) << written.err;
  std::vector<std::string> pages = list_dir(dir / "man1");
  EXPECT_THAT(pages, IsSupersetOf({"millrace.1", "millrace-train.1", "millrace-man.1"}));
  if (!fs::exists("/usr/bin/mandoc")) GTEST_SKIP() << "no mandoc";
  std::vector<std::string> words = {"/usr/bin/mandoc", "-T", "lint", "-W", "warning"};
  for (const std::string& page : pages) words.push_back(dir / "man1/" + page);
  const ProcessResult lint = run_process(words);
  EXPECT_EQ(lint.status, 0) << lint.out << lint.err;
}

TEST(Manual, HasNoLineThatGroffCannotFill) {
  if (!fs::exists("/usr/bin/groff")) GTEST_SKIP() << "no groff";
  for (const std::string page : {"plan", "train", "create"}) {
    const ProcessResult set = run_process({"/usr/bin/groff", "-man", "-Tutf8", "-ww"},
                                          {.input = millrace({"man", page}).out});
    EXPECT_EQ(set.err, "") << page;
  }
}

TEST(Manual, SaysWhatHelpSays) {
  if (!fs::exists("/usr/bin/mandoc")) GTEST_SKIP() << "no mandoc";
  const ProcessResult page = run_process({"/usr/bin/mandoc", "-T", "ascii", "-O", "width=200"},
                                         {.input = millrace({"man", "train"}).out});
  std::string text;  // without what makes letters bold on a terminal
  for (std::size_t at = 0; at < page.out.size(); ++at)
    if (page.out[at] == '\b')
      text.pop_back();
    else
      text += page.out[at];
  for (const std::string& line : lines_of(millrace({"train", "--help", "all"}).out)) {
    if (line.starts_with("  --")) {
      EXPECT_THAT(text, HasSubstr(line.substr(2, line.find_first_of(" ,", 2) - 2)));
    }
  }
  EXPECT_THAT(text, HasSubstr("momentum"));
  EXPECT_THAT(text, HasSubstr("'sgd(0.1, momentum=0.9)'"));
}

TEST(Help, OfAnOptionListsItsComponents) {
  for (const char* topic : {"augment", "schedule", "optimizer", "model"}) {
    const std::string help = millrace({"train", "--help", topic}).out;
    EXPECT_GT(lines_of(help).size(), 4U) << help;
  }
  EXPECT_THAT(millrace({"train", "--help", "augment"}).out, HasSubstr("hflip"));
}

/// The words that `command --help WORD` knows, by its answer to one that it does not.
std::vector<std::string> topics_of(const std::string& command) {
  const std::string answer = millrace({command, "--help", "0000000000"}).err;
  constexpr std::string_view kList = "; there are ";
  const std::size_t at = answer.find(kList);
  std::vector<std::string> topics = {"all", "aliases"};
  if (at == std::string::npos) return topics;
  std::istringstream words(answer.substr(at + kList.size()));
  for (std::string word; words >> word;)
    topics.push_back(word.ends_with(',') ? word.substr(0, word.size() - 1) : word);
  return topics;
}

// The program's own list of commands; what several commands have alike is looked at once.
TEST(Help, FitsEightyColumns) {
  std::set<std::string> seen;
  std::vector<std::vector<std::string>> pages = {{"--help"}};
  for (const std::string& line : lines_of(millrace({"--help"}).out)) {
    if (!line.starts_with("  ") || line.starts_with("  millrace")) continue;
    const std::string command = line.substr(2, line.find(' ', 2) - 2);
    pages.push_back({command, "--help"});
    for (const std::string& topic : topics_of(command))
      if (topic == "all" || topic == "aliases" || seen.insert(topic).second)
        pages.push_back({command, "--help", topic});
  }
  EXPECT_GT(pages.size(), 100U);
  for (const std::vector<std::string>& page : pages)
    for (const std::string& line : lines_of(millrace(page).out))
      EXPECT_LE(line.size(), 80U) << page[0] << " " << page.back() << ": " << line;
}

TEST(Help, OfACommandLineGoesOnInTheNextOne) {
  EXPECT_THAT(millrace({"bench", "--help"}).out,
              HasSubstr("--stage decode --size 224 \\\n      --augment 'rrc, hflip'\n"));
}

TEST(Help, OfTrainShowsWhatRunsAreMadeOf) {
  std::size_t options = 0;
  for (const std::string& line : lines_of(millrace({"train", "--help"}).out))
    options += line.starts_with("  -") ? 1 : 0;
  EXPECT_LE(options, 27U) << "about twenty, and those that every command has";
  EXPECT_GE(options, 18U);
}

}  // namespace
}  // namespace millrace::testing
