#include "pipeline/detail/packed_refs.h"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <numeric>
#include <string>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "io/base/json.h"

namespace millrace::pipeline::detail {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kTarBlock = 512;
constexpr unsigned kMostLowBits = 52;

[[noreturn]] void corrupt_refs(const std::string& what) {
  throw Error(ErrorCode::kCorrupt, "a pipeline's position: " + what);
}

template <typename Integer>
Integer packed_number(const Json& value, const char* name, Integer least = 0,
                      Integer most = std::numeric_limits<Integer>::max()) {
  return json_integer<Integer>(value, std::string("a pipeline's position: ") + name, least, most);
}

// Bits as text: four bytes are five of these characters, none of which JSON escapes. Source: the
// alphabet of ZeroMQ's RFC 32 (Z85).
constexpr std::string_view kDigits =
    "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#";
constexpr std::uint32_t kBase = 85;
constexpr std::size_t kWordDigits = 5;
constexpr std::size_t kWordBits = 32;

class BitWriter {
 public:
  void write(std::uint64_t value, unsigned bits) {
    while (bits-- > 0) write_bit((value >> bits & 1U) != 0);
  }
  /// The quotient by 2^low_bits in ones, a zero, and the rest (Golomb and Rice).
  void write_rice(std::uint64_t value, unsigned low_bits) {
    for (std::uint64_t ones = value >> low_bits; ones > 0; --ones) write_bit(true);
    write_bit(false);
    write(value, low_bits);
  }
  std::string text() {
    while (used_ > 0) write_bit(false);
    return std::move(text_);
  }

 private:
  void write_bit(bool bit) {
    word_ = word_ << 1U | static_cast<std::uint32_t>(bit);
    if (++used_ < kWordBits) return;
    std::array<char, kWordDigits> digits{};
    for (std::size_t i = kWordDigits; i-- > 0; word_ /= kBase) digits[i] = kDigits[word_ % kBase];
    text_.append(digits.data(), digits.size());
    used_ = 0;
  }

  std::string text_;
  std::uint32_t word_ = 0;
  std::size_t used_ = 0;
};

class BitReader {
 public:
  explicit BitReader(std::string_view text) : text_(text) {}

  std::uint64_t read(unsigned bits) {
    std::uint64_t value = 0;
    while (bits-- > 0) value = value << 1U | static_cast<std::uint64_t>(read_bit());
    return value;
  }
  std::uint64_t read_rice(unsigned low_bits) {
    std::uint64_t ones = 0;
    while (read_bit()) ++ones;
    if (ones > kMaxOffset >> low_bits) corrupt_refs("an offset is too large");
    return ones << low_bits | read(low_bits);
  }

 private:
  bool read_bit() {
    if (left_ == 0) next_word();
    return (word_ >> --left_ & 1U) != 0;
  }
  void next_word() {
    if (text_.size() < kWordDigits) corrupt_refs("its bits end too early");
    std::uint64_t word = 0;
    for (const char digit : text_.substr(0, kWordDigits)) {
      const std::size_t value = kDigits.find(digit);
      if (value == std::string_view::npos) corrupt_refs("its bits are not what was written");
      word = word * kBase + value;
    }
    word_ = static_cast<std::uint32_t>(word);
    left_ = kWordBits;
    text_.remove_prefix(kWordDigits);
  }

  std::string_view text_;
  std::uint32_t word_ = 0;
  std::size_t left_ = 0;
};

/// What all offsets are multiples of: a tar's blocks, if the shards are plain tars.
std::uint64_t unit_of(const SampleRefs& refs) {
  const bool whole =
      std::ranges::all_of(refs, [](const auto& ref) { return ref.offset % kTarBlock == 0; });
  return whole ? kTarBlock : 1;
}

/// Places in the buffer, by where their samples lie.
std::vector<std::size_t> sorted_places(const SampleRefs& refs) {
  std::vector<std::size_t> places(refs.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::stable_sort(places, {}, [&](std::size_t place) {
    return std::pair(refs[place].shard, refs[place].offset);
  });
  return places;
}

/// The same, as the draws have them: samples come in the order in which they lie.
std::vector<std::size_t> drawn_places(const wds::ShuffleDraws& draws) {
  const auto samples = wds::drawn_samples(draws);
  if (!samples) return {};
  std::vector<std::size_t> places(samples->size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  std::ranges::sort(places, {}, [&](std::size_t place) { return (*samples)[place]; });
  return places;
}

/// Of a place among so many.
unsigned place_bits(std::size_t count) {
  return static_cast<unsigned>(std::bit_width(count == 0 ? 0 : count - 1));
}

/// The samples of one shard: the first one's offset, and how much further each other one lies,
/// beyond the least of these steps.
struct Run {
  std::uint32_t shard = 0;
  std::uint64_t first = 0;
  std::uint64_t least = 0;
  std::vector<std::uint64_t> steps = {};
};

void take_least(Run& run) {
  if (run.steps.empty()) return;
  run.least = *std::ranges::min_element(run.steps);
  for (std::uint64_t& step : run.steps) step -= run.least;
}

std::vector<Run> runs_of(const SampleRefs& refs, const std::vector<std::size_t>& places,
                         std::uint64_t unit) {
  std::vector<Run> runs;
  std::uint64_t before = 0;
  for (const std::size_t place : places) {
    const auto& ref = refs[place];
    const std::uint64_t offset = ref.offset / unit;
    if (runs.empty() || runs.back().shard != ref.shard)
      runs.push_back({.shard = ref.shard, .first = offset});
    else
      runs.back().steps.push_back(offset - before);
    before = offset;
  }
  std::ranges::for_each(runs, take_least);
  return runs;
}

/// How many low bits make the steps shortest.
unsigned best_low_bits(const std::vector<std::uint64_t>& steps) {
  unsigned best = 0;
  std::uint64_t least = std::numeric_limits<std::uint64_t>::max();
  for (unsigned low = 0; low <= kMostLowBits; ++low) {
    std::uint64_t bits = steps.size() * low;
    for (const std::uint64_t step : steps) bits += step >> low;
    if (bits >= least) break;
    least = bits;
    best = low;
  }
  return best;
}

Json to_json(const wds::ShuffleDraws& draws) {
  return {draws.seed,    draws.epoch, draws.stream, draws.buffer_samples,
          draws.earlier, draws.in,    draws.out};
}

wds::ShuffleDraws draws_from(const Json& value) {
  const auto at = [&](std::size_t i) { return packed_number<std::uint64_t>(value.at(i), "drawn"); };
  return {.seed = at(0),
          .epoch = packed_number<std::uint32_t>(value.at(1), "drawn"),
          .stream = packed_number<std::uint32_t>(value.at(2), "drawn"),
          .buffer_samples = at(3),
          .earlier = at(4),
          .in = at(5),
          .out = at(6)};
}

/// Puts the samples of one shard into the places that are next.
void take_run(const Json& run, std::uint64_t unit, BitReader& bits, SampleRefs& refs) {
  const auto shard = packed_number<std::uint32_t>(run.at(0), "a shard's number");
  const auto count = packed_number<std::uint64_t>(run.at(1), "samples of a shard", 1);
  const auto least = packed_number<std::uint64_t>(run.at(3), "a step", 0, kMaxOffset / unit);
  const auto low_bits = packed_number<unsigned>(run.at(4), "bits", 0, kMostLowBits);
  auto offset = packed_number<std::uint64_t>(run.at(2), "an offset", 0, kMaxOffset / unit);
  for (std::uint64_t i = 0; i < count; ++i) {
    if (i > 0) offset += least + bits.read_rice(low_bits);
    if (offset > kMaxOffset / unit) corrupt_refs("an offset is too large");
    refs.push_back({shard, offset * unit});
  }
}

std::vector<std::size_t> read_places(BitReader& bits, std::size_t count) {
  std::vector<std::size_t> places(count);
  std::vector<bool> taken(count);
  for (std::size_t& place : places) {
    place = bits.read(place_bits(count));
    if (place >= count || taken[place]) corrupt_refs("a place is taken");
    taken[place] = true;
  }
  return places;
}

SampleRefs refs_from_bits(const Json& value) {
  const auto unit = packed_number<std::uint64_t>(value.at("unit"), "unit", 1, kTarBlock);
  BitReader bits(value.at("bits").get_ref<const std::string&>());
  SampleRefs sorted;
  for (const Json& run : value.at("runs")) take_run(run, unit, bits, sorted);
  const std::vector<std::size_t> places = value.contains("drawn")
                                              ? drawn_places(draws_from(value.at("drawn")))
                                              : read_places(bits, sorted.size());
  if (places.size() != sorted.size()) corrupt_refs("the numbers drawn are those of another buffer");
  SampleRefs refs(sorted.size());
  for (std::size_t i = 0; i < sorted.size(); ++i) refs[places[i]] = sorted[i];
  return refs;
}

/// Puts the samples of one shard into their places, each of which must still be free.
void take_places(const Json& shard, std::uint64_t unit, SampleRefs& refs,
                 std::vector<bool>& taken) {
  const auto index = packed_number<std::uint32_t>(shard.at(0), "a shard's number");
  const Json& places = shard.at(1);
  const Json& offsets = shard.at(2);
  if (places.size() != offsets.size())
    corrupt_refs("a shard has more places than offsets, or fewer");
  std::uint64_t offset = 0;
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto place = packed_number<std::size_t>(places[i], "a place", 0, refs.size() - 1);
    offset += packed_number<std::uint64_t>(offsets[i], "an offset", 0, kMaxOffset / unit) * unit;
    if (taken[place] || offset > kMaxOffset)
      corrupt_refs("a place is taken, or an offset too large");
    taken[place] = true;
    refs[place] = {index, offset};
  }
}

/// As versions before the bits wrote them: numbers, of which an offset is the difference from the
/// one before: {"unit": 512, "shards": [[SHARD, [PLACE, ...], [OFFSET / UNIT, FURTHER / UNIT,
/// ...]], ...]}.
SampleRefs refs_from_numbers(const Json& value) {
  const auto unit = packed_number<std::uint64_t>(value.at("unit"), "unit", 1, kTarBlock);
  std::size_t count = 0;
  for (const Json& shard : value.at("shards")) count += shard.at(1).size();
  SampleRefs refs(count);
  std::vector<bool> taken(count);
  for (const Json& shard : value.at("shards")) take_places(shard, unit, refs, taken);
  return refs;
}

}  // namespace

// {"unit": 512, "runs": [[SHARD, SAMPLES, FIRST, LEAST STEP, LOW BITS], ...], "bits": "..."},
// offsets and steps in units: the runs' steps, and then the places, unless they are "drawn".
Json packed_refs(const SampleRefs& refs, const wds::ShuffleDraws& draws) {
  const std::uint64_t unit = unit_of(refs);
  const std::vector<std::size_t> places = sorted_places(refs);
  const bool drawn = draws.in - draws.out == refs.size() && places == drawn_places(draws);
  Json value = {{"unit", unit}, {"runs", Json::array()}};
  BitWriter bits;
  for (const Run& run : runs_of(refs, places, unit)) {
    const unsigned low_bits = best_low_bits(run.steps);
    value["runs"].push_back({run.shard, run.steps.size() + 1, run.first, run.least, low_bits});
    for (const std::uint64_t step : run.steps) bits.write_rice(step, low_bits);
  }
  if (drawn && !refs.empty()) {
    value["drawn"] = to_json(draws);
  } else {
    for (const std::size_t place : places) bits.write(place, place_bits(refs.size()));
  }
  value["bits"] = bits.text();
  return value;
}

SampleRefs unpacked_refs(const Json& value) {
  return value.contains("shards") ? refs_from_numbers(value) : refs_from_bits(value);
}

}  // namespace millrace::pipeline::detail
