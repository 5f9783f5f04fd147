// PythonRandom: CPython's random.Random(int), bit for bit, as far as `order=webdataset` needs it.
//
// Source: Matsumoto and Nishimura, MT19937 (2002), with init_by_array; CPython 3's random.py for
// how an integer seeds it and how numbers below a bound are drawn.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

namespace millrace::wds::detail {

class PythonRandom {
 public:
  explicit PythonRandom(std::uint64_t seed);

  /// random.getrandbits(bits). Requires: 1 <= bits <= 64.
  std::uint64_t getrandbits(int bits);
  /// randint(0, bound - 1). Requires: bound > 0.
  std::uint64_t below(std::uint64_t bound);

  /// random.shuffle(items).
  template <typename T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  static constexpr std::size_t kWords = 624;

  void init(std::uint32_t seed);
  void init_by_array(std::span<const std::uint32_t> key);
  std::uint32_t next();
  void regenerate();

  std::array<std::uint32_t, kWords> state_{};
  std::size_t used_ = kWords;
};

}  // namespace millrace::wds::detail
