#include "io/append_file.h"

#include <cerrno>
#include <fstream>

#include "io/base/error.h"

namespace millrace::io {
namespace {

class DiskAppendFile final : public AppendFile {
 public:
  explicit DiskAppendFile(const std::string& path)
      : path_(path), file_(path, std::ios::app | std::ios::binary) {
    if (!file_) throw_errno("open", path_, errno);
    size_ = static_cast<std::uint64_t>(file_.tellp());
  }

  void append(std::string_view text) override {
    file_ << text << std::flush;
    if (!file_) throw_errno("write", path_, errno);
    size_ += text.size();
  }
  std::uint64_t size() const override { return size_; }

 private:
  std::string path_;
  std::ofstream file_;
  std::uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<AppendFile> open_append_file(const std::string& path) {
  return std::make_unique<DiskAppendFile>(path);
}

}  // namespace millrace::io
