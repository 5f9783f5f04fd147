#include "tools/create/pair_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>

#include "io/base/error.h"
#include "io/folder_entries.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

bool is_field_name(std::string_view name) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
  };
  return !name.empty() && name.front() != '.' && name.back() != '.' &&
         std::all_of(name.begin(), name.end(), allowed);
}

}  // namespace

FolderPair parse_folder_pair(const std::string& text) {
  const std::size_t equals = text.find('=');
  FolderPair pair{.field = text.substr(0, equals),
                  .folder = equals == text.npos ? "" : text.substr(equals + 1)};
  require(!pair.folder.empty(), "--pair " + text + ": is NAME=FOLDER");
  require(is_field_name(pair.field),
          "--pair " + text + ": a field's name is small letters, digits, _, - and dots within");
  require(fs::is_directory(pair.folder), "--pair " + text + ": no folder is " + pair.folder);
  return pair;
}

PairFolder::PairFolder(const FolderPair& pair) : pair_(pair) {
  std::error_code error;
  fs::path at = pair_.folder;  // what is being listed
  for (fs::recursive_directory_iterator entry(pair_.folder, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    at = entry->is_directory() ? path : path.parent_path();
    const bool hidden = path.filename().string().starts_with('.');
    if (hidden && entry->is_directory()) entry.disable_recursion_pending();
    if (hidden || !entry->is_regular_file()) continue;
    fs::path stem = path.lexically_relative(pair_.folder);
    stem.replace_extension();
    const auto [file, fresh] = files_.try_emplace(stem.string(), File{.path = path.string()});
    if (fresh) continue;
    File& first = file->second;
    first.other = std::max(first.path, path.string());  // the same pair in any listing order
    first.path = std::min(first.path, path.string());
  }
  if (error) io::throw_unlisted(at.string(), error.value());
}

std::string PairFolder::take(const std::string& stem, const std::string& image) {
  const auto found = files_.find(stem);
  if (found == files_.end()) {
    throw Error(ErrorCode::kNotFound,
                fmt::format("{} has no {}: no file is {}.*", image, pair_.field,
                            (fs::path(pair_.folder) / stem).string()));
  }
  File& file = found->second;
  if (!file.other.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} and {} would both be the {} of {}", file.path, file.other,
                            pair_.field, image));
  }
  file.taken = true;
  return file.path;
}

std::uint64_t PairFolder::left_out() const {
  return static_cast<std::uint64_t>(std::count_if(
      files_.begin(), files_.end(), [](const auto& entry) { return !entry.second.taken; }));
}

}  // namespace millrace::tools
