#include "trainer/detail/store/checkpoint_place.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "trainer/detail/store/stored_folder.h"
#include "trainer/detail/store/upload_thread.h"

namespace millrace::trainer::detail {
namespace {

/// Headers and the state come to a few bytes more than the tensors.
double done_share(std::uint64_t bytes, std::uint64_t total) {
  return total == 0 ? 0 : std::min(1.0, static_cast<double>(bytes) / static_cast<double>(total));
}

class DiskPlace final : public CheckpointPlace {
 public:
  DiskPlace(std::string folder, Hooks hooks)
      : folder_(std::move(folder)), hooks_(std::move(hooks)) {}

  void save(const std::string& name, const CheckpointFiles& files) override {
    const std::string path = folder_ + "/" + name;
    write_folder(folder_, name, files, [&](std::uint64_t bytes) {
      hooks_.progress(
          {path, done_share(bytes, 2 * files.tensor_bytes), files.tensor_bytes});  // and read back
    });
    hooks_.saved(path);
  }
  void remove(const std::string& name) override {
    const std::string path = folder_ + "/" + name;
    std::error_code error;
    std::filesystem::remove_all(path, error);
    if (error) hooks_.kept(path, error.message());
  }

 private:
  std::string folder_;
  Hooks hooks_;
};

/// Passes on in pieces what is written, and counts them.
class CountingSink final : public io::ByteSink {
 public:
  CountingSink(io::ByteSink& into, BytesDone count) : into_(into), count_(std::move(count)) {}
  void write(std::span<const std::byte> data) override {
    constexpr std::size_t kPiece = std::size_t{1} << 20;
    while (!data.empty()) {
      const auto piece = data.first(std::min(kPiece, data.size()));
      into_.write(piece);
      count_(piece.size());
      data = data.subspan(piece.size());
    }
  }
  void finish() override { into_.finish(); }
  std::uint64_t position() const override { return into_.position(); }

 private:
  io::ByteSink& into_;
  BytesDone count_;
};

class StorePlace final : public CheckpointPlace {
 public:
  StorePlace(std::string folder, const io::Opener& opener, const std::stop_token& stop, Hooks hooks)
      : folder_(std::move(folder)),
        opener_(opener),
        hooks_(std::move(hooks)),
        uploads_(stop, [this](std::chrono::nanoseconds) { tell_progress(); }) {}

  void save(const std::string& name, const CheckpointFiles& files) override {
    report();
    const std::string path = folder_ + "/" + name;
    uploads_.add([this, path, contents = in_memory(files),
                  total = files.tensor_bytes](const std::stop_token& stop) {
      begin(path, total);
      write_stored_folder(opener_, path, counted(contents), stop);
      const std::lock_guard lock(mutex_);
      complete_.push_back(path);
    });
  }

  void remove(const std::string& name) override {
    uploads_.add([this, path = folder_ + "/" + name](const std::stop_token& stop) {
      try {
        remove_stored_folder(opener_, path, stop);
      } catch (const Error& error) {
        const std::lock_guard lock(mutex_);
        kept_.emplace_back(path, error.what());
      }
    });
  }

  void report() override {
    std::vector<std::string> complete;
    std::vector<Kept> kept;
    {
      const std::lock_guard lock(mutex_);
      complete.swap(complete_);
      kept.swap(kept_);
    }
    for (const std::string& path : complete) hooks_.saved(path);
    for (const auto& [path, why] : kept) hooks_.kept(path, why);
  }

  void finish() override {
    uploads_.finish();
    report();
  }

 private:
  void begin(const std::string& path, std::uint64_t total_bytes) {
    const std::lock_guard lock(mutex_);
    step_ = {path, 0, total_bytes};
    sent_ = 0;
  }
  void count(std::uint64_t bytes) {
    const std::lock_guard lock(mutex_);
    sent_ += bytes;
    step_.share = done_share(sent_, step_.bytes);
  }
  void tell_progress() {
    CheckpointStep step;
    {
      const std::lock_guard lock(mutex_);
      step = step_;
    }
    if (!step.path.empty()) hooks_.progress(step);
  }
  /// The same files, counted as they are sent.
  StoredFiles counted(StoredFiles files) {
    for (auto& [name, file] : files.files) {
      file.write = [this, write = file.write](io::ByteSink& into) {
        CountingSink sink(into, [this](std::uint64_t bytes) { count(bytes); });
        write(sink);
      };
    }
    return files;
  }

  using Kept = std::pair<std::string, std::string>;  ///< a path, and why it is there still

  std::string folder_;
  const io::Opener& opener_;
  Hooks hooks_;
  std::mutex mutex_;
  std::vector<std::string> complete_;
  std::vector<Kept> kept_;
  std::uint64_t sent_ = 0;
  CheckpointStep step_;   ///< of the checkpoint that is sent
  UploadThread uploads_;  ///< last: its jobs use the others
};

}  // namespace

std::unique_ptr<CheckpointPlace> open_checkpoint_place(const std::string& folder,
                                                       const io::Opener& opener,
                                                       const std::stop_token& stop,
                                                       CheckpointPlace::Hooks hooks) {
  if (io::is_network_url(folder))
    return std::make_unique<StorePlace>(folder, opener, stop, std::move(hooks));
  return std::make_unique<DiskPlace>(folder, std::move(hooks));
}

}  // namespace millrace::trainer::detail
