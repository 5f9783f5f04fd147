// How many draws of a pass each set of a mix has where its samples are drawn by shares
// (wds/sample_selection.h): as many as an epoch takes of it, so that classes have their shares of
// what comes, not of what would come if the set were read to its end.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace millrace::wds {

/// For an epoch of `length` samples in which no set is dropped. Each stream has what it takes of a
/// set in the set's one pass, so that up to one draw of each stream is left over. `weights` as
/// MixPart's. Throws: InvalidArgument, as whole_weights().
std::vector<std::uint64_t> mix_draws(std::span<const double> weights, int num_streams,
                                     std::uint64_t length);

}  // namespace millrace::wds
