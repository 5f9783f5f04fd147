// WebDataset's buffer shuffle, split into gathering and picking, so that shard lists and samples
// share it and a position can be restored by replaying its draws without data.
//
// For each incoming item: append it; below `buffer` items append one more; with at least `initial`
// items pick one. At the end the rest is picked until none is left. A pick takes item k =
// randint(0, n - 1) and moves the last one into its place.
//
// Source: WebDataset 1.0.2, filters.shuffle, as observed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "wds/detail/python_random.h"

namespace millrace::wds::detail {

class WebDatasetShuffle {
 public:
  WebDatasetShuffle(std::int64_t buffer, std::int64_t initial, std::uint64_t seed)
      : buffer_(std::max<std::int64_t>(buffer, 0)),
        initial_(std::min(initial, buffer_)),
        rng_(seed) {}

  /// Calls `append` (true: one item was added; false: there are no more) as often as the next pick
  /// requires; `size()` is the number of items held. Requires: an item is left to pick.
  template <typename Append, typename Size>
  void gather(const Append& append, const Size& size) {
    while (append()) {
      if (size() < buffer_) append();
      if (size() >= initial_) return;
    }
  }
  std::uint64_t pick(std::uint64_t size) { return rng_.below(size); }

  /// Repeats the draws of the first `picks` picks from a source of `items` items.
  void replay(std::uint64_t items, std::uint64_t picks) {
    std::uint64_t left = items;
    std::int64_t held = 0;
    const auto append = [&] {
      if (left == 0) return false;
      --left;
      ++held;
      return true;
    };
    for (std::uint64_t i = 0; i < picks; ++i) {
      gather(append, [&] { return held; });
      pick(static_cast<std::uint64_t>(held--));
    }
  }

 private:
  std::int64_t buffer_;
  std::int64_t initial_;
  PythonRandom rng_;
};

/// The whole list after a buffer shuffle.
inline std::vector<std::string> buffer_shuffled(std::vector<std::string> items, std::int64_t buffer,
                                                std::int64_t initial, std::uint64_t seed) {
  if (buffer < 1) return items;
  WebDatasetShuffle shuffle(buffer, initial, seed);
  std::vector<std::string> held, result;
  std::size_t next = 0;
  const auto append = [&] {
    if (next == items.size()) return false;
    held.push_back(std::move(items[next++]));
    return true;
  };
  while (result.size() < items.size()) {
    shuffle.gather(append, [&] { return static_cast<std::int64_t>(held.size()); });
    std::swap(held[shuffle.pick(held.size())], held.back());
    result.push_back(std::move(held.back()));
    held.pop_back();
  }
  return result;
}

}  // namespace millrace::wds::detail
