#include "wds/shuffle_draws.h"

#include <algorithm>
#include <limits>

#include "wds/sample_stream.h"

namespace millrace::wds {
namespace {

constexpr std::uint64_t kUnknown = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kMostDrawn = std::uint64_t{1} << 22;

RngKey key_of(const ShuffleDraws& draws) {
  return {
      .seed = draws.seed, .epoch = draws.epoch, .stream = draws.stream, .purpose = kSampleShuffle};
}

/// The places after `picks` from a full buffer, from the last one back: a place has the sample that
/// took it last, and one that was never taken has that of the same number.
std::optional<std::vector<std::uint64_t>> after_full_picks(const ShuffleDraws& draws,
                                                           std::uint64_t picks) {
  const std::uint64_t most = draws.buffer_samples;
  std::vector<std::uint64_t> at(most - 1, kUnknown);
  std::uint64_t unknown = at.size();
  // All places were taken after N ln N picks or so.
  std::uint64_t left = 64 * most;
  for (std::uint64_t pick = picks; pick-- > 0 && unknown > 0;) {
    if (left-- == 0) return {};
    const std::size_t place = drawn_place(key_of(draws), draws.earlier + pick, most);
    if (place >= at.size() || at[place] != kUnknown) continue;
    at[place] = pick + most - 1;
    --unknown;
  }
  for (std::size_t place = 0; place < at.size(); ++place)
    if (at[place] == kUnknown) at[place] = place;
  return at;
}

}  // namespace

std::size_t drawn_place(RngKey key, std::uint64_t index, std::size_t held) {
  if (held == 1) return 0;
  key.index = index;
  return KeyedRng(key).below(held);
}

std::optional<std::vector<std::uint64_t>> drawn_samples(const ShuffleDraws& draws) {
  const std::uint64_t most = draws.buffer_samples;
  const bool possible =
      most > 0 && most <= kMostDrawn && draws.out <= draws.in && draws.in - draws.out <= most;
  if (!possible) return {};
  // Picks from a full buffer come before those of one that nothing comes into any more.
  const std::uint64_t full = draws.in < most ? 0 : std::min(draws.out, draws.in - most + 1);
  std::vector<std::uint64_t> at;
  if (full > 0) {
    auto found = after_full_picks(draws, full);
    if (!found) return {};
    at = *std::move(found);
  }
  for (std::uint64_t next = full == 0 ? 0 : full + most - 1; next < draws.in; ++next)
    at.push_back(next);
  for (std::uint64_t pick = full; pick < draws.out; ++pick) {
    const std::size_t place = drawn_place(key_of(draws), draws.earlier + pick, at.size());
    at[place] = at.back();
    at.pop_back();
  }
  return at;
}

}  // namespace millrace::wds
