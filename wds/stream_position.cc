#include "wds/stream_position.h"

#include <algorithm>

namespace millrace::wds {
namespace {

using SampleRefs = std::vector<StreamPosition::SampleRef>;

auto at(const SampleRefs& refs, std::size_t place) {
  return refs.begin() + static_cast<std::ptrdiff_t>(place);
}

}  // namespace

LostSamples LostSamples::or_later(const LostSamples& other) const {
  return {.samples = std::max(samples, other.samples),
          .shards = std::max(shards, other.shards),
          .more = more || other.more,
          .unselected = std::max(unselected, other.unselected)};
}

LostSamples& LostSamples::operator+=(const LostSamples& other) {
  samples += other.samples;
  shards += other.shards;
  more = more || other.more;
  unselected += other.unselected;
  return *this;
}

std::size_t StreamPosition::num_buffered() const {
  std::size_t count = buffered.size();
  for (const StreamPosition& part : parts) count += part.num_buffered();
  return count;
}

void StreamTrail::leave(std::size_t place, const StreamPosition& after) {
  add(static_cast<std::uint32_t>(place), after);
}

void StreamTrail::pass(const StreamPosition& after) { add(kNoPlace, after); }

void StreamTrail::add(std::uint32_t place, const StreamPosition& after) {
  open_.insert(open_.end(), after.open.begin(), after.open.end());
  steps_.push_back({.samples_out = after.samples_out,
                    .samples_in = after.samples_in,
                    .earlier_passes = after.earlier_passes,
                    .lost = after.lost,
                    .offset = after.offset,
                    .shard = after.shard,
                    .turn = after.turn,
                    .place = place,
                    .entered = static_cast<std::uint32_t>(entered_.size()),
                    .open = static_cast<std::uint32_t>(open_.size())});
}

void StreamTrail::advance(StreamPosition& position, std::size_t samples) const {
  if (samples == 0) return;
  if (!parts_.empty()) return advance_parts(position, samples);
  SampleRefs& buffered = position.buffered;
  std::size_t entered = 0;
  for (std::size_t i = 0; i < samples; ++i) {
    const Step& step = steps_[i];
    buffered.insert(buffered.end(), at(entered_, entered), at(entered_, step.entered));
    entered = step.entered;
    if (step.place == kNoPlace) continue;
    buffered[step.place] = buffered.back();
    buffered.pop_back();
  }
  const Step& last = steps_[samples - 1];
  const std::size_t open_before = samples > 1 ? steps_[samples - 2].open : 0;
  position.samples_out = last.samples_out;
  position.samples_in = last.samples_in;
  position.earlier_passes = last.earlier_passes;
  position.lost = last.lost;
  position.offset = last.offset;
  position.shard = last.shard;
  position.turn = last.turn;
  position.open.assign(at(open_, open_before), at(open_, last.open));
}

void StreamTrail::advance_parts(StreamPosition& position, std::size_t samples) const {
  std::vector<std::size_t> taken(parts_.size());
  for (std::size_t i = 0; i < samples; ++i) ++taken[order_[i]];
  position.parts.resize(parts_.size());
  position.samples_in = 0;
  position.lost = {.more = position.lost.more};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    parts_[i]->advance(position.parts[i], taken[i]);
    position.samples_in += position.parts[i].samples_in;
    position.lost += position.parts[i].lost;
  }
  position.samples_out += samples;
}

}  // namespace millrace::wds
