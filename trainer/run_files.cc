#include "trainer/run_files.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <span>
#include <system_error>
#include <utility>

#include "io/base/error.h"
#include "io/byte_sink.h"
#include "trainer/detail/store/upload_thread.h"

namespace millrace::trainer {
namespace {

constexpr std::chrono::seconds kLogDelay{30};
constexpr std::chrono::seconds kPatience{2};
constexpr std::uint64_t kBytesPerSecond = 1'000'000;
constexpr std::size_t kMaxLogBytes = std::size_t{1} << 30;

class DiskFiles final : public RunFiles {
 public:
  explicit DiskFiles(std::string folder) : folder_(std::move(folder)) {
    std::error_code error;
    std::filesystem::create_directories(folder_, error);
    if (error) throw_errno("create folder", folder_, error.value());
  }

  void write(const std::string& name, const std::string& text) override {
    const auto sink =
        io::open_file_sink(folder_ + "/" + name, {.replace = io::Replace::kAtomically});
    sink->write(std::as_bytes(std::span(text)));
    sink->finish();
  }
  std::unique_ptr<io::AppendFile> append(const std::string& name) override {
    return io::open_append_file(folder_ + "/" + name);
  }

 private:
  std::string folder_;
};

/// An object's text, as far as it is written.
struct Text {
  std::mutex mutex;
  std::string text;
  bool scheduled = false;  ///< a job will send it
};

class StoreFiles final : public RunFiles {
 public:
  StoreFiles(std::string folder, const io::Opener& opener, const std::stop_token& stop, Log log)
      : folder_(std::move(folder)),
        opener_(opener),
        stop_(stop),
        log_(std::move(log)),
        uploads_(stop, [this](std::chrono::nanoseconds waited) { say_slow(waited); }) {}

  void write(const std::string& name, const std::string& text) override {
    uploads_.add([this, name, text](const std::stop_token& stop) { put(name, text, stop); });
  }
  std::unique_ptr<io::AppendFile> append(const std::string& name) override;
  void finish() override { uploads_.finish(); }

  void add(const std::string& name, const std::shared_ptr<Text>& object, std::string_view text) {
    std::uint64_t size = 0;
    {
      const std::lock_guard lock(object->mutex);
      object->text += text;
      if (std::exchange(object->scheduled, true)) return;
      size = object->text.size();
    }
    const std::chrono::seconds slow(size / kBytesPerSecond);
    uploads_.add_later(std::max(kLogDelay, slow),
                       [=, this](const std::stop_token& stop) { send(name, *object, stop); });
  }

 private:
  void say_slow(std::chrono::nanoseconds waited) {
    if (waited < kPatience || said_.exchange(true)) return;
    log_.info("waiting for the upload of the run's files to " + io::printable_url(folder_) +
              ": the store is slow");
  }
  void send(const std::string& name, Text& object, const std::stop_token& stop) {
    std::string text;
    {
      const std::lock_guard lock(object.mutex);
      object.scheduled = false;
      text = object.text;
    }
    put(name, text, stop);
  }
  void put(const std::string& name, const std::string& text, const std::stop_token& stop) {
    put_object(opener_, folder_ + "/" + name, std::as_bytes(std::span(text)), stop);
  }

  std::string folder_;
  const io::Opener& opener_;
  const std::stop_token stop_;
  const Log log_;
  std::atomic<bool> said_ = false;
  detail::UploadThread uploads_;  ///< last: its jobs use the others
};

class StoreAppendFile final : public io::AppendFile {
 public:
  StoreAppendFile(StoreFiles& files, std::string name, std::string before)
      : files_(files), name_(std::move(name)), object_(std::make_shared<Text>()) {
    object_->text = std::move(before);
    size_ = object_->text.size();
    is_torn_ = size_ > 0 && object_->text.back() != '\n';
  }
  void append(std::string_view text) override {
    files_.add(name_, object_, text);
    size_ += text.size();
  }
  std::uint64_t size() const override { return size_; }
  bool ends_within_line() const override { return is_torn_; }

 private:
  StoreFiles& files_;
  std::string name_;
  std::shared_ptr<Text> object_;
  std::uint64_t size_;
  bool is_torn_ = false;
};

std::unique_ptr<io::AppendFile> StoreFiles::append(const std::string& name) {
  std::string before;
  try {
    before = io::read_object(opener_, folder_ + "/" + name, kMaxLogBytes, stop_).text();
  } catch (const Error& error) {
    if (!cannot_be_seen(error)) throw;
  }
  return std::make_unique<StoreAppendFile>(*this, name, std::move(before));
}

}  // namespace

std::unique_ptr<RunFiles> open_run_files(const std::string& folder, const io::Opener& opener,
                                         const std::stop_token& stop, const Log& log) {
  if (io::is_network_url(folder)) return std::make_unique<StoreFiles>(folder, opener, stop, log);
  io::check_local_path(folder);
  return std::make_unique<DiskFiles>(folder);
}

void put_object(const io::Opener& opener, const std::string& url, std::span<const std::byte> bytes,
                const std::stop_token& stop) {
  const auto sink = opener.open_sink(url, {.replace = io::Replace::kAtomically}, stop);
  sink->write(bytes);
  sink->finish();
}

}  // namespace millrace::trainer
