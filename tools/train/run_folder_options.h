// RunFolderOptions: where a run writes, which checkpoints it keeps, and what it starts from.
//
// Threads: a value type.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"
#include "tools/train/run_options.h"
#include "trainer/train_options.h"

namespace CLI {
class App;
}

namespace millrace::trainer {
struct TrainState;
}

namespace millrace::tools {

/// The streams of a run, which any number of processes that divides theirs continues; zeros where
/// they are unknown.
SavedStreams saved_streams(const trainer::TrainState& saved);
/// The default warm-up of a run, "5steps"; empty where one was given.
std::string saved_warmup(const trainer::TrainState& saved);

struct RunFolderOptions {
  /// A folder or its url, "auto", DIR/auto or "none"; after settle() a folder, or empty for none.
  std::string run_dir = "auto";
  bool force = false;
  /// A folder, a URL, "auto", or empty.
  std::string resume = {};
  bool accept_changed_data = false;
  std::string init = {};
  bool replace_head = false;
  std::string monitor = {};
  std::int64_t top_k = 0;
  std::int64_t every_steps = 0;
  double every_minutes = 0;
  std::string upload = {};

  void declare(CLI::App& app);
  /// Checks that the options are consistent; `measures`: the objective's. Throws: InvalidArgument.
  void check(const std::vector<std::string>& measures, bool has_validation) const;
  /// Checks that the folders and URLs exist and are writable, without changing anything. Called on
  /// process 0 only. Throws: InvalidArgument, NotFound, Io.
  void check_places() const;

  /// Resolves "auto" and "none", and looks at a folder in a store. --resume auto takes the newest
  /// checkpoint of the folder, or the uploaded one if that has more steps, or none. Throws:
  /// InvalidArgument, also if the folder holds another run than --resume PATH, and network faults.
  void settle(const std::string& model, const io::Opener& opener, const Log& log);
  /// Of the run that is resumed; nullopt where there is none, or its checkpoint cannot be read,
  /// which whatever resumes from it says. After settle().
  std::optional<trainer::TrainState> saved_state(const io::Opener& opener) const;
  /// Fills in the part of `options` that is decided here.
  void apply(trainer::TrainOptions& options) const;

 private:
  void check_run_dir() const;
  [[noreturn]] void refuse_used() const;
  bool holds_run(const io::Opener& opener) const;
  void check_nothing_saved() const;
  void check_start() const;
  void check_start_places() const;
  void meet_own(const io::Opener& opener) const;
  void meet_uploaded(const io::Opener& opener, const Log& log);
  [[noreturn]] void refuse_uploaded(const std::string& there) const;
  void compare_with_uploaded(const std::string& own, const std::string& there,
                             const io::Opener& opener, const Log& log);
};

}  // namespace millrace::tools
