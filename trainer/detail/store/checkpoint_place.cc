#include "trainer/detail/store/checkpoint_place.h"

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

class DiskPlace final : public CheckpointPlace {
 public:
  DiskPlace(std::string folder, Hooks hooks)
      : folder_(std::move(folder)), hooks_(std::move(hooks)) {}

  void save(const std::string& name, const CheckpointFiles& files) override {
    write_folder(folder_, name, files);
    hooks_.saved(folder_ + "/" + name);
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

class StorePlace final : public CheckpointPlace {
 public:
  StorePlace(std::string folder, const io::Opener& opener, const std::stop_token& stop, Hooks hooks)
      : folder_(std::move(folder)), opener_(opener), hooks_(std::move(hooks)), uploads_(stop) {}

  void save(const std::string& name, const CheckpointFiles& files) override {
    report();
    const std::string path = folder_ + "/" + name;
    uploads_.add([this, path, contents = in_memory(files)](const std::stop_token& stop) {
      write_stored_folder(opener_, path, contents, stop);
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
  using Kept = std::pair<std::string, std::string>;  ///< a path, and why it is there still

  std::string folder_;
  const io::Opener& opener_;
  Hooks hooks_;
  std::mutex mutex_;
  std::vector<std::string> complete_;
  std::vector<Kept> kept_;
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
