// Synthetic data: pictures that a small model can learn from, made from a seed alone, so that every
// kind of task has data without a download.
//
//   classes      one coloured shape on a noisy ground; the class is the pair (shape, colour): an
//                image and "cls"
//
// Sample i of a seed is always the same, however many are made.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/create/image_encoding.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

struct SyntheticOptions {
  std::string kind = "classes";
  std::uint64_t count = 1000;
  int classes = 10;
  /// Height and width of the pictures.
  int size = 32;
  std::uint64_t seed = 0;
  ImageEncoding encoding = {};
};

/// The kinds there are.
std::vector<std::string> synthetic_kinds();

/// Throws: InvalidArgument for a kind that there is not.
std::unique_ptr<SampleSource> make_synthetic_source(const SyntheticOptions& options);

}  // namespace millrace::tools
