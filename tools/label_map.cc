#include "tools/label_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/base/for_each_on_threads.h"
#include "io/base/text.h"
#include "io/byte_sink.h"
#include "io/opener.h"
#include "tools/output_place.h"
#include "wds/set_file.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} * 1024 * 1024;
constexpr std::size_t kMaxNameBytes = 1000;

bool has_own_place(const std::string& shard) {
  return !io::is_stream_url(shard) && shard.find(".tar") != std::string::npos;
}

// Of names with more than the shard's number in them each would be a set of its own.
std::vector<std::string> one_of_each_set(std::span<const std::string> shards) {
  constexpr std::size_t kMostSets = 64;
  std::set<std::string> maps;
  std::vector<std::string> ones;
  for (const std::string& shard : shards)
    if (ones.size() < kMostSets && has_own_place(shard) && maps.insert(label_map_url(shard)).second)
      ones.push_back(shard);
  return ones;
}

}  // namespace

std::string label_map_url(const std::string& shard) { return wds::set_file(shard, "classes.txt"); }

std::vector<std::string> read_names(const io::Opener& opener, const std::string& url) {
  const io::Bytes bytes = io::read_object(opener, url, kMaxBytes);
  std::vector<std::string> names;
  std::string_view rest = bytes.text();
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    names.push_back(printable(rest.substr(0, end), kMaxNameBytes));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}

void check_distinct(const std::vector<std::string>& names, const std::string& url) {
  std::map<std::string_view, std::size_t> labels;
  for (std::size_t label = 0; label < names.size(); ++label)
    if (const auto [first, is_new] = labels.emplace(names[label], label); !is_new)
      throw Error(
          ErrorCode::kInvalidArgument,
          fmt::format("the class {} is there twice, as {} and {}: give each a name of its own",
                      names[label], first->second, label),
          {.url = url});
}

void check_names(const std::vector<std::string>& names, const std::string& url) {
  for (const std::string& name : names)
    if (name.find('\n') != std::string::npos)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("a class name of several lines, '{}': the label map has a name per "
                              "line, so rename the class",
                              printable(name)),
                  {.url = url});
  check_distinct(names, url);
}

std::vector<std::string> read_label_map(const io::Opener& opener, const std::string& shard) {
  if (!has_own_place(shard)) return {};
  try {
    const std::string url = label_map_url(shard);
    std::vector<std::string> names = read_names(opener, url);
    check_distinct(names, url);
    return names;
  } catch (const Error& error) {
    if (!cannot_be_seen(error)) throw;
    return {};
  }
}

namespace {

struct LabelMap {
  std::string url;
  std::vector<std::string> names;
};

constexpr const char* kHowToAgree = "create sets that are used together with the same --label-map";

/// Throws: InvalidArgument for a label that is one class in `one` and another in `other`.
void check_same_classes(const LabelMap& one, const LabelMap& other) {
  const std::size_t both = std::min(one.names.size(), other.names.size());
  for (std::size_t label = 0; label < both; ++label)
    if (one.names[label] != other.names[label])
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("label {} is {} in {}, and {} in {}: {}", label, one.names[label],
                              one.url, other.names[label], other.url, kHowToAgree));
}

/// Throws: InvalidArgument for a class that has one label in `one` and another in `other`, or a
/// label that is of two classes.
void check_agree(const LabelMap& one, const LabelMap& other) {
  std::map<std::string_view, std::size_t> labels;
  for (std::size_t label = 0; label < one.names.size(); ++label)
    labels.emplace(one.names[label], label);
  for (std::size_t label = 0; label < other.names.size(); ++label)
    if (const auto same = labels.find(other.names[label]);
        same != labels.end() && same->second != label)
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{} is label {} in {}, and {} in {}: {}", other.names[label],
                              same->second, one.url, label, other.url, kHowToAgree));
  check_same_classes(one, other);
}

}  // namespace

/// Of each shard's set; some at a time, since they may be far away.
void LabelMaps::read(std::span<const std::string> shards) {
  constexpr std::size_t kAtOnce = 16;
  std::vector<std::vector<std::string>> maps(shards.size());
  for_each_on_threads(shards.size(), kAtOnce,
                      [&](std::size_t i) { maps[i] = read_label_map(opener_, shards[i]); });
  for (std::size_t i = 0; i < shards.size(); ++i)
    known_[label_map_url(shards[i])] = std::move(maps[i]);
}

std::vector<std::string> LabelMaps::names(std::span<const std::string> shards,
                                          std::vector<std::string> known, std::string known_from) {
  LabelMap all{.url = std::move(known_from), .names = std::move(known)};
  const std::vector<std::string> sets = one_of_each_set(shards);
  std::vector<std::string> unread;
  for (const std::string& shard : sets)
    if (!known_.contains(label_map_url(shard))) unread.push_back(shard);
  read(unread);
  for (const std::string& shard : sets) {
    const std::string url = label_map_url(shard);
    LabelMap map{.url = io::printable_url(url), .names = known_.at(url)};
    check_agree(all, map);
    if (map.names.size() > all.names.size()) all = std::move(map);
  }
  return all.names;
}

std::vector<std::string> read_label_map(const io::Opener& opener,
                                        std::span<const std::string> shards,
                                        std::vector<std::string> known, std::string known_from) {
  return LabelMaps(opener).names(shards, std::move(known), std::move(known_from));
}

void write_label_map(const io::Opener& opener, const std::vector<std::string>& names,
                     const std::string& path) {
  const auto sink = open_output_file(opener, path, io::Replace::kAtomically);
  for (const std::string& name : names) {
    const std::string line = name + "\n";
    sink->write(std::as_bytes(std::span(line)));
  }
  sink->finish();
}

}  // namespace millrace::tools
