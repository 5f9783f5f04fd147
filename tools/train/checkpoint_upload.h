// CheckpointUpload: sends each checkpoint to an object store or web server as soon as it is whole.
//
// A checkpoint's files go to URL/last/..., URL/best/..., its manifest last: who finds a manifest
// finds what it lists, and --resume URL/last checks it file by file. It is sent before training
// goes on, because its folder is replaced by the next one.
//
// A transfer that fails in spite of the retries is a warning, and the run goes on: the checkpoint
// lies in the run's folder. missing() says which did not arrive. A stop ends the transfer in
// flight, and its retries; what is saved after it is sent in one try, because machines that are
// taken away leave their runs little time.
//
// Threads: as an Observer.
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
  /// `http`: how the server is talked to.
  CheckpointUpload(std::string url, io::HttpOptions http, std::stop_token stop, Log log);

  void on_checkpoint(const std::string& path) override;
  /// Names of checkpoints whose newest state is not at the url.
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
