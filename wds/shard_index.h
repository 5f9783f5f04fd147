// ShardIndex: the contents of a shard and their offsets, so that its samples can be checked,
// counted and found.
//
// It is stored next to its shard as `<shard>.index.json`:
//   {"bytes": 10240, "count": 1, "end": 2048, "millrace_index": 1, "sha256": "...", "samples": [
//     ["KEY", OFFSET, [["SUFFIX", DATA_OFFSET, SIZE, "CRC32", "HEADER_CRC32"], ...]], ...],
//     "crc32": "..."}
// Offsets are bytes in the (unpacked) tar stream; CRC-32 as in gzip, 8 lower-case hex digits, of
// the payload and of all header blocks of the member; the last one, which indexes of earlier
// versions lack, of the file up to its own comma.
//
//   const ShardIndex index = build_index(opener, "a.tar");
//   write_index(index, index_url("a.tar"));
//
// Threads: free functions, callable from any thread; a ShardIndex is a value.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "io/byte_sink.h"
#include "wds/fault_ledger.h"
#include "wds/shard_reader.h"

namespace millrace::wds {

struct IndexedMember {
  std::string suffix;
  std::uint64_t offset = 0;  ///< of the payload
  std::uint64_t size = 0;
  std::uint32_t crc32 = 0;
  std::uint32_t header_crc32 = 0;
};

struct IndexedSample {
  std::string key;
  std::uint64_t offset = 0;  ///< of the first member's first header block
  std::vector<IndexedMember> members;
  std::uint64_t num_bytes = 0;  ///< payload bytes of the members
};

/// How much of an index is wanted.
enum class IndexParts {
  kAll,
  kSamples,  ///< without members; their checksums need not even be ones
};

struct ShardIndex {
  std::uint64_t bytes = 0;  ///< of the shard as it is stored
  std::uint64_t end = 0;    ///< offset of the end marker
  std::string sha256 = {};  ///< of the shard as it is stored
  std::vector<IndexedSample> samples;

  /// The number of the sample at `offset`, or of the first one after it.
  std::size_t sample_at(std::uint64_t offset) const;
};

/// What an index says before its samples.
struct IndexHead {
  std::uint64_t count = 0;
  std::string sha256 = {};  ///< as ShardIndex::sha256; empty: it does not say
};

/// The url of the index of the shard at `url`: "a.tar" → "a.tar.index.json", inserted before a
/// query string.
std::string index_url(const std::string& url);

/// Reads the whole shard. Throws: as ShardReader::next(): a damaged shard cannot be indexed.
ShardIndex build_index(const io::Opener& opener, const std::string& url,
                       const ShardOptions& options = {});

/// Reads the index at `url`. One that arrived damaged over the network is fetched once more, and
/// `again`, if given, is set if that was intact. Throws: NotFound (there is none), Corrupt,
/// Exhausted (over 1 GiB), and as opening and reading.
ShardIndex read_index(const io::Opener& opener, const std::string& url,
                      const std::stop_token& stop = {}, bool* again = nullptr,
                      IndexParts parts = IndexParts::kAll);
/// The index of the shard at `shard_url`; null if there is none, as for standard input and pipes.
/// Throws: as read_index(), except NotFound.
std::shared_ptr<const ShardIndex> find_index(const io::Opener& opener, const std::string& shard_url,
                                             const std::stop_token& stop = {},
                                             bool* again = nullptr,
                                             IndexParts parts = IndexParts::kAll);
/// The same by `ledger`'s policy. Unless it requires an index, one that cannot be read gives a
/// warning and null. Throws: Cancelled; if an index is required, NotFound and as find_index().
std::shared_ptr<const ShardIndex> usable_index(const io::Opener& opener,
                                               const std::string& shard_url, FaultLedger& ledger,
                                               const std::stop_token& stop = {},
                                               IndexParts parts = IndexParts::kAll);
/// From the first 1,024 bytes of the index at `url`; nullopt if there is no index. One that arrived
/// damaged over the network is fetched once more. Throws: Corrupt, and as opening and reading.
std::optional<IndexHead> read_index_head(const io::Opener& opener, const std::string& url,
                                         const std::stop_token& stop = {});
/// Writes `index` to the file `path`, or to a url by `opener`. Throws: as io::open_file_sink() and
/// io::Opener::open_sink().
void write_index(const ShardIndex& index, const std::string& path,
                 io::Replace replace = io::Replace::kNever, const io::Opener* opener = nullptr);

/// Writes DALI's index v1.2, as its wds2idx does, for plain tars. Throws: Unsupported for a name
/// that DALI could not read back (white space, no suffix); as open_file_sink().
void write_dali_index(const ShardIndex& index, const std::string& path,
                      io::Replace replace = io::Replace::kNever,
                      const io::Opener* opener = nullptr);

}  // namespace millrace::wds
