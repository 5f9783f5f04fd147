#include "trainer/detail/stored_folder.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "trainer/detail/run_files.h"

namespace millrace::trainer::detail {
namespace {

class MemorySink final : public io::ByteSink {
 public:
  void write(std::span<const std::byte> data) override {
    bytes_.insert(bytes_.end(), data.begin(), data.end());
  }
  void finish() override {}
  std::uint64_t position() const override { return bytes_.size(); }
  io::Bytes take() { return io::Bytes::take(std::move(bytes_)); }

 private:
  std::vector<std::byte> bytes_;
};

/// "model.safetensors" is "model-3f2a9c0d11e2b3a4.safetensors".
std::string object_name(const std::string& file, const std::string& sha256) {
  constexpr std::size_t kDigits = 16;
  const std::size_t dot = std::min(file.find('.'), file.size());
  return file.substr(0, dot) + "-" + sha256.substr(0, kDigits) + file.substr(dot);
}

/// The objects of a folder by their names, with their sizes.
std::map<std::string, std::uint64_t> objects_in(const io::Opener& opener, const std::string& path,
                                                const std::stop_token& stop) {
  std::map<std::string, std::uint64_t> sizes;
  for (const io::ListedObject& object : opener.list(path + "/", {.stop = stop}))
    sizes[object.url.substr(path.size() + 1)] = object.bytes;
  return sizes;
}

}  // namespace

FileContents in_memory(const CheckpointFiles& files) {
  FileContents contents;
  for (const auto& [name, writer] : files) {
    MemorySink sink;
    writer(sink);
    contents[name] = sink.take();
  }
  return contents;
}

void write_stored_folder(const io::Opener& opener, const std::string& path,
                         const FileContents& files, const std::stop_token& stop) {
  auto there = objects_in(opener, path, stop);
  CheckpointManifest manifest;
  std::set<std::string> kept{kManifestName};
  for (const auto& [name, content] : files) {
    Sha256 hash;
    hash.update(content.span());
    const std::string object = object_name(name, hash.hex());
    manifest[name] = {.bytes = content.size(), .sha256 = hash.hex(), .object = object};
    kept.insert(object);
    if (const auto found = there.find(object);
        found == there.end() || found->second != content.size())
      put_object(opener, path + "/" + object, content.span(), stop);
  }
  const std::string text = to_json(manifest);
  put_object(opener, path + "/" + kManifestName, std::as_bytes(std::span(text)), stop);
  for (const auto& [object, size] : there)
    if (!kept.contains(object)) opener.remove(path + "/" + object, stop);
}

void remove_stored_folder(const io::Opener& opener, const std::string& path,
                          const std::stop_token& stop) {
  opener.remove(path + "/" + kManifestName, stop);
  for (const auto& [object, size] : objects_in(opener, path, stop))
    opener.remove(path + "/" + object, stop);
}

std::vector<std::string> whole_stored_folders(const io::Opener& opener, const std::string& parent,
                                              const std::function<void(const Error&)>& damaged) {
  const std::vector<io::ListedObject> objects = opener.list(parent + "/", {.recursive = true});
  std::set<std::string> folders;
  for (const io::ListedObject& object : objects) {
    const std::size_t slash = object.url.find('/', parent.size() + 1);
    if (slash != std::string::npos) folders.insert(object.url.substr(0, slash));
  }
  std::vector<std::string> whole;
  for (const std::string& path : folders) {
    try {
      FolderReader(path, opener).check_listed(objects);
      whole.push_back(path);
    } catch (const Error& error) {
      if (error.code() == ErrorCode::kIo || error.code() == ErrorCode::kCancelled) throw;
      damaged(error);
    }
  }
  return whole;
}

}  // namespace millrace::trainer::detail
