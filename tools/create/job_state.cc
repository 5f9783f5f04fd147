#include "tools/create/job_state.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "io/base/json.h"
#include "tools/create/shard_set.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

}  // namespace

// Folds may have a folder each: then the file is placed above those.
std::string JobState::path_of(const std::string& pattern) {
  const std::size_t fixed = std::min(pattern.find(kFoldMark), pattern.rfind('/') + 1);
  const std::size_t slash = pattern.substr(0, fixed).rfind('/') + 1;
  std::string name = pattern.substr(slash);
  std::replace(name.begin(), name.end(), '/', '_');
  if (const std::size_t tar = name.rfind(".tar"); tar != std::string::npos) name.erase(tar);
  return pattern.substr(0, slash) + "." + name + ".create.json";
}

bool JobState::exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

JobState::JobState(std::string path) : path_(std::move(path)), lock_(FileLock::try_take(path_)) {
  if (!lock_) throw Error(ErrorCode::kIo, "another process is writing this set", {.url = path_});
  read();
}

void JobState::read() {
  std::array<char, 4096> buffer{};
  const ssize_t got = ::pread(lock_->fd(), buffer.data(), buffer.size(), 0);
  if (got < 0) throw_errno("read", path_, errno);
  try {
    const auto json =
        parse_json<nlohmann::json>({buffer.data(), static_cast<std::size_t>(got)}, path_);
    if (json.at("millrace_create") == 1) json.at("fingerprint").get_to(fingerprint_);
  } catch (const std::exception&) {
    // Not yet written, or not ours: nothing is known about an earlier run.
  }
}

void JobState::begin(const std::string& fingerprint) {
  const std::string text =
      nlohmann::json({{"millrace_create", 1}, {"fingerprint", fingerprint}}).dump() + "\n";
  if (::ftruncate(lock_->fd(), 0) != 0) throw_errno("truncate", path_, errno);
  const ssize_t wrote = ::pwrite(lock_->fd(), text.data(), text.size(), 0);
  if (wrote != static_cast<ssize_t>(text.size()))
    throw_errno("write", path_, wrote < 0 ? errno : ENOSPC);
  if (::fsync(lock_->fd()) != 0) throw_errno("fsync", path_, errno);
  fingerprint_ = fingerprint;
}

void JobState::finish() {
  lock_->remove();
  lock_.reset();
}

}  // namespace millrace::tools
