#include "wds/detail/scan_mark.h"

#include <fmt/format.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>
#include <utility>

#include "io/base/error.h"
#include "io/base/host.h"
#include "io/base/text.h"
#include "io/local_path.h"

namespace millrace::wds::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSignInterval{500};
/// What a wait may take without a line that says whom it is for.
constexpr std::chrono::seconds kSilentWait{2};
constexpr std::chrono::milliseconds kLook{20};

/// As the holder of a lock wrote it there: "process 71 on node1"; "another process" if unknown.
std::string holder_of(const std::string& path) {
  std::string text(200, '\0');
  std::ifstream file(path);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<std::size_t>(file.gcount()));
  return text.starts_with("process ") ? printable(text) : "another process";
}

/// A wait for a mark whose holder gives signs of life.
class MarkWait {
 public:
  MarkWait(const std::string& path, const std::string& url, const ScanOptions& options)
      : path_(path), url_(io::printable_url(url)), options_(options) {}

  /// Sleeps a little; false once the holder has been silent for options.patience.
  bool go_on() {
    if (options_.stop.stop_requested()) throw Error(ErrorCode::kCancelled, "the scan was stopped");
    const auto now = SteadyClock::now();
    look_for_sign(now);
    if (now - sign_ >= options_.patience) {
      options_.log.warn(
          fmt::format("{} scans {} and has not gone on for {:g} s: it is scanned here too",
                      holder_of(path_), url_, seconds(options_.patience)));
      return false;
    }
    if (!has_said_ && now - start_ >= kSilentWait) {
      has_said_ = true;
      options_.log.info(fmt::format("waiting for {}, which scans {}", holder_of(path_), url_));
    }
    std::this_thread::sleep_for(kLook);
    return true;
  }

 private:
  static double seconds(std::chrono::milliseconds time) {
    return std::chrono::duration<double>(time).count();
  }

  void look_for_sign(SteadyClock::time_point now) {
    std::error_code ignored;
    const auto modified = std::filesystem::last_write_time(path_, ignored);
    if (modified == modified_) return;
    modified_ = modified;
    sign_ = now;
  }

  const std::string& path_;
  const std::string url_;
  const ScanOptions& options_;
  const SteadyClock::time_point start_ = SteadyClock::now();
  SteadyClock::time_point sign_ = start_;
  std::filesystem::file_time_type modified_ = {};
  bool has_said_ = false;
};

}  // namespace

// A disk that cannot keep a mark is no fault: the scan is made without.
ScanMark::ScanMark(const std::string& path, const std::string& url, const ScanOptions& options,
                   IfTaken if_taken)
    : lock_path_(path + ".lock") {
  try {
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    lock_ = FileLock::try_take(lock_path_);
    if (!lock_ && if_taken == IfTaken::kWait) await(url, options);
    is_postponed_ = !lock_ && if_taken == IfTaken::kPostpone;
    if (lock_) sign();
  } catch (const std::filesystem::filesystem_error&) {
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
  }
}

ScanMark::~ScanMark() {
  try {
    if (lock_) lock_->remove();
  } catch (const Error&) {  // it stays, unlocked
  }
}

void ScanMark::await(const std::string& url, const ScanOptions& options) {
  MarkWait wait(lock_path_, url, options);
  while (!lock_ && wait.go_on()) lock_ = FileLock::try_take(lock_path_);
}

void ScanMark::sign_of_life() {
  if (lock_ && SteadyClock::now() - signed_ >= kSignInterval) sign();
}

// One that fails costs those who wait no more than their patience.
void ScanMark::sign() {
  signed_ = SteadyClock::now();
  const std::string text = fmt::format("process {} on {}", ::getpid(), host_name());
  static_cast<void>(::pwrite(lock_->fd(), text.data(), text.size(), 0));
}

}  // namespace millrace::wds::detail
