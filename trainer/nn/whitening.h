// Whitening: a convolution's filters from the patches of the pictures that it is to see.
//
// Of a convolution on the model's input, with start values Init::kWhitening: the eigenvectors of
// the patches' second moments, in the order of their eigenvalues, each divided by the root of its
// eigenvalue and kEpsilon, then the same negated. The responses to the patches have equal powers
// and no correlation. A run computes them once, before its first step: from that step's samples, or
// from as many of its first epoch's slots as Conv2d::init_samples says.
//
//   PatchMoments moments(whitening_layers(graph).front());
//   for (...) moments.add(image);                       // (H, W, C), as the model is given it
//   const std::vector<float> filters = moments.filters();
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "trainer/nn/graph.h"

namespace millrace::trainer::nn {

struct WhiteningLayer {
  std::size_t input = 0;   ///< an index into Graph::inputs()
  std::size_t weight = 0;  ///< an index into Graph::parameters()
  Shape image;             ///< of the input, (C, H, W)
  Conv2d conv;
};
std::vector<WhiteningLayer> whitening_layers(const Graph& graph);

class PatchMoments {
 public:
  static constexpr double kEpsilon = 5e-4;

  explicit PatchMoments(const WhiteningLayer& layer);

  /// Adds the patches of a picture. Shape: (H, W, C).
  void add(std::span<const float> image);
  /// The sums so far, which may be summed over several: products, then the number of patches.
  std::span<double> sums() { return sums_; }
  /// Shape: (O, C, kernel height, kernel width). Throws: NotFound without a patch.
  std::vector<float> filters() const;

 private:
  void copy_patch(std::span<const float> image, std::size_t top, std::size_t left,
                  float* patch) const;

  WhiteningLayer layer_;
  std::size_t kernel_height_;
  std::size_t kernel_width_;
  std::size_t values_;  ///< of a patch
  std::vector<double> sums_;
};

}  // namespace millrace::trainer::nn
