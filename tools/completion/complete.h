// complete: how the last word of a command line may go on: commands, options, their values,
// components with their parameters, topics of help. All from what the commands declare.
//
//   complete({"train", "--optimizer", "sg"}, commands).candidates    // "sgd", its sentence
//
// Threads: pure functions.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tools/command.h"

namespace millrace::tools {

struct Candidate {
  std::string word = {};  ///< all of the last word
  std::string about = {};
  bool goes_on = false;    ///< no space follows: a name whose value is to come
  std::string usual = {};  ///< that value, where it has a default
};

struct Completion {
  std::vector<Candidate> candidates = {};
  /// Files' names fit, too; they begin at `files_from` in the last word.
  bool files = false;
  std::size_t files_from = 0;
};

/// `words`: those after the program's name, the last one as far as it is typed.
Completion complete(std::span<const std::string> words,
                    std::span<const std::unique_ptr<Command>> commands);

}  // namespace millrace::tools
