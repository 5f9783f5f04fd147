// The kinds of synthetic data, one a file.
#pragma once

#include <memory>

#include "io/base/rng.h"
#include "tools/create/sample_source.h"
#include "tools/create/synthetic_source.h"

namespace millrace::tools {

std::unique_ptr<SampleSource> make_classes_source(const SyntheticOptions& options);
std::unique_ptr<SampleSource> make_multilabel_source(const SyntheticOptions& options);
std::unique_ptr<SampleSource> make_scenes_source(const SyntheticOptions& options);
std::unique_ptr<SampleSource> make_segments_source(const SyntheticOptions& options);

/// What is drawn for sample `index`; `stream` tells draws for other things than the sample.
inline KeyedRng synthetic_rng(const SyntheticOptions& options, std::uint64_t index,
                              std::uint32_t stream = 0) {
  return KeyedRng(
      {.seed = options.seed, .stream = stream, .index = index, .purpose = Purpose::kSynthetic});
}

}  // namespace millrace::tools
