// Shard specs: expands what a user writes to a list of shard urls.
//
// A spec is a union of parts joined by `::` (which in a url's address, http://[::1]/, joins
// nothing). In each part `${NAME}` is replaced by the environment variable WDS_NAME, then braces
// expand as in bash ("{000..099}", "{a,b}"), then `~/` and `~USER/` to a home folder, then a folder
// to its *.tar* files in byte order (to its *.parquet files if it has none), and a .json manifest
// to its shards (relative urls are resolved against the manifest). In a store that lists its
// objects, a url that ends in a slash is a folder (s3://bucket/train/).
//
// The fragment of a Parquet file (wds/parquet_shard.h) is each match's.
//
// A path, or a url of such a store, with a wild card stands for what it matches, in byte order: the
// shards, if there are any among it, and manifests if it ends in .json. `*`, `?` and `[...]` match
// within a name, never a slash; "[*]" is a star itself. A path that is there as it is written is
// that file.
//
//   const auto shards = expand_shards("data/train-{000000..000019}.tar::extra",
//                                     {.opener = &opener});
//   check_local_shards(shards);
//
// Expanding may read folders and manifests: a program should do it once and pass the shards on.
//
// Threads: free functions, callable from any thread.
// Source: docs/webdataset.md, "Naming shards", after WebDataset 1.0.2 and its braceexpand.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "wds/manifest.h"

namespace millrace::io {
class Opener;
}

namespace millrace::wds {

struct ShardSpecOptions {
  /// Reads manifests and lists stores' folders; borrowed. Null: a manifest is refused, and a url's
  /// wild card is none.
  const io::Opener* opener = nullptr;
  /// Whether a shard may occur twice in the list. A file is one shard by whatever names and links;
  /// a Parquet file with other columns chosen is another.
  bool allow_duplicates = false;
  /// Ends a listing. The opener's own stop ends reading a manifest.
  std::stop_token stop = {};
  /// Maximum number of names that the whole spec may expand to.
  std::size_t max_shards = 1'000'000;
  /// Looks up an environment variable. Default: the process's own environment.
  std::function<std::optional<std::string>(const std::string& name)> environment = {};
};

/// All shards of `spec`, in order; never empty. Throws: InvalidArgument (syntax, a missing
/// variable, no shard, too many, a duplicate), NotFound, Io, Corrupt (a manifest or a listing),
/// Exhausted (a listing of more than 100,000 objects).
std::vector<std::string> expand_shards(std::string_view spec, const ShardSpecOptions& options = {});
/// The same for several specs, concatenated.
std::vector<std::string> expand_shards(std::span<const std::string> specs,
                                       const ShardSpecOptions& options = {});

/// The same with what the specs' manifests say about their shards; the others have only a url.
std::vector<ManifestShard> list_shards(std::span<const std::string> specs,
                                       const ShardSpecOptions& options = {});

/// The parts of `spec` that are joined by `::`.
std::vector<std::string_view> union_parts(std::string_view spec);

/// Whether expanding `spec` reads from the network: a manifest, or a store's folder. Opens nothing.
/// Throws: InvalidArgument (a missing variable).
bool expands_over_network(std::string_view spec, const ShardSpecOptions& options);

/// Brace expansion alone; the leftmost brace varies slowest. Throws: InvalidArgument (unbalanced
/// braces, more than `max_names` names).
std::vector<std::string> expand_braces(std::string_view pattern, std::size_t max_names = 1'000'000);

/// Checks before work starts that no local shard is missing. Opens nothing and ignores network
/// urls, pipes and standard input. Throws: NotFound, naming the first missing shard and how many
/// there are.
void check_local_shards(std::span<const std::string> shards);

}  // namespace millrace::wds
