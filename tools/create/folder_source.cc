#include "tools/create/folder_source.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "decode/codec.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "io/folder_entries.h"
#include "tools/create/file_identities.h"
#include "tools/create/keys.h"
#include "tools/text_edit.h"

namespace millrace::tools {
namespace {

struct File {
  std::string path;
  std::string stem;  ///< its path below the folder, without the suffix
  std::string key;
  int label = -1;                  ///< -1: none
  std::vector<std::string> pairs;  ///< paths, one per paired folder
};

/// The contents of a folder, one level deep: names sorted by their bytes.
struct Listing {
  std::vector<std::string> folders;
  std::vector<File> images;
  std::uint64_t left_out = 0;
  std::string first_left_out;  ///< its path
  std::uint64_t hidden = 0;    ///< files and folders
};

std::string path_in_folder(const std::string& folder, const std::string& name) {
  return folder + (folder.empty() || folder.ends_with('/') ? "" : "/") + name;
}

/// The part of the file name that becomes the key must not have a dot: a key ends at the first.
File image_file(const std::string& folder, const std::string& file, const std::string& prefix) {
  const std::string stem = file.substr(0, file.rfind('.'));
  std::string name = stem;
  std::replace(name.begin(), name.end(), '.', '_');
  return {.path = path_in_folder(folder, file),
          .stem = prefix + stem,
          .key = prefix + name,
          .pairs = {}};
}

bool is_image(const std::string& file) {
  return decode::standard_codecs()->of_suffix(suffix_of(file)) != nullptr;
}

void count_left_out(std::uint64_t count, const std::string& first, Listing& from) {
  if (from.left_out == 0) from.first_left_out = first;
  from.left_out += count;
}

Listing list_folder(const std::string& folder, const std::string& prefix) {
  std::vector<io::FolderEntry> entries = io::entries_in(folder);
  Listing listing;
  listing.hidden =
      std::erase_if(entries, [](const auto& entry) { return entry.name.starts_with('.'); });
  std::ranges::sort(entries, {}, &io::FolderEntry::name);
  for (io::FolderEntry& entry : entries) {
    if (entry.is_folder)
      listing.folders.push_back(std::move(entry.name));
    else if (is_image(entry.name))
      listing.images.push_back(image_file(folder, entry.name, prefix));
    else
      count_left_out(1, path_in_folder(folder, entry.name), listing);
  }
  return listing;
}

/// All images below `folder`; a folder's own come before those of its sub-folders.
void collect(const std::string& folder, const std::string& prefix, int label, Listing& into) {
  Listing listing = list_folder(folder, prefix);
  count_left_out(listing.left_out, listing.first_left_out, into);
  into.hidden += listing.hidden;
  for (File& file : listing.images) {
    file.label = label;
    into.images.push_back(std::move(file));
  }
  for (const std::string& name : listing.folders)
    collect(path_in_folder(folder, name), prefix + name + "/", label, into);
}

/// The class of an image at "animals/cat/old/1": its folders' first `depth` names; empty if there
/// are fewer.
std::string nested_class(const std::string& stem, int depth) {
  const std::size_t end = stem.rfind('/');
  if (end == std::string::npos) return {};
  if (depth == 0) return stem.substr(0, end);
  std::size_t at = 0;
  for (int level = 0; level < depth; ++level) {
    at = stem.find('/', at + (level > 0 ? 1 : 0));
    if (at == std::string::npos) return {};
  }
  return stem.substr(0, at);
}

/// Images whose classes are folders of several levels.
Listing list_nested(const std::string& folder, int depth, std::vector<std::string>& classes) {
  Listing all;
  collect(folder, "", -1, all);
  std::map<std::string, int> numbers;
  for (const File& file : all.images) {
    const std::string name = nested_class(file.stem, depth);
    if (name.empty())
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("{} is in no class's folder, {} below {}", file.path,
                      depth == 0 ? "a folder" : counted(static_cast<std::uint64_t>(depth), "level"),
                      folder));
    numbers[name] = 0;
  }
  for (auto& [name, number] : numbers) {
    number = static_cast<int>(classes.size());
    classes.push_back(name);
  }
  for (File& file : all.images) file.label = numbers[nested_class(file.stem, depth)];
  return all;
}

/// Images, all in one folder or each in the folder of its class.
Listing list_images(const std::string& folder, int depth, std::vector<std::string>& classes) {
  if (depth != 1) return list_nested(folder, depth, classes);
  Listing top = list_folder(folder, "");
  if (top.folders.empty()) return top;
  if (!top.images.empty())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} holds both images ({}) and class folders ({})", folder,
                            top.images.front().path, top.folders.front()));
  Listing all;
  count_left_out(top.left_out, top.first_left_out, all);
  all.hidden = top.hidden;
  for (const std::string& name : top.folders) {
    collect(path_in_folder(folder, name), name + "/", static_cast<int>(classes.size()), all);
    classes.push_back(name);
  }
  return all;
}

/// "jpg, jpeg, png".
std::string image_suffixes() { return replaced(decode::standard_codecs()->suffixes(), ";", ", "); }

void find_pairs(std::vector<File>& images, const FolderPair& pair, const Log& log) {
  PairFolder folder(pair);
  for (File& image : images) image.pairs.push_back(folder.take(image.stem, image.path));
  if (folder.left_out() > 0)
    log.warn(fmt::format("{} of {} left out: no image of that name",
                         counted(folder.left_out(), "file"), pair.folder));
}

class FolderSource final : public SampleSource {
 public:
  FolderSource(std::vector<File> files, std::vector<std::string> classes, FolderOptions options)
      : files_(std::move(files)), classes_(std::move(classes)), options_(std::move(options)) {}

  std::uint64_t size() const override { return files_.size(); }
  std::vector<std::string> classes() const override { return classes_; }

  void identify(Sha256& into) const override {
    const std::uint64_t each = 1 + options_.pairs.size();  // the image, then its pairs
    const auto path = [&](std::uint64_t index) {
      const File& file = files_[index / each];
      return index % each == 0 ? file.path : file.pairs[index % each - 1];
    };
    identify_files(each * size(), path, into);
  }

  wds::Sample make(std::uint64_t index) const override {
    const File& file = files_[index];
    wds::Sample sample;
    sample.key = file.key;
    if (file.label >= 0)
      sample.fields.push_back(make_field("cls", io::Bytes::copy_of(std::to_string(file.label))));
    sample.fields.push_back(image_field(file.path, options_.recoding));
    for (std::size_t i = 0; i < file.pairs.size(); ++i) {
      wds::Field field = image_field(file.pairs[i], {});
      const std::string& name = options_.pairs[i].field;
      field.suffix = field.suffix.empty() ? name : name + "." + field.suffix;
      sample.fields.push_back(std::move(field));
    }
    return sample;
  }

 private:
  std::vector<File> files_;
  std::vector<std::string> classes_;
  FolderOptions options_;
};

}  // namespace

std::unique_ptr<SampleSource> open_folder_source(const FolderOptions& options, const Log& log) {
  std::vector<std::string> classes;
  Listing all = list_images(options.folder, options.class_depth, classes);
  if (all.images.empty())
    throw Error(ErrorCode::kInvalidArgument, options.folder + " holds no " + image_suffixes());
  check_keys(
      all.images.size(), [&](std::uint64_t i) { return all.images[i].key; },
      [&](std::uint64_t i) { return all.images[i].path; });
  for (const FolderPair& pair : options.pairs) find_pairs(all.images, pair, log);
  if (all.left_out > 0)
    log.warn(fmt::format("{} left out: not an image by its suffix: {}{}",
                         counted(all.left_out, "file"), printable(all.first_left_out, 400),
                         all.left_out > 1 ? ", ..." : ""));
  if (all.hidden > 0)
    log.info(fmt::format("{} left out: hidden by a dot in front", counted(all.hidden, "name")));
  return std::make_unique<FolderSource>(std::move(all.images), std::move(classes), options);
}

}  // namespace millrace::tools
