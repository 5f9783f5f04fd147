// Shard specs: from what a user writes to the list of shard urls.
//
// A spec is a union of parts joined by `::`. In each part `${NAME}` becomes the environment
// variable WDS_NAME, then braces expand as in bash ("{000..099}", "{a,b}"), then a folder stands
// for its *.tar* files in byte order, and a .json manifest for its shards (relative urls count from
// the manifest's own place).
//
//   const auto shards = expand_shards("data/train-{000000..000019}.tar::extra",
//                                     {.opener = &opener});
//   check_local_shards(shards);
//
// Expanding may read folders and manifests: a program does it once, and hands the shards on.
//
// Threads: free functions, callable from any thread.
// Source: docs/webdataset.md, "Naming shards", as WebDataset 1.0.2 and its braceexpand do it.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "wds/manifest.h"

namespace millrace::io {
class Opener;
}

namespace millrace::wds {

struct ShardSpecOptions {
  /// Reads manifests; borrowed. Without one a manifest is refused.
  const io::Opener* opener = nullptr;
  /// Whether one shard may stand twice in the list.
  bool allow_duplicates = false;
  /// Names that the whole spec may expand to.
  std::size_t max_shards = 1'000'000;
  /// Looks up an environment variable. Default: the process's own environment.
  std::function<std::optional<std::string>(const std::string& name)> environment = {};
};

/// All shards of `spec`, in order; never empty. Throws: InvalidArgument (syntax, a missing
/// variable, no shard, too many, a duplicate), NotFound, Io, Corrupt (the manifest).
std::vector<std::string> expand_shards(std::string_view spec, const ShardSpecOptions& options = {});
/// The same for several specs, one after the other.
std::vector<std::string> expand_shards(std::span<const std::string> specs,
                                       const ShardSpecOptions& options = {});

/// The same with what the specs' manifests say of their shards; the others have their url alone.
std::vector<ManifestShard> list_shards(std::span<const std::string> specs,
                                       const ShardSpecOptions& options = {});

/// Brace expansion alone; the leftmost brace varies slowest. Throws: InvalidArgument (unbalanced
/// braces, more than `max_names` names).
std::vector<std::string> expand_braces(std::string_view pattern, std::size_t max_names = 1'000'000);

/// Returns where no local shard is missing, so that it is known before work starts: opens nothing,
/// and leaves network urls, pipes and standard input alone. Throws: NotFound, naming the first and
/// how many there are.
void check_local_shards(std::span<const std::string> shards);

}  // namespace millrace::wds
