#include "wds/mix.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "io/base/error.h"
#include "wds/mix_draws.h"
#include "wds/sample_selection.h"

namespace millrace::wds {
namespace {

using Numbers = std::vector<std::uint64_t>;

constexpr double kMostDecimals = 1e6;
constexpr double kMostWhole = 1e6;
// What a double's own rounding leaves of a decimal.
constexpr double kNearlyWhole = 1e-9;

bool are_whole(std::span<const double> weights, double scale) {
  return std::ranges::all_of(weights, [scale](double weight) {
    const double value = weight * scale;
    return value <= kMostWhole && std::abs(value - std::round(value)) <= kNearlyWhole * value;
  });
}

std::uint64_t sum_of(const Numbers& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), std::uint64_t{0});
}

/// share of `samples` that stream `stream` of `streams` has if they take them in turn.
std::uint64_t share_of(std::uint64_t samples, std::uint64_t stream, std::uint64_t streams) {
  return samples <= stream ? 0 : (samples - stream + streams - 1) / streams;
}

/// The sets' streams that mixed stream `stream` has.
Numbers own_streams(std::span<const std::uint64_t> samples, std::uint64_t stream,
                    std::uint64_t streams) {
  Numbers own;
  std::uint64_t before = 0;
  for (const std::uint64_t count : samples) {
    own.push_back((stream + streams - before % streams) % streams);
    before += count;
  }
  return own;
}

/// How many samples of each set a mixed stream can have without repeating any.
Numbers own_samples(std::span<const std::uint64_t> samples, std::uint64_t stream,
                    std::uint64_t streams) {
  Numbers own = own_streams(samples, stream, streams);
  for (std::size_t i = 0; i < own.size(); ++i) own[i] = share_of(samples[i], own[i], streams);
  return own;
}

/// Steps from `first` of the sequence on until a set is asked for more than it has.
std::uint64_t steps_to_stop(const Numbers& weights, std::uint64_t first, Numbers left) {
  std::uint64_t periods = std::numeric_limits<std::uint64_t>::max();
  for (std::size_t i = 0; i < weights.size(); ++i)
    periods = std::min(periods, left[i] / weights[i]);
  for (std::size_t i = 0; i < weights.size(); ++i) left[i] -= periods * weights[i];
  std::uint64_t steps = periods * sum_of(weights);
  MixTurns turns(weights, first);
  for (;; ++steps) {
    const std::size_t set = *turns.next();
    if (left[set] == 0) return steps;
    --left[set];
    turns.take(set);
  }
}

/// Steps until each set was asked for all it has.
std::uint64_t steps_to_all(const Numbers& weights, std::uint64_t first, Numbers left) {
  std::uint64_t periods = 0;
  for (std::size_t i = 0; i < weights.size(); ++i)
    periods = std::max(periods, left[i] / weights[i]);
  for (std::size_t i = 0; i < weights.size(); ++i)
    left[i] -= std::min(left[i], periods * weights[i]);
  std::uint64_t steps = periods * sum_of(weights);
  MixTurns turns(weights, first);
  while (sum_of(left) > 0) {
    const std::size_t set = *turns.next();
    if (left[set] > 0) --left[set];
    turns.take(set);
    ++steps;
  }
  return steps;
}

/// How often each set is taken in `steps` steps from `first` on.
Numbers taken_in(const Numbers& weights, std::uint64_t first, std::uint64_t steps) {
  const std::uint64_t period = sum_of(weights);
  Numbers taken = weights;
  for (std::uint64_t& count : taken) count *= steps / period;
  MixTurns turns(weights, first);
  for (std::uint64_t i = 0; i < steps % period; ++i) {
    const std::size_t set = *turns.next();
    turns.take(set);
    ++taken[set];
  }
  return taken;
}

/// In all passes; of a set without end 0, because each of its streams draws for itself.
std::uint64_t samples_in_passes(const StreamSpec& spec) {
  if (spec.resampled) return 0;
  require(spec.found.counts != nullptr, "a mix needs the number of samples in each shard");
  const std::uint64_t own = spec.found.selection ? spec.found.selection->draws()
                                                 : spec.range.of(sum_of(*spec.found.counts));
  return own * std::max<std::uint32_t>(1, spec.passes);
}

Numbers samples_of(const std::vector<MixPart>& parts) {
  Numbers samples;
  samples.reserve(parts.size());
  for (const MixPart& part : parts) samples.push_back(samples_in_passes(part.spec));
  return samples;
}

/// A set that starts over has no last pass; those behind its own go on as they are.
std::uint32_t passes_of(const StreamSpec& spec, MixEnd end) {
  if (end != MixEnd::kRepeat) return spec.passes;
  return spec.passes > 1 ? std::numeric_limits<std::uint32_t>::max() : 0;
}

/// Steps are counted in whole numbers of 64 bits.
void check_length(const Numbers& weights, std::uint64_t samples) {
  constexpr std::uint64_t kMostSteps = std::uint64_t{1} << 62U;
  const std::uint64_t most = kMostSteps / sum_of(weights);
  require(samples <= most, std::to_string(samples) +
                               " samples of a set in its passes are more than a mix of these "
                               "weights can count: at most " +
                               std::to_string(most));
}

std::vector<double> weights_of(const std::vector<MixPart>& parts) {
  std::vector<double> weights;
  weights.reserve(parts.size());
  for (const MixPart& part : parts) weights.push_back(part.weight);
  return weights;
}

std::vector<double> shares_of(const std::vector<MixPart>& parts) {
  std::vector<double> shares = weights_of(parts);
  const double sum = std::accumulate(shares.begin(), shares.end(), 0.0);
  for (double& share : shares) share /= sum;
  return shares;
}

/// Two parts of one set are shuffled otherwise.
constexpr std::uint64_t kPartSeed = 0x9E37'79B9'7F4A'7C15;

/// Each set's own streams, whose buffers together have the size of one.
std::vector<StreamSpec> specs_of(const MixedStream::Options& options) {
  const Numbers samples = samples_of(options.parts);
  const auto stream = static_cast<std::uint64_t>(options.stream);
  const auto streams = static_cast<std::uint64_t>(options.num_streams);
  const Numbers own = own_streams(samples, stream, streams);
  const Numbers taken = taken_in(whole_weights(weights_of(options.parts)), stream, options.samples);
  const std::vector<double> shares = shares_of(options.parts);
  std::vector<StreamSpec> specs;
  for (std::size_t i = 0; i < own.size(); ++i) {
    StreamSpec spec = options.parts[i].spec;
    spec.stream = static_cast<int>(own[i]);
    spec.num_streams = options.num_streams;
    spec.max_samples = options.end == MixEnd::kRepeat ? taken[i] : 0;
    spec.passes = passes_of(spec, options.end);
    ShuffleOptions& shuffle = spec.shuffle;
    shuffle.seed += i * kPartSeed;
    const auto part = [&](auto whole) {
      return static_cast<decltype(whole)>(std::ceil(static_cast<double>(whole) * shares[i]));
    };
    if (shuffle.buffer_samples > 1)
      shuffle.buffer_samples = std::max<std::int64_t>(2, part(shuffle.buffer_samples));
    shuffle.buffer_bytes = part(shuffle.buffer_bytes);
    specs.push_back(std::move(spec));
  }
  return specs;
}

}  // namespace

std::vector<std::uint64_t> whole_weights(std::span<const double> weights) {
  require(!weights.empty(), "a mix needs a set");
  for (const double weight : weights)
    require(std::isfinite(weight) && weight > 0, "a mix's weights must be numbers above 0");
  double scale = 1;
  while (scale < kMostDecimals && !are_whole(weights, scale)) scale *= 10;
  if (!are_whole(weights, scale))
    scale = kMostWhole / std::accumulate(weights.begin(), weights.end(), 0.0);
  Numbers whole;
  for (const double weight : weights) {
    whole.push_back(static_cast<std::uint64_t>(std::llround(weight * scale)));
    require(whole.back() > 0, "a mix's weight is less than a millionth of the others'");
  }
  const std::uint64_t divisor = std::accumulate(whole.begin(), whole.end(), std::uint64_t{0},
                                                std::gcd<std::uint64_t, std::uint64_t>);
  for (std::uint64_t& weight : whole) weight /= divisor;
  return whole;
}

MixTurns::MixTurns(std::vector<std::uint64_t> weights, std::uint64_t first)
    : weights_(std::move(weights)), taken_(weights_.size()), dropped_(weights_.size()) {
  for (std::uint64_t i = 0; i < first % sum_of(weights_); ++i) take(*next());
}

std::optional<std::size_t> MixTurns::next() {
  std::optional<std::size_t> best;
  // (2 n + 1) / weight as fractions, the first of equals: exact below 2^42 samples of a set.
  const auto comes_before = [this](std::size_t a, std::size_t b) {
    return (2 * taken_[a] + 1) * weights_[b] < (2 * taken_[b] + 1) * weights_[a];
  };
  for (std::size_t set = 0; set < weights_.size(); ++set)
    if (!dropped_[set] && (!best || comes_before(set, *best))) best = set;
  return best;
}

std::uint64_t mix_length(std::span<const double> weights, std::span<const std::uint64_t> samples,
                         int num_streams, MixEnd end) {
  if (end == MixEnd::kDrop) return sum_of({samples.begin(), samples.end()});
  const Numbers whole = whole_weights(weights);
  for (const std::uint64_t count : samples) check_length(whole, count);
  const auto streams = static_cast<std::uint64_t>(num_streams);
  const bool stops = end == MixEnd::kStop;
  std::uint64_t length = stops ? std::numeric_limits<std::uint64_t>::max() : 0;
  for (std::uint64_t stream = 0; stream < streams; ++stream) {
    const Numbers own = own_samples(samples, stream, streams);
    if (stops) {
      length = std::min(length, steps_to_stop(whole, stream, own) * streams + stream);
    } else if (const std::uint64_t steps = steps_to_all(whole, stream, own); steps > 0) {
      length = std::max(length, (steps - 1) * streams + stream + 1);
    }
  }
  return length;
}

std::vector<std::uint64_t> mix_draws(std::span<const double> weights, int num_streams,
                                     std::uint64_t length) {
  const Numbers whole = whole_weights(weights);
  const auto streams = static_cast<std::uint64_t>(num_streams);
  std::vector<Numbers> taken;
  for (std::uint64_t stream = 0; stream < streams; ++stream)
    taken.push_back(taken_in(whole, stream, share_of(length, stream, streams)));
  Numbers draws;
  for (std::size_t set = 0; set < whole.size(); ++set) {
    std::uint64_t most = 1;
    for (std::uint64_t stream = 0; stream < streams; ++stream) {
      // The last of its numbers there, of which the set's stream has every S-th.
      const std::uint64_t own = (stream + streams - sum_of(draws) % streams) % streams;
      if (const std::uint64_t count = taken[stream][set]; count > 0)
        most = std::max(most, own + (count - 1) * streams + 1);
    }
    draws.push_back(most);
  }
  return draws;
}

MixedStream::MixedStream(const Options& options, const StreamPosition* start,
                         const io::Opener& opener, FaultLedger& ledger, const std::stop_token& stop)
    : length_(options.samples),
      shares_(shares_of(options.parts)),
      turns_(whole_weights(weights_of(options.parts)), static_cast<std::uint64_t>(options.stream)),
      may_be_cut_(options.end == MixEnd::kStop && ledger.policy().on_fault == OnFault::kStop) {
  std::vector<StreamSpec> specs = specs_of(options);
  if (start != nullptr) {
    require(start->parts.size() == specs.size(), "the saved position is of another mix");
    samples_out_ = start->samples_out;
  }
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (start == nullptr) {
      parts_.emplace_back(std::move(specs[i]), opener, ledger, stop);
      continue;
    }
    parts_.emplace_back(std::move(specs[i]), start->parts[i], opener, ledger, stop);
    turns_.skip(i, start->parts[i].samples_out);
  }
}

bool MixedStream::next(SampleBlock& block) {
  block.samples.clear();
  block.num_bytes = 0;
  auto trail = std::make_shared<StreamTrail>();
  std::size_t part = 0;
  for (Sample sample; !block.full() && next_sample(sample, part);) {
    block.add(std::move(sample));
    trail->mix(part);
  }
  for (SampleStream& stream : parts_) trail->add_part(stream.take_trail());
  block.trail = std::move(trail);
  return !block.samples.empty();
}

// Which sets have run out follows from their own positions: nothing else has to be saved.
bool MixedStream::next_sample(Sample& sample, std::size_t& part) {
  while (samples_out_ < length_) {
    const std::optional<std::size_t> set = turns_.next();
    if (!set) return false;
    part = *set;
    if (parts_[part].next(sample)) {
      turns_.take(part);
      ++samples_out_;
      return true;
    }
    cut_short_ = may_be_cut_;
    if (cut_short_) return false;
    turns_.drop(part);
  }
  return false;
}

StreamPosition MixedStream::position() const {
  StreamPosition position{.samples_out = samples_out_, .lost = {.more = cut_short_}};
  for (const SampleStream& stream : parts_) {
    position.parts.push_back(stream.position());
    const StreamPosition& part = position.parts.back();
    position.samples_in += part.samples_in;
    position.lost += part.lost;
  }
  return position;
}

bool MixedStream::is_draining() const {
  return std::ranges::all_of(parts_, [](const SampleStream& part) { return part.is_draining(); });
}

void MixedStream::prefill(std::size_t samples, std::size_t bytes) {
  for (std::size_t i = 0; i < parts_.size(); ++i)
    parts_[i].prefill(static_cast<std::size_t>(static_cast<double>(samples) * shares_[i]),
                      static_cast<std::size_t>(static_cast<double>(bytes) * shares_[i]));
}

std::uint64_t MixedStream::restored_bytes() const {
  std::uint64_t bytes = 0;
  for (const SampleStream& part : parts_) bytes += part.restored_bytes();
  return bytes;
}

}  // namespace millrace::wds
