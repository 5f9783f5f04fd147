// Fake data: batches of the right shapes whose samples are made up. They show what everything but
// the input can do, and let a training program be tried before there is data.
//
//   Pipeline pipeline(with_fake_data(std::move(options), {.samples = 10'000, .classes = 1000}));
//
// Batches, masks, epochs, processes and positions are the real ones; nothing is read or decoded.
// Images (and every other array) show one random picture, kept from the start; labels (int64, one a
// sample) are drawn anew for each sample, keyed as all randomness is; numbers (float32) are 0 or 1.
#pragma once

#include <cstdint>

#include "pipeline/options.h"

namespace millrace::pipeline {

struct FakeDataOptions {
  /// Samples of an epoch over all processes, unless `epochs.samples` says how many.
  std::int64_t samples = 0;
  /// Labels are drawn from [0, classes).
  std::int64_t classes = 10;
};

/// `options` with a source and fields that make samples up, in place of what they had; what is for
/// shards alone is taken out. Throws: InvalidArgument.
PipelineOptions with_fake_data(PipelineOptions options, const FakeDataOptions& fake);

}  // namespace millrace::pipeline
