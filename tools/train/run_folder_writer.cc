#include "tools/train/run_folder_writer.h"

#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"

namespace millrace::tools {

RunFolderWriter::RunFolderWriter(std::string folder, std::shared_ptr<const io::Opener> opener,
                                 std::stop_token stop, Log log)
    : folder_(std::move(folder)),
      opener_(std::move(opener)),
      stop_(std::move(stop)),
      log_(std::move(log)),
      is_off_(folder_.empty()) {}

template <typename Work>
void RunFolderWriter::guarded(const std::string& name, const Work& work) {
  try {
    work();
  } catch (const std::exception& error) {
    log_.warn(name + " is not written: " + fault_text(error));
    is_off_ = !is_on_disk();
  }
}

void RunFolderWriter::write(const std::string& name, const std::string& text) {
  const std::lock_guard lock(mutex_);
  if (is_off_) return;
  guarded(name, [&] {
    if (!files_) files_ = trainer::open_run_files(folder_, *opener_, stop_, log_);
    files_->write(name, text);
  });
}

std::optional<std::string> RunFolderWriter::read(const std::string& name) const {
  constexpr std::size_t kMostBytes = std::size_t{16} << 20;
  try {
    return std::string(io::read_object(*opener_, folder_ + "/" + name, kMostBytes).text());
  } catch (const Error& error) {
    if (cannot_be_seen(error)) return {};
    throw;
  }
}

void RunFolderWriter::finish() {
  const std::lock_guard lock(mutex_);
  if (!files_ || is_off_) return;
  guarded("what the run's page is made of", [&] { files_->finish(); });
}

}  // namespace millrace::tools
