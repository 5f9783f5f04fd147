// Fake data: batches of the right shapes with synthetic samples. They measure everything but the
// input, and let a training program be tried before there is data.
//
//   Pipeline pipeline(with_fake_data(std::move(options), {.samples = 10'000, .classes = 1000}));
//
// Batches, masks, epochs, processes and positions work as with shards; nothing is read or decoded.
// Labels (one int64 per sample) and lists of numbers (float32, 0 or 1) are drawn for each sample,
// keyed by it. Images and every other array are the same in all samples: random values, drawn once.
#pragma once

#include <cstdint>

#include "pipeline/options.h"

namespace millrace::pipeline {

struct FakeDataOptions {
  /// Samples of an epoch over all processes, unless `epochs.samples` is set. Required.
  std::int64_t samples = 0;
  /// Labels are drawn from [0, classes).
  std::int64_t classes = 10;
};

/// `options` with a synthetic source and synthetic fields of the same names and shapes; shards,
/// indexes and shuffling (but for the seed) are reset. Throws: InvalidArgument.
PipelineOptions with_fake_data(PipelineOptions options, const FakeDataOptions& fake);

}  // namespace millrace::pipeline
