#include "trainer/detail/store/checkpoint_folder.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/json.h"
#include "io/byte_source.h"
#include "io/local_path.h"

namespace millrace::trainer::detail {
namespace {

namespace fs = std::filesystem;
using OrderedJson = nlohmann::ordered_json;

constexpr std::size_t kMaxManifestBytes = std::size_t{1024} * 1024;
constexpr std::size_t kMaxFiles = 64;
constexpr std::size_t kMaxRunBytes = 64;
constexpr std::size_t kChunkBytes = std::size_t{1024} * 1024;
constexpr const char* kTooLong = "a file is longer than in its manifest";

// Hashes what is written to another sink.
class HashingSink final : public io::ByteSink {
 public:
  HashingSink(std::unique_ptr<io::ByteSink> sink, const BytesDone& done)
      : sink_(std::move(sink)), done_(done) {}
  void write(std::span<const std::byte> data) override {
    hash_.update(data);
    sink_->write(data);
    if (done_) done_(position());
  }
  void finish() override { sink_->finish(); }
  std::uint64_t position() const override { return sink_->position(); }
  ManifestEntry entry() const { return {.bytes = position(), .sha256 = hash_.hex()}; }

 private:
  std::unique_ptr<io::ByteSink> sink_;
  const BytesDone& done_;
  Sha256 hash_;
};

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

ManifestEntry write_file(const std::string& path, const FileWriter& writer,
                         const BytesDone& done = {}) {
  HashingSink sink(io::open_file_sink(path, {.replace = io::Replace::kAtomically}), done);
  writer(sink);
  sink.finish();
  return sink.entry();
}

[[noreturn]] void corrupt(const std::string& message, const Where& where = {}) {
  throw Error(ErrorCode::kCorrupt, message, where);
}

OrderedJson parse_manifest(const io::Bytes& file) {
  try {
    OrderedJson manifest = parse_json<OrderedJson>(file.text(), "manifest");
    const OrderedJson& files = manifest.at("files");
    const bool fits = manifest.value("run", "").size() <= kMaxRunBytes;
    if (files.is_object() && files.size() <= kMaxFiles && fits) return manifest;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {  // reported below
  }
  corrupt("the manifest is not a checkpoint's");
}

/// The folder of the checkpoint `path`: `path` itself or `path`.previous.
std::string find_folder(const std::string& path) {
  if (io::is_network_url(path)) return path;
  const std::string previous = path + ".previous";
  const bool swapped_out = !fs::exists(path) && fs::exists(previous);
  std::string found = swapped_out ? previous : path;
  if (!fs::exists(found)) {
    throw Error(ErrorCode::kNotFound, "no checkpoint", {.url = path});
  }
  return found;
}

ManifestEntry parse_entry(const OrderedJson& json) {
  ManifestEntry entry{.bytes = json.at("bytes").get<std::uint64_t>(),
                      .sha256 = json.at("sha256").get<std::string>(),
                      .object = json.value("object", "")};
  const bool good =
      json.at("bytes").is_number_unsigned() && entry.object.find('/') == std::string::npos;
  if (!good) corrupt("a bad entry");
  return entry;
}

bool is_whole(const std::string& path) {
  try {
    FolderReader(path, io::UrlOpener()).verify();
    return true;
  } catch (const Error&) {
    return false;
  }
}

void check_file(std::uint64_t size, const Sha256& hash, std::uint64_t bytes,
                const std::string& sha256, const Where& where) {
  if (size < bytes) {
    throw Error(ErrorCode::kTruncated, "a file is shorter than in its manifest", where);
  }
  if (hash.hex() != sha256) corrupt("a file's SHA-256 is not its manifest's", where);
}

/// Names under which a folder is missing although there is a new or a previous one.
std::set<std::string> interrupted_swaps(const std::string& parent) {
  constexpr std::string_view kFresh = ".tmp";
  constexpr std::string_view kPrevious = ".previous";
  std::set<std::string> names;
  for (std::string name : io::names_in(parent)) {
    if (name.ends_with(kPrevious)) {
      name.erase(name.size() - kPrevious.size());
    } else if (name.starts_with('.') && name.ends_with(kFresh)) {
      name = name.substr(1, name.size() - 1 - kFresh.size());
    } else {
      continue;
    }
    if (!name.empty() && !fs::exists(parent + "/" + name)) names.insert(name);
  }
  return names;
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

std::string to_json(const CheckpointManifest& manifest) {
  OrderedJson files = OrderedJson::object();
  for (const auto& [name, entry] : manifest.files) {
    files[name] = {{"bytes", entry.bytes}, {"sha256", entry.sha256}};
    if (!entry.object.empty()) files[name]["object"] = entry.object;
  }
  OrderedJson json{{"version", 1}};
  if (!manifest.run.empty()) json["run"] = manifest.run;
  json["files"] = std::move(files);
  return json.dump(2) + "\n";
}

void write_folder(const std::string& parent, const std::string& name, const CheckpointFiles& files,
                  const BytesDone& done) {
  const std::string fresh = parent + "/." + name + ".tmp";
  io::check_local_path(parent);
  make_folders(parent);
  remove_folder(fresh);
  make_folders(fresh);
  try {
    CheckpointManifest entries{.run = files.run};
    std::uint64_t before = 0;
    const BytesDone all_done = [&](std::uint64_t bytes) {
      if (done) done(before + bytes);
    };
    for (const auto& [file, writer] : files.writers) {
      entries.files[file] = write_file(fresh + "/" + file, writer, all_done);
      before += entries.files[file].bytes;
    }
    const std::string manifest = to_json(entries);
    write_file(fresh + "/" + kManifestName,
               [&](io::ByteSink& sink) { sink.write(std::as_bytes(std::span(manifest))); });
    FolderReader(fresh, io::UrlOpener()).verify(all_done);
  } catch (...) {
    std::error_code ignored;
    fs::remove_all(fresh, ignored);
    throw;
  }
  swap_in(fresh, parent + "/" + name);
  io::sync_folder(parent);
  remove_folder(parent + "/" + name + ".previous");
}

void recover_folders(const std::string& parent, const Log& log) {
  for (const std::string& name : interrupted_swaps(parent)) {
    const std::string path = parent + "/" + name;
    const std::string fresh = parent + "/." + name + ".tmp";
    if (is_whole(fresh)) {
      rename_folder(fresh, path);
    } else if (fs::exists(path + ".previous")) {
      rename_folder(path + ".previous", path);
    } else {
      continue;
    }
    io::sync_folder(parent);
    log.info("an earlier run was killed while replacing a checkpoint: " + path + " is restored");
  }
}

namespace {

io::Bytes read_manifest_text(const std::string& folder, const io::Opener& opener) {
  try {
    return io::read_object(opener, folder + "/" + kManifestName, kMaxManifestBytes);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kNotFound) throw;
    throw Error(ErrorCode::kNotFound,
                "no checkpoint in " + io::printable_url(folder) +
                    ": it is neither one, with a manifest.json, nor a run's folder with "
                    "checkpoints/last or checkpoints/best");
  }
}

}  // namespace

FolderReader::FolderReader(const std::string& path, const io::Opener& opener)
    : path_(find_folder(path)), opener_(opener) {
  const OrderedJson manifest = parse_manifest(read_manifest_text(path_, opener_));
  manifest_.run = manifest.value("run", "");
  for (const auto& [name, entry] : manifest.at("files").items()) {
    try {
      if (name.find('/') != std::string::npos) corrupt("a bad name");
      manifest_.files[name] = parse_entry(entry);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const std::exception&) {
      corrupt("the manifest has a bad entry", {.url = path_, .member = name});
    }
  }
}

std::string FolderReader::url_of(const std::string& name, const ManifestEntry& entry) const {
  return path_ + "/" + (entry.object.empty() ? name : entry.object);
}

const ManifestEntry& FolderReader::entry_of(const std::string& name) const {
  const auto found = manifest_.files.find(name);
  if (found == manifest_.files.end())
    corrupt("a checkpoint lacks one of its files", {.url = path_, .member = name});
  return found->second;
}

io::Bytes FolderReader::read(const std::string& name, std::uint64_t limit_bytes) const {
  const ManifestEntry& entry = entry_of(name);
  const std::string url = url_of(name, entry);
  const Where where{.url = url, .stage = "checkpoint"};
  if (entry.bytes > limit_bytes) {
    corrupt("a file of " + std::to_string(entry.bytes) + " bytes; at most " +
                std::to_string(limit_bytes) + " are needed",
            where);
  }
  io::Bytes file;
  try {
    file = io::read_object(opener_, url, entry.bytes);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kExhausted) corrupt(kTooLong, where);
    throw;
  }
  Sha256 hash;
  hash.update(file.span());
  check_file(file.size(), hash, entry.bytes, entry.sha256, where);
  return file;
}

void FolderReader::pass(const ManifestEntry& entry, const std::string& url,
                        const Take& take) const {
  const Where where{.url = url, .stage = "checkpoint"};
  const auto source = opener_.open(url);
  std::vector<std::byte> chunk(kChunkBytes);
  Sha256 hash;
  std::uint64_t size = 0;
  while (const std::size_t got = source->read(chunk)) {
    hash.update(std::span(chunk).first(got));
    size += got;
    if (size > entry.bytes) corrupt(kTooLong, where);
    take(std::span(chunk).first(got));
  }
  check_file(size, hash, entry.bytes, entry.sha256, where);
}

void FolderReader::verify(const BytesDone& done) const {
  std::uint64_t read = 0;
  for (const auto& [name, entry] : manifest_.files)
    pass(entry, url_of(name, entry), [&](std::span<const std::byte> piece) {
      read += piece.size();
      if (done) done(read);
    });
}

void FolderReader::copy(const std::string& name, io::ByteSink& sink) const {
  const ManifestEntry& entry = entry_of(name);
  pass(entry, url_of(name, entry), [&](std::span<const std::byte> piece) { sink.write(piece); });
}

void FolderReader::check_listed(const std::vector<io::ListedObject>& objects) const {
  for (const auto& [name, entry] : manifest_.files) {
    const std::string url = url_of(name, entry);
    const Where where{.url = url, .stage = "checkpoint"};
    const auto found = std::ranges::find(objects, url, &io::ListedObject::url);
    if (found == objects.end())
      throw Error(ErrorCode::kNotFound, "a file of a checkpoint is missing", where);
    if (found->bytes != entry.bytes)
      throw Error(ErrorCode::kTruncated, "a file has another size than in its manifest", where);
  }
}

}  // namespace millrace::trainer::detail
