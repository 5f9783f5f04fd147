#include "tools/train/checkpoint_upload.h"

#include <filesystem>
#include <utility>

#include "io/base/error.h"
#include "trainer/checkpoint.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

io::HttpOptions without_retries(io::HttpOptions http) {
  http.retry.patience = std::chrono::milliseconds(0);
  return http;
}

}  // namespace

CheckpointUpload::CheckpointUpload(std::string url, const io::HttpOptions& http,
                                   std::stop_token stop, Log log)
    : url_(std::move(url)),
      stop_(std::move(stop)),
      log_(std::move(log)),
      opener_({.http = http, .stop = stop_}),
      last_opener_({.http = without_retries(http)}) {
  while (url_.ends_with('/')) url_.pop_back();
}

void CheckpointUpload::begin() {
  const bool is_url = io::is_network_url(url_);
  if (is_url ? opener_.can_list(url_) : fs::exists(url_)) lock();
}

void CheckpointUpload::lock() {
  lock_.emplace(url_, trainer::RunLockOptions{.opener = &opener_, .stop = stop_, .log = log_});
}

void CheckpointUpload::on_checkpoint(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  try {
    send(path, name);
    missing_.erase(name);
  } catch (const Error& error) {
    missing_.insert(name);
    log_.warn("checkpoint " + name + " was not uploaded: " + error.what());
  }
}

void CheckpointUpload::send(const std::string& path, const std::string& name) {
  if (!lock_ && !io::is_network_url(url_)) lock();
  if (lock_) lock_->check_in_place();
  const io::UrlOpener& opener = stop_.stop_requested() ? last_opener_ : opener_;
  trainer::copy_checkpoint(path, url_, name, opener);
}

}  // namespace millrace::tools
