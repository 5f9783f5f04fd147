// millrace completion: what a shell needs to complete command lines of millrace.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "io/base/error.h"
#include "tools/commands.h"
#include "tools/completion/complete.h"
#include "tools/completion/scripts.h"
#include "tools/completion/shell_line.h"
#include "tools/usage_text.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

/// As bash wants a word that stands in no quotes.
std::string shell_escaped(const std::string& word) {
  constexpr std::string_view kSpecial = " \t'\"\\()[]{}|&;<>$`*?!#~";
  std::string text;
  for (const char c : word) {
    if (kSpecial.find(c) != std::string_view::npos) text += '\\';
    text += c;
  }
  return text;
}

/// What the scripts read: a line of flags, a line that says how a file's name begins, and a line
/// for each candidate.
class CompletionCommand final : public Command {
 public:
  std::string name() const override { return "completion"; }
  std::string summary() const override {
    return "Prints a shell's script that completes command lines of millrace";
  }
  std::string example() const override {
    return "  source <(millrace completion bash)      # in ~/.bashrc\n"
           "  millrace completion zsh > ~/.zfunc/_millrace      # a folder of $fpath\n"
           "  millrace completion fish > ~/.config/fish/completions/millrace.fish\n";
  }
  void declare(CLI::App& app) override {
    app.add_option("SHELL", shell_,
                   "Whose script; the scripts ask for line or words: how the last word of a "
                   "command line may go on")
        ->required()
        ->transform(one_of({"bash", "zsh", "fish", "line", "words"}));
    app.add_option(
           "WORD", words_,
           "After --: of line, the line and the characters that end a word; of words, those "
           "after the program's name")
        ->check(may_be_empty());
  }
  void check() override {
    require(shell_ == "line" ? words_.size() == 2 : shell_ == "words" || words_.empty(),
            shell_ == "line" ? "line takes two words" : shell_ + " takes no words");
  }
  void run(CommandContext& context) override {
    if (shell_ == "line") return complete_line(context.out);
    if (shell_ == "words") return complete_words(context.out);
    context.out.line(completion_script(shell_));
  }

 private:
  void complete_words(Output& out) const {
    std::vector<std::string> words = words_;
    std::string& last = words.empty() ? words.emplace_back() : words.back();
    if (last.starts_with('\'') || last.starts_with('"')) last.erase(0, 1);  // not closed yet
    const Completion found = complete(words, all_commands());
    print_head(found, last.substr(found.files_from), out);
    for (const Candidate& one : found.candidates) out.line(one.word + "\t" + one.about);
  }

  void complete_line(Output& out) const {
    const ShellLine line = read_shell_line(words_[0], words_[1]);
    const std::vector<std::string> words(line.words.begin() + 1, line.words.end());
    Completion found = complete(words, all_commands());
    // bash closes the quotes behind the only candidate.
    if (line.in_quotes && found.candidates.size() == 1 && found.candidates.front().goes_on) {
      Candidate with_value = found.candidates.front();
      with_value.word += with_value.usual.empty() ? "..." : with_value.usual;
      found.candidates.push_back(std::move(with_value));
    }
    print_head(found, words.empty() ? "" : line.words.back().substr(line.edited_from), out);
    for (const Candidate& one : found.candidates) {
      const std::string word = one.word.substr(line.edited_from);
      out.line(line.in_quotes ? word : shell_escaped(word));
    }
  }

  static void print_head(const Completion& found, const std::string& file, Output& out) {
    bool goes_on = false;
    for (const Candidate& one : found.candidates) goes_on = goes_on || one.goes_on;
    out.line(fmt::format("flags{}{}", found.files ? " files" : "", goes_on ? " goes-on" : ""));
    out.line(file);
  }

  std::string shell_;
  std::vector<std::string> words_;
};

}  // namespace

std::unique_ptr<Command> make_completion_command() { return std::make_unique<CompletionCommand>(); }

}  // namespace millrace::tools
