// What is derived from the options: checks, defaults, the order's fingerprint, the division of the
// memory.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "pipeline/detail/batch_buffers.h"
#include "pipeline/detail/tuner.h"
#include "pipeline/options.h"

namespace millrace::pipeline::detail {

/// The options with every default filled in, checked but for the fields and the memory budget.
/// Throws: InvalidArgument; as with_counts().
PipelineOptions resolve_options(PipelineOptions options);

/// The streams of this process, ascending.
std::vector<int> owned_streams(const PipelineOptions& options);

/// The epochs as the merge takes them: where incomplete global batches are dropped, a process of
/// several, or of several devices, ends after its share of the whole ones.
EpochOptions resolve_epochs(const PipelineOptions& options);
/// Batches that an epoch is filled up to with fully masked ones, so that all processes take as many
/// steps; 0: it has as many as its samples fill.
std::int64_t least_batches(const PipelineOptions& options);

/// Name and value of each option that fixes the order of samples, shards apart.
std::vector<std::pair<std::string, std::string>> order_options(const PipelineOptions& options);
/// Of a selection: how many samples are kept, and its digest.
inline constexpr std::string_view kSelection = "selection";
/// What stands in front of the SHA-256 of a file of weights.
inline constexpr std::string_view kOfWeightsFile = "file of SHA-256 ";
/// Those of them that are there only where they are used.
inline constexpr std::string_view kLaterPasses = "later-passes";
inline constexpr std::array<std::string_view, 12> kOptionsOnlyIfUsed = {
    "processes", "open-shards", "passes", "source", "samples", "mix",
    "where",     "balance",     "weight", "copies", "fill",    kLaterPasses};

/// Those that fix the samples' order alone; with another value of any other one, samples differ.
inline constexpr std::array<std::string_view, 12> kOptionsOfOrder = {
    "streams", "shuffle-shards", "shuffle",    "shuffle-bytes", "shuffle-initial", "shuffle-seed",
    "order",   "shard-buffer",   "detshuffle", "processes",     "open-shards",     kLaterPasses};

/// A shard's name without folder and query string: shards may have been moved when a run resumes.
std::string base_name(const std::string& url);

/// A hash of all that fixes the order of samples: order_options(), counts, the shards' names.
std::uint64_t order_fingerprint(const PipelineOptions& options);
/// The same of versions that gave a stream the same samples in each pass.
std::uint64_t earlier_fingerprint(const PipelineOptions& options);
/// The same of versions that knew a file of weights by its path, and of a selection nothing.
std::uint64_t unselected_fingerprint(const PipelineOptions& options);

/// Samples that this process's streams must have in an epoch, those that faults cost included;
/// nullopt where that is unknown, or a user's source does not say what faults have cost.
std::optional<std::int64_t> promised_samples(const PipelineOptions& options);
/// Name and value of each of those: order_options(), and of the shards and their counts the number
/// and a digest.
std::shared_ptr<const std::vector<std::pair<std::string, std::string>>> order_facts(
    const PipelineOptions& options);

/// Samples in the whole set, of all processes, as each of which may get any of them in another
/// epoch; 0: not known.
std::int64_t set_samples(const PipelineOptions& options);

/// What the memory is used for. The sum is the pipeline's bound.
struct MemoryShares {
  std::int64_t permits = 1;      ///< rounds of batches in the pipeline
  std::int64_t num_batches = 1;  ///< that it may hold, with those of the consumer
  std::size_t decode_bytes = 0;  ///< encoded bytes that wait for decoding
  TuneSettings first = {};       ///< what a pipeline starts with
  TuneSettings most = {};        ///< and may be tuned up to; the same without autotune
  std::size_t bound_bytes = 0;   ///< the whole sum, with `most`
};

/// Fits a pipeline with batches of `layout` into its budget, with fewer batches and less read-ahead
/// if need be. What is left of a budget is for more read-ahead. Requires: resolved options. Throws:
/// InvalidArgument, with the sum, if even the minimum does not fit, or if the batches' buffers are
/// larger than usable_memory().
MemoryShares share_memory(const PipelineOptions& options, const BatchLayout& layout);

}  // namespace millrace::pipeline::detail
