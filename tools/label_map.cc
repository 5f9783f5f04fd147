#include "tools/label_map.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <map>
#include <set>
#include <span>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/base/threads.h"
#include "io/byte_sink.h"
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

std::vector<std::string> read_label_map(const io::Opener& opener, const std::string& shard) {
  if (!has_own_place(shard)) return {};
  try {
    return read_names(opener, label_map_url(shard));
  } catch (const Error& error) {
    if (!cannot_be_seen(error)) throw;
    return {};
  }
}

namespace {

/// Of each shard's set; some at a time, since they may be far away.
std::vector<std::vector<std::string>> read_label_maps(const io::Opener& opener,
                                                      std::span<const std::string> shards) {
  constexpr std::size_t kAtOnce = 16;
  std::vector<std::vector<std::string>> maps(shards.size());
  std::vector<std::exception_ptr> failures(shards.size());
  std::atomic<std::size_t> next{0};
  run_on_threads(std::min(kAtOnce, shards.size()), [&] {
    for (std::size_t i = next++; i < shards.size(); i = next++) {
      try {
        maps[i] = read_label_map(opener, shards[i]);
      } catch (...) {
        failures[i] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& failure : failures)
    if (failure) std::rethrow_exception(failure);
  return maps;
}

}  // namespace

std::vector<std::string> read_label_map(const io::Opener& opener,
                                        std::span<const std::string> shards,
                                        std::vector<std::string> known, std::string known_from) {
  struct Map {
    std::string url;
    std::vector<std::string> names;
  };
  Map all{.url = std::move(known_from), .names = std::move(known)};
  const std::vector<std::string> sets = one_of_each_set(shards);
  std::vector<std::vector<std::string>> found = read_label_maps(opener, sets);
  for (std::size_t set = 0; set < sets.size(); ++set) {
    Map map{.url = io::printable_url(label_map_url(sets[set])), .names = std::move(found[set])};
    std::map<std::string_view, std::size_t> labels;
    for (std::size_t label = 0; label < all.names.size(); ++label)
      labels.emplace(all.names[label], label);
    for (std::size_t label = 0; label < map.names.size(); ++label)
      if (const auto same = labels.find(map.names[label]);
          same != labels.end() && same->second != label)
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{} is label {} in {}, and {} in {}: create sets that are used "
                                "together with the same --label-map",
                                map.names[label], same->second, all.url, label, map.url));
    if (map.names.size() > all.names.size()) all = std::move(map);
  }
  return all.names;
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
