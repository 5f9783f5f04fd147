// CheckpointUpload: sends each checkpoint to an object store or web server once it is complete.
//
// Checkpoints go to URL/last/..., URL/best/... as trainer::copy_checkpoint() copies them: whenever
// the run is killed, there is the old one or the new one, whole. Training waits for the upload,
// because the next checkpoint replaces the folder. URL is locked as a run's folder is, except on a
// server that cannot list objects.
//
// If a transfer fails despite the retries, there is a warning and the run continues: the checkpoint
// is still in the run's folder. missing() says which did not arrive. A stop ends the transfer in
// flight and its retries; what is saved after it is sent in one try, because preempted machines
// leave little time.
//
// Threads: as trainer::Observer.
#pragma once

#include <optional>
#include <set>
#include <stop_token>
#include <string>

#include "io/base/log.h"
#include "io/opener.h"
#include "trainer/observer.h"
#include "trainer/progress_bar.h"
#include "trainer/run_lock.h"

namespace millrace::tools {

class CheckpointUpload final : public trainer::Observer {
 public:
  /// `http`: options of the connection.
  /// `terminal`, borrowed, shows how far a transfer is; null: none.
  CheckpointUpload(std::string url, const io::HttpOptions& http, std::stop_token stop, Log log,
                   trainer::TerminalLine* terminal = nullptr);

  /// Locks the url; a folder that is missing only with the first checkpoint. Throws: as
  /// trainer::RunLock.
  void begin();
  void on_checkpoint(const std::string& path) override;
  /// Names of checkpoints whose latest state did not reach the url.
  const std::set<std::string>& missing() const { return missing_; }

 private:
  void send(const std::string& path, const std::string& name);
  void lock();

  std::string url_;
  std::stop_token stop_;
  Log log_;
  trainer::TerminalLine* terminal_;
  io::UrlOpener opener_;
  io::UrlOpener last_opener_;
  std::set<std::string> missing_;
  std::optional<trainer::RunLock> lock_;
};

}  // namespace millrace::tools
