#include "tools/train/checkpoint_upload.h"

#include <cstdint>
#include <filesystem>
#include <utility>

#include "io/base/error.h"
#include "tools/metered_opener.h"
#include "tools/progress.h"
#include "trainer/checkpoint.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMegabyte = 1'000'000;

/// Of all files, at least one.
/// At least 1. What cannot be listed is for the copy to report.
std::uint64_t folder_bytes(const std::string& folder) {
  std::uint64_t bytes = 1;
  std::error_code fault;
  for (fs::recursive_directory_iterator entry(folder, fault), end; !fault && entry != end;
       entry.increment(fault)) {
    const std::uint64_t size = entry->is_regular_file(fault) ? entry->file_size(fault) : 0;
    if (!fault) bytes += size;
  }
  return bytes;
}

io::HttpOptions without_retries(io::HttpOptions http) {
  http.retry.patience = std::chrono::milliseconds(0);
  return http;
}

}  // namespace

CheckpointUpload::CheckpointUpload(std::string url, const io::HttpOptions& http,
                                   std::stop_token stop, Log log, trainer::TerminalLine* terminal)
    : url_(std::move(url)),
      stop_(std::move(stop)),
      log_(std::move(log)),
      terminal_(terminal),
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
  const auto total = folder_bytes(path);
  Progress progress(terminal_, "MB", total / kMegabyte, "uploading " + name);
  std::uint64_t sent = 0;
  const auto show = [&](std::size_t bytes) {
    sent += bytes;
    progress.at(sent / kMegabyte, static_cast<double>(sent) / static_cast<double>(total));
  };
  trainer::copy_checkpoint(path, url_, name, MeteredOpener(borrowed(opener), {.on_write = show}));
}

}  // namespace millrace::tools
