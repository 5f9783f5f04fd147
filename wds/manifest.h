// Manifest: the list of a set's shards with their counts, sizes and hashes, as JSON.
//
// The format is that of WebDataset's wids: {"wids_version": 1, "shardlist": [{"url", "nsamples",
// "filesize"}]}, plus the fields "sha256" and "jpeg", which wids ignores.
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
  std::optional<std::uint64_t> samples = {};  ///< of all shards, if given ("nsamples")
  std::string jpeg = {};  ///< what was done to the set's JPEGs ("restarts"); empty: nothing
};

/// Reads the manifest at `url`; relative shard urls are resolved against it. Throws: Corrupt (not a
/// manifest, or it names a pipe, or a local file although it came from the network), Exhausted
/// (over 64 MiB), and as opening and reading.
Manifest read_manifest(const io::Opener& opener, const std::string& url);
/// Writes `manifest` to the file `path`, or to a url by `opener`; urls of shards in its folder
/// become relative. Throws: as io::open_file_sink() and io::Opener::open_sink().
void write_manifest(const Manifest& manifest, const std::string& path,
                    io::Replace replace = io::Replace::kNever, const io::Opener* opener = nullptr);

}  // namespace millrace::wds
