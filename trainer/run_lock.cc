#include "trainer/run_lock.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "io/base/error.h"
#include "io/base/file_lock.h"
#include "io/byte_sink.h"
#include "trainer/detail/store/store_lock.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;

std::string lock_path(const std::string& folder) { return folder + "/.lock"; }

void make_folder(const std::string& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) throw_errno("create folder", folder, error.value());
}

std::unique_ptr<FileLock> take_lock(const std::string& folder) {
  auto lock = FileLock::try_take(lock_path(folder));
  if (lock) return lock;
  std::string process;
  std::getline(std::ifstream(lock_path(folder)), process);
  const bool number = !process.empty() && process.size() < 20 &&
                      process.find_first_not_of("0123456789") == std::string::npos;
  throw Error(ErrorCode::kInvalidArgument,
              "another run writes to " + folder + (number ? " (process " + process + ")" : ""));
}

class DiskLock final : public RunLock::Holder {
 public:
  explicit DiskLock(const std::string& folder) : folder_(folder) {
    io::check_local_path(folder);
    make_folder(folder);
    lock_ = take_lock(folder);
    const std::string process = std::to_string(::getpid()) + "\n";
    if (::ftruncate(lock_->fd(), 0) != 0 ||
        ::pwrite(lock_->fd(), process.data(), process.size(), 0) < 0)
      throw_errno("write", lock_path(folder), errno);
  }

  void check_in_place() const override {
    if (lock_->in_place()) return;
    throw Error(ErrorCode::kIo, "the run's folder was deleted or moved while it was written to",
                {.url = folder_, .stage = "train"});
  }

 private:
  std::string folder_;
  std::unique_ptr<FileLock> lock_;
};

}  // namespace

RunLock::RunLock(const std::string& folder, const RunLockOptions& options) {
  if (io::is_network_url(folder))
    holder_ = detail::lock_in_store(folder, options);
  else
    holder_ = std::make_unique<DiskLock>(folder);
}

void check_not_running(const std::string& folder) {
  if (fs::exists(lock_path(folder))) static_cast<void>(take_lock(folder));
}

}  // namespace millrace::trainer
