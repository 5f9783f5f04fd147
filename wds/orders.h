// Orders of an epoch's samples as components: what a user picks by its word and gives parameters.
//
//   Choice<ShuffleOptions> order = orders::Shuffled{.buffer = 10'000};
//   spec.shuffle = *order.make();
//   order = parse("webdataset(1000, initial=100)", standard_orders()).front();
//
// The seed is the run's own. Threads: as values.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/component/choice.h"
#include "wds/sample_stream.h"

namespace millrace::wds {

namespace orders {

/// Samples in a stream's buffer, where nothing else is said.
inline constexpr std::int64_t kUsualBuffer = 5000;

/// Order::kMillrace: shards in another order in each epoch, their samples through a buffer.
struct Shuffled {
  std::int64_t buffer = kUsualBuffer;  ///< samples; 0: neither they nor the shards are shuffled
  int open_shards = 1;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<ShuffleOptions> make() const;
};

/// Order::kWebDataset, with the parameters of WebDataset(shardshuffle=) and shuffle(buffer,
/// initial=).
struct WebDataset {
  std::int64_t buffer = kUsualBuffer;
  std::int64_t initial = 100;
  std::int64_t shard_shuffle = 100;
  bool detshuffle = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<ShuffleOptions> make() const;
};

/// Order::kPermutation, of the samples that `where` keeps, and as often as `balance` or `weight`
/// says; each of them `copies` times.
struct Permutation {
  std::int64_t buffer = kUsualBuffer;  ///< not used; positions of checkpoints have it
  std::string where = {};
  std::string balance = {};
  std::string weight = {};
  int copies = 1;

  static const ComponentName kName;
  void fields(FieldList& field);
  void check() const;
  std::unique_ptr<ShuffleOptions> make() const;
};

}  // namespace orders

const TableOf<ShuffleOptions>& standard_orders();

}  // namespace millrace::wds
