#include "tools/create/shard_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <utility>

#include "io/base/error.h"
#include "tools/label_map.h"
#include "wds/shard_writer.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

/// What stands before and after the number in the pattern's file name.
std::pair<std::string, std::string> around_number(const std::string& pattern) {
  const std::string zero = fs::path(wds::shard_name(pattern, 0)).filename().string();
  const std::string name = fs::path(pattern).filename().string();
  const std::size_t begin = name.find('%');
  const std::size_t end = begin == std::string::npos ? begin : name.find('d', begin);
  if (end == std::string::npos)
    throw Error(ErrorCode::kInvalidArgument,
                pattern + ": the shards' number (%06d) must be in the file's name");
  return {name.substr(0, begin), name.substr(end + 1)};
}

/// The digits that stand for the number in `name`; empty when it is no shard of the pattern.
std::string number_in(const std::string& name, const std::string& before,
                      const std::string& after) {
  if (name.size() <= before.size() + after.size() || !name.starts_with(before) ||
      !name.ends_with(after))
    return {};
  std::string digits = name.substr(before.size(), name.size() - before.size() - after.size());
  const bool all = digits.size() < 18 && digits.find_first_not_of("0123456789") == digits.npos;
  return all ? digits : std::string();
}

void remove_file(const std::string& path) {
  if (std::remove(path.c_str()) != 0 && errno != ENOENT) throw_errno("delete", path, errno);
}

}  // namespace

std::vector<std::string> existing_shards(const std::string& pattern) {
  const auto [before, after] = around_number(pattern);
  const fs::path folder = fs::path(pattern).parent_path();
  std::map<unsigned long long, std::string> found;
  std::error_code ignored;  // no folder yet: no shards
  for (const auto& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const std::string digits = number_in(entry.path().filename().string(), before, after);
    if (digits.empty()) continue;
    const unsigned long long number = std::stoull(digits);
    const std::string name = wds::shard_name(pattern, number);
    if (fs::path(name).filename() == entry.path().filename()) found[number] = name;
  }
  std::vector<std::string> names;
  for (auto& [number, name] : found) names.push_back(std::move(name));
  return names;
}

void refuse_existing_shards(const std::string& pattern) {
  const auto found = existing_shards(pattern);
  if (!found.empty())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} exists ({} shards of this pattern do): --force replaces them",
                            found.front(), found.size()));
}

void delete_shards(const std::string& pattern) {
  for (const std::string& shard : existing_shards(pattern)) {
    remove_file(shard);
    remove_file(shard + ".index.json");
  }
  remove_file(label_map_url(wds::shard_name(pattern, 0)));
}

}  // namespace millrace::tools
