#include "tools/create/folder_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "io/base/error.h"
#include "tools/create/keys.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

struct File {
  std::string path;
  std::string key;
  int label = -1;  ///< -1: none
};

bool is_image_suffix(const std::string& suffix) {
  static const std::set<std::string> known = {"jpg", "jpeg", "png", "ppm", "pgm", "pbm"};
  return known.contains(suffix);
}

/// What a folder holds, one level deep: names sorted by their bytes.
struct Listing {
  std::vector<std::string> folders;
  std::vector<File> images;
  std::uint64_t left_out = 0;
};

/// The part of the file's name that becomes the key may hold no dot: the key ends at the first.
File image_file(const fs::path& path, const std::string& prefix) {
  std::string stem = path.stem().string();
  std::replace(stem.begin(), stem.end(), '.', '_');
  return {.path = path.string(), .key = prefix + stem};
}

void add_entry(const fs::directory_entry& entry, const std::string& prefix, Listing& listing) {
  const std::string name = entry.path().filename().string();
  if (name.starts_with('.')) return;
  if (entry.is_directory()) {
    listing.folders.push_back(name);
  } else if (is_image_suffix(suffix_of(name))) {
    listing.images.push_back(image_file(entry.path(), prefix));
  } else {
    ++listing.left_out;
  }
}

Listing list_folder(const fs::path& folder, const std::string& prefix) {
  Listing listing;
  try {
    for (const auto& entry : fs::directory_iterator(folder)) add_entry(entry, prefix, listing);
  } catch (const fs::filesystem_error& error) {
    throw_errno("list", folder.string(), error.code().value());
  }
  std::sort(listing.folders.begin(), listing.folders.end());
  std::sort(listing.images.begin(), listing.images.end(),
            [](const File& a, const File& b) { return a.path < b.path; });
  return listing;
}

/// All images below `folder`, each folder's own before its sub-folders'.
void collect(const fs::path& folder, const std::string& prefix, int label, Listing& into) {
  Listing listing = list_folder(folder, prefix);
  into.left_out += listing.left_out;
  for (File& file : listing.images) {
    file.label = label;
    into.images.push_back(std::move(file));
  }
  for (const std::string& name : listing.folders)
    collect(folder / name, prefix + name + "/", label, into);
}

class FolderSource final : public SampleSource {
 public:
  FolderSource(std::vector<File> files, std::vector<std::string> classes, Recoding recoding)
      : files_(std::move(files)), classes_(std::move(classes)), recoding_(std::move(recoding)) {}

  std::uint64_t size() const override { return files_.size(); }
  std::vector<std::string> classes() const override { return classes_; }

  void identify(Sha256& into) const override {
    for (const File& file : files_) identify_file(file.path, into);
  }

  wds::Sample make(std::uint64_t index) const override {
    const File& file = files_[index];
    wds::Sample sample;
    sample.key = file.key;
    if (file.label >= 0)
      sample.fields.push_back(make_field("cls", io::Bytes::copy_of(std::to_string(file.label))));
    sample.fields.push_back(image_field(file.path, recoding_));
    return sample;
  }

 private:
  std::vector<File> files_;
  std::vector<std::string> classes_;
  Recoding recoding_;
};

}  // namespace

std::unique_ptr<SampleSource> open_folder_source(const std::string& folder,
                                                 const Recoding& recoding, const Log& log) {
  Listing top = list_folder(folder, "");
  Listing all;
  all.left_out = top.left_out;
  if (top.folders.empty())
    all.images = std::move(top.images);
  else if (!top.images.empty())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} holds both images ({}) and class folders ({})", folder,
                            top.images.front().path, top.folders.front()));
  std::vector<std::string> classes;
  for (const std::string& name : top.folders) {
    collect(fs::path(folder) / name, name + "/", static_cast<int>(classes.size()), all);
    classes.push_back(name);
  }
  if (all.images.empty())
    throw Error(ErrorCode::kInvalidArgument, folder + " holds no jpg, jpeg, png, ppm, pgm or pbm");
  refuse_shared_keys(
      all.images.size(), [&](std::uint64_t i) { return all.images[i].key; },
      [&](std::uint64_t i) { return all.images[i].path; });
  if (all.left_out > 0)
    log.warn(fmt::format("{} files left out: not images by their suffix", all.left_out));
  return std::make_unique<FolderSource>(std::move(all.images), std::move(classes), recoding);
}

}  // namespace millrace::tools
