#include "tools/train/checkpoint_upload.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/byte_source.h"
#include "tools/output_place.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr std::size_t kChunkBytes = std::size_t{1024} * 1024;

/// The files of a checkpoint, its manifest last.
std::vector<std::string> files_of(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(folder))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::stable_partition(names.begin(), names.end(),
                        [](const std::string& name) { return name != kManifest; });
  return names;
}

io::HttpOptions without_retries(io::HttpOptions http) {
  http.retry.patience = std::chrono::milliseconds(0);
  return http;
}

void copy(const io::UrlOpener& opener, const std::string& from, const std::string& to) {
  if (!io::is_network_url(to)) make_parent_folders(to);
  const auto source = opener.open(from);
  const auto sink = opener.open_sink(to, {.replace = io::Replace::kAtomically});
  std::vector<std::byte> chunk(kChunkBytes);
  while (const std::size_t count = source->read(chunk)) sink->write(std::span(chunk).first(count));
  sink->finish();
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

void CheckpointUpload::on_checkpoint(const std::string& path) {
  const std::string name = fs::path(path).filename().string();
  try {
    const io::UrlOpener& opener = stop_.stop_requested() ? last_opener_ : opener_;
    for (const std::string& file : files_of(path))
      copy(opener, path + "/" + file, url_ + "/" + name + "/" + file);
    missing_.erase(name);
  } catch (const Error& error) {
    missing_.insert(name);
    log_.warn("checkpoint " + name + " was not uploaded: " + error.what());
  }
}

}  // namespace millrace::tools
