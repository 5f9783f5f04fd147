// Manifest: the list of a set's shards with their counts, sizes and hashes, as JSON.
//
// The format is that of WebDataset's wids: {"wids_version": 1, "shardlist": [{"url", "nsamples",
// "filesize"}]}, plus the fields "sha256", "jpeg" and "image", which wids ignores.
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

/// What was done to a set's pictures, as the options say it; empty: nothing.
struct StoredPictures {
  std::string jpeg = {};   ///< "restarts", "resize(256, ...)"
  std::string image = {};  ///< "raw(...)"

  bool operator==(const StoredPictures&) const = default;
};

struct ManifestShard {
  std::string url;  ///< as a reader opens it
  std::optional<std::uint64_t> samples = {};
  std::optional<std::uint64_t> bytes = {};  ///< of the shard as it is stored
  std::string sha256 = {};                  ///< lower-case hex; empty when unknown
  StoredPictures pictures = {};             ///< the manifest's
};

struct Manifest {
  std::string name = {};
  std::vector<ManifestShard> shards;
  std::optional<std::uint64_t> samples = {};  ///< of all shards, if given ("nsamples")
  StoredPictures pictures = {};               ///< "jpeg" and "image"
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
