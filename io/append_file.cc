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
    if (size_ == 0) return;
    std::ifstream before(path, std::ios::binary);
    before.seekg(-1, std::ios::end);
    is_torn_ = before.peek() != '\n';
  }

  void append(std::string_view text) override {
    file_ << text << std::flush;
    if (!file_) throw_errno("write", path_, errno);
    size_ += text.size();
  }
  std::uint64_t size() const override { return size_; }
  bool ends_within_line() const override { return is_torn_; }

 private:
  std::string path_;
  std::ofstream file_;
  std::uint64_t size_ = 0;
  bool is_torn_ = false;
};

}  // namespace

std::unique_ptr<AppendFile> open_append_file(const std::string& path) {
  return std::make_unique<DiskAppendFile>(path);
}

void end_torn_line(AppendFile& file) {
  if (file.ends_within_line()) file.append("\n");
}

}  // namespace millrace::io
