// ShardSequence: the shards that one stream reads in one epoch, by position in its own list.
//
// A finite list; the same list for ever (an epoch cut by a number of samples); or shards drawn with
// replacement. A pure function of the StreamSpec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "wds/detail/python_random.h"
#include "wds/sample_stream.h"

namespace millrace::wds::detail {

class ShardSequence {
 public:
  explicit ShardSequence(const StreamSpec& spec);

  /// The url at `index`, or null behind the end. Valid until the next call.
  const std::string* at(std::size_t index);
  /// Shards in one round; 0 for a stream without shards.
  std::size_t round() const { return spec_.resampled ? spec_.shards->size() : shards_.size(); }

 private:
  std::size_t draw(std::size_t index);

  StreamSpec spec_;
  std::vector<std::string> shards_;
  PythonRandom rng_;                  // kWebDataset, resampled: it only goes forward,
  std::vector<std::uint32_t> drawn_;  // so what it drew is kept
};

}  // namespace millrace::wds::detail
