#include "trainer/detail/checkpoint_place.h"

#include <filesystem>
#include <mutex>
#include <system_error>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "trainer/detail/stored_folder.h"
#include "trainer/detail/upload_thread.h"

namespace millrace::trainer::detail {
namespace {

class DiskPlace final : public CheckpointPlace {
 public:
  DiskPlace(std::string folder, Saved saved)
      : folder_(std::move(folder)), saved_(std::move(saved)) {}

  void save(const std::string& name, const CheckpointFiles& files) override {
    write_folder(folder_, name, files);
    saved_(folder_ + "/" + name);
  }
  void remove(const std::string& name) override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_ + "/" + name, ignored);
  }

 private:
  std::string folder_;
  Saved saved_;
};

class StorePlace final : public CheckpointPlace {
 public:
  StorePlace(std::string folder, const io::Opener& opener, const std::stop_token& stop, Saved saved)
      : folder_(std::move(folder)), opener_(opener), saved_(std::move(saved)), uploads_(stop) {}

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
      } catch (const Error&) {  // a checkpoint too many does not end a run
      }
    });
  }

  void report() override {
    std::vector<std::string> complete;
    {
      const std::lock_guard lock(mutex_);
      complete.swap(complete_);
    }
    for (const std::string& path : complete) saved_(path);
  }

  void finish() override {
    uploads_.finish();
    report();
  }

 private:
  std::string folder_;
  const io::Opener& opener_;
  Saved saved_;
  std::mutex mutex_;
  std::vector<std::string> complete_;
  UploadThread uploads_;  ///< last: its jobs use the others
};

}  // namespace

std::unique_ptr<CheckpointPlace> open_checkpoint_place(const std::string& folder,
                                                       const io::Opener& opener,
                                                       const std::stop_token& stop,
                                                       CheckpointPlace::Saved saved) {
  if (io::is_network_url(folder))
    return std::make_unique<StorePlace>(folder, opener, stop, std::move(saved));
  return std::make_unique<DiskPlace>(folder, std::move(saved));
}

}  // namespace millrace::trainer::detail
