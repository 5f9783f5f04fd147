// SavedRun: what a checkpoint says of the run that wrote it, and what eval and predict take from
// it: its model, and the options that its own validation had, unless others are given.
//
//   const SavedRun run = SavedRun::of_checkpoint(path, opener);
//   for (const std::string& option : run.give({"precision", "views"}, app))
//     log.info(option + ", as the run has it");
//
// Threads: a value type.
#pragma once

#include <string>
#include <vector>

#include "io/opener.h"
#include "tools/train/model_choice.h"

namespace CLI {
class App;
}

namespace millrace::tools {

class SavedRun {
 public:
  /// Of what text() says. Throws: Corrupt if `millrace train` has not written it.
  explicit SavedRun(std::string text);
  /// Throws: as trainer::read_checkpoint_state(), and Corrupt.
  static SavedRun of_checkpoint(const std::string& path, const io::Opener& opener);

  /// JSON, as the run's config.json has it.
  const std::string& text() const { return text_; }
  const ModelChoice& choice() const { return choice_; }
  /// Gives each of these options of `app` that is not given the run's value. Returns "--precision
  /// fp32" of those whose default is another one. A run that does not say leaves the default.
  /// Throws: Corrupt for a value that the option does not take.
  std::vector<std::string> give(const std::vector<std::string>& names, CLI::App& app) const;

 private:
  std::string value_of(const std::string& name) const;

  std::string text_;
  ModelChoice choice_;
};

}  // namespace millrace::tools
