// CheckpointUpload: sends each checkpoint to an object store or web server once it is complete.
//
// A checkpoint's files go to URL/last/..., URL/best/..., its manifest last: if there is a manifest,
// so is everything it lists, and --resume URL/last checks it file by file. Training waits for the
// upload, because the next checkpoint replaces the folder.
//
// If a transfer fails despite the retries, there is a warning and the run continues: the checkpoint
// is still in the run's folder. missing() says which did not arrive. A stop ends the transfer in
// flight and its retries; what is saved after it is sent in one try, because preempted machines
// leave little time.
//
// Threads: as trainer::Observer.
#pragma once

#include <set>
#include <stop_token>
#include <string>

#include "io/base/log.h"
#include "io/opener.h"
#include "trainer/observer.h"

namespace millrace::tools {

class CheckpointUpload final : public trainer::Observer {
 public:
  /// `http`: options of the connection.
  CheckpointUpload(std::string url, const io::HttpOptions& http, std::stop_token stop, Log log);

  void on_checkpoint(const std::string& path) override;
  /// Names of checkpoints whose latest state did not reach the url.
  const std::set<std::string>& missing() const { return missing_; }

 private:
  std::string url_;
  std::stop_token stop_;
  Log log_;
  io::UrlOpener opener_;
  io::UrlOpener last_opener_;
  std::set<std::string> missing_;
};

}  // namespace millrace::tools
