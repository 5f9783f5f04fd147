#include "trainer/detail/store/stored_folder.h"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "trainer/run_files.h"

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

/// "model.safetensors" is "model-MARK.safetensors".
std::string object_name(const std::string& file, const std::string& mark) {
  const std::size_t dot = std::min(file.find('.'), file.size());
  return file.substr(0, dot) + "-" + mark + file.substr(dot);
}

/// The objects of a folder by their names, with their sizes.
std::map<std::string, std::uint64_t> objects_in(const io::Opener& opener, const std::string& path,
                                                const std::stop_token& stop) {
  std::map<std::string, std::uint64_t> sizes;
  for (const io::ListedObject& object : opener.list(path + "/", {.stop = stop}))
    sizes[object.url.substr(path.size() + 1)] = object.bytes;
  return sizes;
}

/// The objects that the manifest at `path` names; none if there is no checkpoint.
std::set<std::string> named_objects(const io::Opener& opener, const std::string& path) {
  std::set<std::string> named;
  try {
    const FolderReader folder(path, opener);
    for (const auto& [name, entry] : folder.manifest().files)
      named.insert(entry.object.empty() ? name : entry.object);
  } catch (const Error& error) {
    if (!cannot_be_seen(error) && error.code() != ErrorCode::kCorrupt) throw;
  }
  return named;
}

/// What a store has of a checkpoint, and so the names that do not touch it.
class StoredObjects {
 public:
  StoredObjects(const io::Opener& opener, const std::string& path, const std::stop_token& stop)
      : is_listed_(opener.can_list(path + "/")) {
    if (is_listed_)
      sizes_ = objects_in(opener, path, stop);
    else
      named_ = named_objects(opener, path);
  }

  std::string name_for(const std::string& file, const ManifestEntry& entry) const {
    constexpr std::size_t kDigits = 16;
    if (is_listed_) return object_name(file, entry.sha256.substr(0, kDigits));
    std::string name = object_name(file, "a");
    return named_.contains(name) ? object_name(file, "b") : name;
  }
  bool has(const std::string& object, std::uint64_t bytes) const {
    const auto found = sizes_.find(object);
    return found != sizes_.end() && found->second == bytes;
  }
  const std::map<std::string, std::uint64_t>& sizes() const { return sizes_; }

 private:
  bool is_listed_;
  std::map<std::string, std::uint64_t> sizes_;  // if they can be listed
  std::set<std::string> named_;                 // by the manifest, else
};

void put_file(const io::Opener& opener, const std::string& url, const FileWriter& writer,
              const std::stop_token& stop) {
  const auto sink = opener.open_sink(url, {.replace = io::Replace::kAtomically}, stop);
  writer(*sink);
  sink->finish();
}

}  // namespace

StoredFiles in_memory(const CheckpointFiles& files) {
  StoredFiles contents{.run = files.run};
  for (const auto& [name, writer] : files.writers) {
    MemorySink sink;
    writer(sink);
    const io::Bytes content = sink.take();
    contents.files[name] = {.entry =
                                [content] {
                                  Sha256 hash;
                                  hash.update(content.span());
                                  return ManifestEntry{.bytes = content.size(),
                                                       .sha256 = hash.hex()};
                                },
                            .write = [content](io::ByteSink& into) { into.write(content.span()); }};
  }
  return contents;
}

StoredFiles files_of(const FolderReader& folder) {
  StoredFiles copied{.run = folder.manifest().run};
  for (const auto& file : folder.manifest().files) {
    const std::string& name = file.first;
    copied.files[name] = {
        .entry = [entry = file.second] { return entry; },
        .write = [&folder, name](io::ByteSink& into) { folder.copy(name, into); }};
  }
  return copied;
}

void write_stored_folder(const io::Opener& opener, const std::string& path,
                         const StoredFiles& files, const std::stop_token& stop) {
  const StoredObjects there(opener, path, stop);
  CheckpointManifest manifest{.run = files.run};
  std::set<std::string> kept{kManifestName};
  for (const auto& [name, file] : files.files) {
    ManifestEntry entry = file.entry();
    entry.object = there.name_for(name, entry);
    kept.insert(entry.object);
    if (!there.has(entry.object, entry.bytes))
      put_file(opener, path + "/" + entry.object, file.write, stop);
    manifest.files[name] = std::move(entry);
  }
  const std::string text = to_json(manifest);
  put_object(opener, path + "/" + kManifestName, std::as_bytes(std::span(text)), stop);
  for (const auto& [object, size] : there.sizes())
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
