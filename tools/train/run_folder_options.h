// RunFolderOptions: where a run writes, what it keeps, and what it starts from.
//
// Threads: as a value.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"
#include "trainer/train_options.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct RunFolderOptions {
  /// A folder, "auto" or "none"; after settle() a folder, or empty for none.
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
  /// Whether the options go together; `measures` are the objective's. Throws: InvalidArgument.
  void check(const std::vector<std::string>& measures, bool has_validation) const;
  /// Whether the places that they name are there, and may be written to; for process 0 alone.
  /// Throws: InvalidArgument, NotFound, Io; touches nothing.
  void check_places() const;

  /// Decides what "auto" and "none" are. --resume auto takes the newest checkpoint of the folder,
  /// else the `last` that was uploaded, else none.
  void settle(const std::string& model, const io::Opener& opener, const Log& log);
  /// Fills in what of `options` is decided here.
  void apply(trainer::TrainOptions& options) const;

 private:
  void check_run_dir() const;
  void check_start() const;
  void check_start_places() const;
};

}  // namespace millrace::tools
