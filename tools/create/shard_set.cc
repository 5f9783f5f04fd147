#include "tools/create/shard_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/local_path.h"
#include "io/opener.h"
#include "tools/command.h"
#include "tools/create/local_file.h"
#include "tools/label_map.h"
#include "tools/output_place.h"
#include "tools/text_edit.h"
#include "wds/set_file.h"
#include "wds/shard_index.h"
#include "wds/shard_name.h"

namespace millrace::tools {

std::string fold_pattern(const std::string& pattern, std::uint32_t fold) {
  return replaced(pattern, kFoldMark, std::to_string(fold));
}

std::vector<std::string> set_patterns(const std::string& pattern, std::uint32_t folds) {
  const bool marked = pattern.find(kFoldMark) != std::string::npos;
  const std::string shown = io::printable_url(pattern);
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::kInvalidArgument, message);
  };
  if (marked && folds == 0) refuse(shown + ": {fold} in the pattern needs --folds");
  if (!marked && folds > 0)
    refuse(shown + ": --folds needs {fold} in the pattern, as in out/fold{fold}/train-%06d.tar");
  std::vector<std::string> patterns;
  if (folds == 0) patterns.push_back(pattern);
  for (std::uint32_t fold = 0; fold < folds; ++fold)
    patterns.push_back(fold_pattern(pattern, fold));
  std::set<std::string> manifests;
  for (const std::string& one : patterns)
    if (!manifests.insert(manifest_path(one)).second)
      refuse(shown + ": all folds would have the manifest " +
             io::printable_url(manifest_path(one)) +
             ": part the fold from the number, as in fold{fold}-%06d.tar");
  return patterns;
}

namespace {

namespace fs = std::filesystem;

void for_names_beside(const io::Opener& opener, const std::string& pattern,
                      const std::function<void(const std::string& name)>& each) {
  if (io::is_network_url(pattern)) {
    const std::string prefix = pattern.substr(0, pattern.rfind('/') + 1);
    for (const io::ListedObject& object : opener.list(prefix))
      each(object.url.substr(prefix.size()));
    return;
  }
  for (const std::string& name : io::names_in(fs::path(pattern).parent_path().string())) each(name);
}

using Numbered = std::map<unsigned long long, std::string>;

/// In a store that cannot list, by asking for each number. Several processes that were killed leave
/// gaps.
Numbered numbered_by_asking(const io::Opener& opener, const std::string& pattern,
                            const std::string& suffix) {
  constexpr unsigned long long kWidestGap = 16;
  const unsigned long long most = io::ListOptions().most;
  const std::string beyond = wds::shard_name(pattern, most) + suffix;
  if (output_exists(opener, beyond))
    throw Error(ErrorCode::kInvalidArgument,
                "the server answers for a shard that can hardly be there: which are cannot be told",
                {.url = beyond});
  Numbered found;
  for (unsigned long long number = 0, gap = 0; number < most && gap < kWidestGap; ++number) {
    const std::string url = wds::shard_name(pattern, number) + suffix;
    const bool exists = output_exists(opener, url);
    gap = exists ? 0 : gap + 1;
    if (exists) found[number] = url;
  }
  return found;
}

/// The files of the pattern by number, whose names end in `suffix` after the shard's name.
Numbered numbered(const io::Opener& opener, const std::string& pattern, const std::string& suffix) {
  wds::AroundNumber around = wds::around_number(pattern);
  if (io::is_network_url(pattern) && !opener.can_list(pattern))
    return numbered_by_asking(opener, pattern, suffix);
  around.after += suffix;
  Numbered found;
  for_names_beside(opener, pattern, [&](const std::string& name) {
    const std::string digits = around.digits_in(name);
    if (digits.empty()) return;
    const unsigned long long number = std::stoull(digits);
    const std::string path = wds::shard_name(pattern, number) + suffix;
    if (fs::path(path).filename() == name) found[number] = path;
  });
  return found;
}

void remove_file(const io::Opener& opener, const std::string& path) {
  if (io::is_network_url(path)) {
    // A server that cannot list may not allow removal either, of what is not there.
    if (opener.can_list(path) || output_exists(opener, path)) opener.remove(path);
    return;
  }
  if (std::remove(path.c_str()) != 0 && errno != ENOENT) throw_errno("delete", path, errno);
}

// The first temporary name of io's file sinks; a second one would need a second writer.
void delete_temporaries(const io::Opener& opener, const std::string& pattern) {
  if (io::is_network_url(pattern)) return;  // a store has none
  for (const char* suffix : {".tmp-0", ".index.json.tmp-0"})
    for (const auto& [number, path] : numbered(opener, pattern, suffix)) remove_file(opener, path);
  remove_file(opener, manifest_path(pattern) + ".tmp-0");
  remove_file(opener, label_map_url(wds::shard_name(pattern, 0)) + ".tmp-0");
}

wds::ShardSummary summary(const std::string& shard, const wds::ShardIndex& index) {
  return {
      .url = shard, .samples = index.samples.size(), .bytes = index.bytes, .sha256 = index.sha256};
}

/// A damaged index counts as missing: it can be built again.
std::shared_ptr<const wds::ShardIndex> sound_index(const io::Opener& opener,
                                                   const std::string& shard) {
  try {
    return wds::find_index(opener, shard);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) throw;
    return nullptr;
  }
}

/// Nullopt if the shard is not intact.
std::optional<wds::ShardSummary> whole_shard(const io::Opener& opener, const std::string& shard,
                                             bool indexed) {
  const auto index = sound_index(opener, local_url(shard));
  if (index && indexed && index->bytes == fs::file_size(shard)) return summary(shard, *index);
  try {
    wds::ShardIndex built = wds::build_index(opener, local_url(shard));
    if (indexed) wds::write_index(built, wds::index_url(shard), io::Replace::kAtomically);
    if (!indexed) built.sha256.clear();
    return summary(shard, built);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kIo) throw;
    return {};
  }
}

}  // namespace

std::vector<std::string> existing_shards(const io::Opener& opener, const std::string& pattern) {
  std::vector<std::string> names;
  for (auto& [number, name] : numbered(opener, pattern, "")) names.push_back(name);
  return names;
}

std::string manifest_path(const std::string& pattern) {
  return wds::set_file(wds::shard_name(pattern, 0), "manifest.json");
}

/// "a.tar", "a.tar.zst"; not what lies beside them, such as "a.tar.sha256".
bool is_shard_name(const std::string& name) {
  constexpr std::array kEnds = {".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz", ".tar.zst"};
  return !name.starts_with('.') &&
         std::ranges::any_of(kEnds, [&](const char* end) { return name.ends_with(end); });
}

// Its number has another width, or begins elsewhere: the files of the set have the same names.
void refuse_other_set(const io::Opener& opener, const std::string& pattern) {
  if (io::is_network_url(pattern) && !opener.can_list(pattern)) return;
  const wds::AroundNumber around = wds::around_number(pattern);
  const std::string folder = pattern.substr(0, pattern.rfind('/') + 1);
  const std::string manifest = manifest_path(pattern);
  for_names_beside(opener, pattern, [&](const std::string& name) {
    if (!is_shard_name(name) || wds::set_file(folder + name, "manifest.json") != manifest) return;
    const std::string digits = around.digits_in(name);
    if (!digits.empty() && wds::shard_name(pattern, std::stoull(digits)) == folder + name) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} is of another set, which would lose its {}: give this one another "
                            "name, or a folder of its own",
                            folder + name, fs::path(manifest).filename().string()));
  });
}

void refuse_existing_shards(const io::Opener& opener, const std::string& pattern) {
  refuse_other_set(opener, pattern);
  const auto found = existing_shards(opener, pattern);
  if (!found.empty())
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} exists ({} of this pattern in all): --force replaces them",
                            io::printable_url(found.front()), counted(found.size(), "shard")));
}

void delete_shards(const io::Opener& opener, const std::string& pattern) {
  refuse_other_set(opener, pattern);
  for (const std::string& shard : existing_shards(opener, pattern)) remove_file(opener, shard);
  for (const auto& [number, index] : numbered(opener, pattern, ".index.json"))
    remove_file(opener, index);
  remove_file(opener, manifest_path(pattern));
  remove_file(opener, label_map_url(wds::shard_name(pattern, 0)));
  delete_temporaries(opener, pattern);
}

std::vector<wds::ShardSummary> take_over_shards(const io::Opener& opener,
                                                const std::string& pattern, bool indexed) {
  std::vector<wds::ShardSummary> whole;
  bool gap = false;
  for (const auto& [number, shard] : numbered(opener, pattern, "")) {
    std::optional<wds::ShardSummary> found;
    if (!gap && number == whole.size()) found = whole_shard(opener, shard, indexed);
    gap = !found.has_value();
    if (found)
      whole.push_back(std::move(*found));
    else
      remove_file(opener, shard);
  }
  for (const auto& [number, index] : numbered(opener, pattern, ".index.json"))
    if (number >= whole.size()) remove_file(opener, index);
  delete_temporaries(opener, pattern);
  return whole;
}

void print_written(const wds::ShardSummary& shard, CommandContext& context) {
  if (!context.json) return;
  const nlohmann::ordered_json line = {
      {"url", io::printable_url(shard.url)}, {"samples", shard.samples}, {"bytes", shard.bytes}};
  context.out.line(json_text(line));
  context.out.flush();
}

}  // namespace millrace::tools
