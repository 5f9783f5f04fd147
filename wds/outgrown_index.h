// Whether an index is of its shard as that is stored now: of members that were appended it knows
// nothing, and of a shard that was written anew other ones; whoever finds samples by their place
// alone would not see it. What is read by an index is compared with it besides, by checksums.
//
//   StoredSize size(opener, url);                 // asked for,
//   const auto index = find_index(opener, url);   // and answered meanwhile
//   check_size(url, *index, size.get());
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include "io/byte_source.h"
#include "io/opener.h"
#include "wds/shard_index.h"

namespace millrace::wds {

/// How many bytes a shard has now. Threads: one at a time.
class StoredSize {
 public:
  /// Over a network, sends the request. `opener` is borrowed. Throws: Cancelled.
  StoredSize(const io::Opener& opener, const std::string& url, const std::stop_token& stop = {});

  /// Waits for the answer; nullopt where none comes, and of streams. Throws: Cancelled.
  std::optional<std::uint64_t> get();

 private:
  std::optional<std::uint64_t> bytes_;
  std::unique_ptr<io::ByteSource> source_;
};

/// Whether a shard that is shorter than its index says is a fault, too: or it is left to whoever
/// reads it, as other damage is.
enum class IfShorter { kFault, kReadOn };

/// Throws: Corrupt, with the shard's url and the index's name, if the shard at `url` has other
/// than the bytes of `index`; nullopt: that is not known.
void check_size(const std::string& url, const ShardIndex& index,
                const std::optional<std::uint64_t>& bytes,
                IfShorter if_shorter = IfShorter::kFault);

/// For samples that are listed and not read: as check_size(), and that there is a member where the
/// last sample of a plain tar is to begin. Over a network a request. Throws: Cancelled; Corrupt.
void check_as_listed(const io::Opener& opener, const std::string& url, const ShardIndex& index,
                     const std::stop_token& stop = {});

}  // namespace millrace::wds
