// RunFolderWriter: the files of a run's folder that its page is made of.
//
// On a disk they are there at once, in an object store soon: they are sent beside the training.
//
// Threads: any.
#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include "io/base/log.h"
#include "io/opener.h"
#include "trainer/run_files.h"

namespace millrace::tools {

class RunFolderWriter {
 public:
  /// `folder`: empty, nothing is written; else one that is there, or a store's.
  RunFolderWriter(std::string folder, std::shared_ptr<const io::Opener> opener,
                  std::stop_token stop, Log log);

  const std::string& folder() const { return folder_; }
  bool is_on_disk() const { return !folder_.empty() && !io::is_network_url(folder_); }

  /// Replaces a file. What is wrong with it is logged: a run does not fail for its page. What is
  /// wrong in a store is logged by a later call, and nothing is written from then on.
  void write(const std::string& name, const std::string& text);
  /// nullopt: there is none. Throws: as io::read_object().
  std::optional<std::string> read(const std::string& name) const;
  /// Returns when everything is in its place.
  void finish();

 private:
  template <typename Work>
  void guarded(const std::string& name, const Work& work);

  std::string folder_;
  std::shared_ptr<const io::Opener> opener_;
  std::stop_token stop_;
  Log log_;
  std::mutex mutex_;
  std::unique_ptr<trainer::RunFiles> files_;  ///< null: not yet, or no more
  bool is_off_ = false;                       ///< the store has failed
};

}  // namespace millrace::tools
