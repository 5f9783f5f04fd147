// Joins: fields of one sample that lie in several shards, put together by the sample's key.
//
// A set may have its images in one tar and their captions in another: shard i of each further list
// completes shard i of the set. Each sample gets the fields of the sample with its key there,
// wherever in that shard it lies; a sample without one stays as it is, and samples that only the
// further shards have are not used. Order, streams and positions are those of the set alone.
//
//   spec.found.joins = std::make_shared<const Joins>(*spec.shards, std::vector{captions, boxes});
//
// A further shard is found its way in by its index, and checked against it; without one, by its
// headers, which are read whenever no stream has it open. Faults in it cost the samples they hit.
//
// Threads: const members from any thread. Buffers: about 256 bytes per sample of the further shards
// that are open; with `Keep::kAll` of all that were ever opened.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "io/base/thread_annotations.h"
#include "io/opener.h"
#include "wds/fault_ledger.h"
#include "wds/shard_index.h"
#include "wds/shard_reader.h"

namespace millrace::wds {

/// What a further shard holds, by key. Immutable.
class JoinedContents {
 public:
  /// `index` is the shard's, or what its headers say (`is_index` false).
  JoinedContents(std::shared_ptr<const ShardIndex> index, bool is_index);

  /// The sample with this key; null if there is none. Throws: Corrupt if there are several.
  const IndexedSample* find(const std::string& key) const;
  /// Null if only the headers are known.
  std::shared_ptr<const ShardIndex> index() const { return is_index_ ? samples_ : nullptr; }

 private:
  std::shared_ptr<const ShardIndex> samples_;
  bool is_index_;
  std::unordered_map<std::string_view, std::size_t> by_key_;
};

class Joins {
 public:
  /// kAll for orders that come back to every shard.
  enum class Keep { kOpen, kAll };

  /// `lists`: in each, shard i completes shard i of `shards`. Throws: InvalidArgument if a list has
  /// another length, a shard occurs twice with different ones, or one is a pipe, which cannot be
  /// searched.
  Joins(std::span<const std::string> shards, std::span<const std::vector<std::string>> lists,
        Keep keep = Keep::kOpen);

  /// The shards that complete the one at `url`, one of each list.
  const std::vector<std::string>& of(const std::string& url) const;
  /// What one of them holds. `options`: how it is read. `ledger`, if given, is told of a damaged
  /// index, which is not used, and its policy may require one. Throws: as reading the shard.
  std::shared_ptr<const JoinedContents> contents(const io::Opener& opener, const std::string& url,
                                                 const ShardOptions& options,
                                                 FaultLedger* ledger) const;

 private:
  /// The contents of one shard while it is open; its mutex is held while they are read.
  struct Known {
    Mutex mutex;
    std::weak_ptr<const JoinedContents> contents MILLRACE_GUARDED_BY(mutex);
    std::shared_ptr<const JoinedContents> kept MILLRACE_GUARDED_BY(mutex);
  };

  Keep keep_;
  std::unordered_map<std::string, std::vector<std::string>> of_;
  std::unordered_map<std::string, std::unique_ptr<Known>> known_;
};

}  // namespace millrace::wds
