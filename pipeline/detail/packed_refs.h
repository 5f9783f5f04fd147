// A shuffle buffer's samples as JSON: sorted, as differences of offsets in a few bits each, and the
// places in the buffer only where they do not follow from the numbers drawn.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "wds/shuffle_draws.h"
#include "wds/stream_position.h"

namespace millrace::pipeline::detail {

using SampleRefs = std::vector<wds::StreamPosition::SampleRef>;

/// No offset in a shard is larger.
inline constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 60;

/// `draws`: how the buffer may have been filled, which is used only if it was.
nlohmann::json packed_refs(const SampleRefs& refs, const wds::ShuffleDraws& draws);

/// Reads packed_refs() and what earlier versions wrote. Throws: Corrupt, nlohmann's exceptions.
SampleRefs unpacked_refs(const nlohmann::json& value);

}  // namespace millrace::pipeline::detail
