// Manifest: the list of a set's shards with what is known of each, as JSON.
//
// The form is that of WebDataset's wids: {"wids_version": 1, "shardlist": [{"url", "nsamples",
// "filesize"}]}, and one field more, "sha256", which wids ignores.
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/byte_sink.h"

namespace millrace::io {
class Opener;
}

namespace millrace::wds {

struct ManifestShard {
  std::string url;  ///< as a reader opens it
  std::optional<std::uint64_t> samples = {};
  std::optional<std::uint64_t> bytes = {};  ///< of the shard as it is stored
  std::string sha256 = {};                  ///< lower-case hex; empty when unknown
};

struct Manifest {
  std::string name = {};
  std::vector<ManifestShard> shards;
  std::optional<std::uint64_t> samples = {};  ///< of all shards, where it says so ("nsamples")
};

/// Reads the manifest at `url`; relative shard urls are resolved against it. Throws: Corrupt (no
/// manifest, or one from the network that names a local file; a pipe in any), Exhausted (over 64
/// MiB), and what opening throws.
Manifest read_manifest(const io::Opener& opener, const std::string& url);
/// Writes `manifest` to the local file `path`, with shard urls relative to it where they lie in its
/// folder.
void write_manifest(const Manifest& manifest, const std::string& path,
                    io::Replace replace = io::Replace::kNever);

}  // namespace millrace::wds
