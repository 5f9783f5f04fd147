// Synthetic data: pictures that a small model can learn from, generated from a seed, so that every
// kind of task has data without a download.
//
//   classes      one coloured shape on a noisy background, the class is the pair: an
//                image and "cls"
//   multilabel   up to nine such shapes, each label's at most once: an image and "json",
//                {"patient": "p0007", "labels": [0, 1, ...]}; a patient has one to seven pictures,
//                all on one ground, and is a group; the key is "p0007/000123"
//   segments     streets of CamVid's 11 classes: an image and "mask.png" (a palette of the classes'
//                colours; 255 where a pixel belongs to none)
//   scenes       shapes at several distances, farther ones smaller and paler: an image, "mask.png"
//                (grey, 8 bits: 1 where there is a shape, 0 behind) and "depth.png" (grey, 8 bits:
//                255 nearest)
//
// Sample i of a seed is always the same, however many are generated.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "decode/transforms.h"
#include "io/base/rng.h"
#include "tools/create/image_encoding.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

struct SyntheticOptions {
  std::string kind = "classes";
  std::uint64_t count = 1000;
  /// For "classes" and "multilabel".
  int classes = 10;
  /// Size of the pictures.
  decode::Extent size = 32;
  std::uint64_t seed = 0;
  ImageEncoding encoding = {};
};

/// All kinds.
std::vector<std::string> synthetic_kinds();
/// Whether the kind has its own classes: SyntheticOptions::classes is for the others.
bool has_own_classes(std::string_view kind);

/// Throws: InvalidArgument for an unknown kind and for too many classes.
std::unique_ptr<SampleSource> make_synthetic_source(const SyntheticOptions& options);

/// The kinds, one per file.
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
