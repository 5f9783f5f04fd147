// KeySet: the keys of a shard so far and their offsets, to detect interleaved keys.
//
// An open-addressed table of hashes, 16 bytes per slot and at most half full. Two keys with the
// same 64-bit hash are taken for one (once in some 10^9 shards of 100,000 samples). Keys beyond
// kMaxKeys are not remembered.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

namespace millrace::wds {

class KeySet {
 public:
  static constexpr std::size_t kMaxKeys = std::size_t{1} << 20;

  explicit KeySet(std::size_t max_keys = kMaxKeys) : max_keys_(max_keys) {}

  /// Remembers `key` at `offset`. Returns its earlier offset if it was already there.
  std::optional<std::uint64_t> insert(std::string_view key, std::uint64_t offset) {
    if (size_ * 2 >= slots_.size() && size_ < max_keys_) grow();
    const std::uint64_t hash = std::hash<std::string_view>{}(key) | 1U;  // 0 marks a free slot
    Slot& slot = find(hash);
    if (slot.hash == hash) return slot.offset;
    if (size_ == max_keys_) return {};
    slot = {hash, offset};
    ++size_;
    return {};
  }

  /// Whether new keys are no longer remembered.
  bool full() const { return size_ == max_keys_; }

 private:
  struct Slot {
    std::uint64_t hash = 0;
    std::uint64_t offset = 0;
  };

  Slot& find(std::uint64_t hash) {
    std::size_t at = hash >> shift_;
    while (slots_[at].hash != 0 && slots_[at].hash != hash) at = (at + 1) & (slots_.size() - 1);
    return slots_[at];
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 1024 : slots_.size() * 2);
    old.swap(slots_);
    shift_ = 64 - static_cast<int>(std::bit_width(slots_.size() - 1));
    for (const Slot& slot : old) {
      if (slot.hash != 0) find(slot.hash) = slot;
    }
  }

  std::size_t max_keys_;
  std::vector<Slot> slots_;
  std::size_t size_ = 0;
  int shift_ = 0;
};

}  // namespace millrace::wds
