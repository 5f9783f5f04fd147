// The kinds of synthetic data, one per file.
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

/// The generator for sample `index`; another `stream` is for draws that are not per sample.
inline KeyedRng synthetic_rng(const SyntheticOptions& options, std::uint64_t index,
                              std::uint32_t stream = 0) {
  return KeyedRng(
      {.seed = options.seed, .stream = stream, .index = index, .purpose = Purpose::kSynthetic});
}

}  // namespace millrace::tools
