#include "trainer/detail/checkpoint_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/byte_source.h"
#include "io/opener.h"

namespace millrace::trainer::detail {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

constexpr const char* kManifest = "manifest.json";
constexpr std::size_t kMaxManifestBytes = std::size_t{1024} * 1024;
constexpr std::size_t kMaxFiles = 64;

// Passes on what it is given, and hashes it.
class HashingSink final : public io::ByteSink {
 public:
  explicit HashingSink(std::unique_ptr<io::ByteSink> sink) : sink_(std::move(sink)) {}
  void write(std::span<const std::byte> data) override {
    hash_.update(data);
    sink_->write(data);
  }
  void finish() override { sink_->finish(); }
  std::uint64_t position() const override { return sink_->position(); }
  Json entry() const { return {{"bytes", position()}, {"sha256", hash_.hex()}}; }

 private:
  std::unique_ptr<io::ByteSink> sink_;
  Sha256 hash_;
};

void sync_folder(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_errno("open", path, errno);
  const int result = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  // Some file systems cannot sync a folder and say EINVAL: then there is nothing to wait for.
  if (result != 0 && error_number != EINVAL) throw_errno("fsync", path, error_number);
}

void rename_folder(const std::string& from, const std::string& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) throw_errno("rename to", to, errno);
}

void remove_folder(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (error) throw_errno("remove", path, error.value());
}

void make_folders(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw_errno("create folder", path, error.value());
}

Json write_file(const std::string& path, const FileWriter& writer) {
  HashingSink sink(io::open_file_sink(path, {.replace = io::Replace::kAtomically}));
  writer(sink);
  sink.finish();
  return sink.entry();
}

io::Bytes read_file(const std::string& path, std::size_t limit) {
  const auto source = io::UrlOpener().open(path);
  return io::read_all(*source, limit);
}

Json parse_manifest(const io::Bytes& file) {
  try {
    Json manifest = parse_json<Json>(file.text(), "manifest").at("files");
    if (!manifest.is_object() || manifest.size() > kMaxFiles) throw Error(ErrorCode::kCorrupt, "");
    return manifest;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    throw Error(ErrorCode::kCorrupt, "the manifest is not what a checkpoint holds");
  }
}

io::Bytes read_checked(const std::string& folder, const std::string& name, const Json& entry) {
  const std::string path = folder + "/" + name;
  if (name.find('/') != std::string::npos || !entry.is_object() || !entry.contains("bytes") ||
      !entry["bytes"].is_number_unsigned() || !entry.contains("sha256")) {
    throw Error(ErrorCode::kCorrupt, "the manifest has a bad entry", {.member = name});
  }
  const auto bytes = entry["bytes"].get<std::uint64_t>();
  io::Bytes file;
  try {
    file = read_file(path, bytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kExhausted) throw;
    throw Error(ErrorCode::kCorrupt, "a file is longer than its manifest says", {.url = path});
  }
  if (file.size() != bytes) {
    throw Error(ErrorCode::kTruncated, "a file is shorter than its manifest says", {.url = path});
  }
  Sha256 hash;
  hash.update(file.span());
  if (entry["sha256"] != hash.hex()) {
    throw Error(ErrorCode::kCorrupt, "a file's SHA-256 is not its manifest's", {.url = path});
  }
  return file;
}

FolderFiles read_exactly(const std::string& path, const std::string& only = "") {
  const Json manifest = parse_manifest(read_file(path + "/" + kManifest, kMaxManifestBytes));
  FolderFiles files;
  for (const auto& [name, entry] : manifest.items()) {
    if (only.empty() || name == only) files[name] = read_checked(path, name, entry);
  }
  return files;
}

/// Where the checkpoint called `path` lies.
std::string find_folder(const std::string& path) {
  if (io::is_network_url(path)) return path;
  const std::string previous = path + ".previous";
  const bool swapped_out = !fs::exists(path) && fs::exists(previous);
  std::string found = swapped_out ? previous : path;
  if (!fs::exists(found)) {
    throw Error(ErrorCode::kNotFound, "there is no checkpoint", {.url = path});
  }
  return found;
}

void swap_in(const std::string& fresh, const std::string& path) {
  const std::string previous = path + ".previous";
  if (fs::exists(path)) {
    remove_folder(previous);
    rename_folder(path, previous);
  }
  rename_folder(fresh, path);
}

}  // namespace

void write_folder(const std::string& parent, const std::string& name,
                  const std::map<std::string, FileWriter>& files) {
  const std::string fresh = parent + "/." + name + ".tmp";
  make_folders(parent);
  remove_folder(fresh);
  make_folders(fresh);
  try {
    Json entries = Json::object();
    for (const auto& [file, writer] : files) entries[file] = write_file(fresh + "/" + file, writer);
    const std::string manifest = Json{{"version", 1}, {"files", entries}}.dump(2) + "\n";
    write_file(fresh + "/" + kManifest,
               [&](io::ByteSink& sink) { sink.write(std::as_bytes(std::span(manifest))); });
    read_exactly(fresh);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
  swap_in(fresh, parent + "/" + name);
  sync_folder(parent);
  remove_folder(parent + "/" + name + ".previous");
}

FolderFiles read_folder(const std::string& path, const std::string& only) {
  const std::string found = find_folder(path);
  try {
    return read_exactly(found, only);
  } catch (Error& error) {
    error.annotate({.url = found, .stage = "checkpoint"});
    throw;
  }
}

}  // namespace millrace::trainer::detail
