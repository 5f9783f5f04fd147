// TransformList: a list of transforms, made once into the steps that every picture takes.
//
// Threads: const, from many at once, each with its own draws.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "decode/sample_id.h"
#include "decode/transforms.h"

namespace millrace::decode::detail {

/// The size that every picture has behind these steps; nullopt if it depends on the picture.
std::optional<Extent> output_of(std::span<const GeometryStep* const> steps);
/// The size of a picture behind steps that do not change it at random.
Extent size_after(std::span<const GeometryStep* const> steps, const Extent& before);

class TransformList {
 public:
  /// A sample, and its generators, one for each purpose in the list. Reused from sample to sample.
  struct Draws {
    SampleId id = {};
    std::vector<KeyedRng> generators = {};
  };

  /// Throws: InvalidArgument for a value out of range, or kinds out of order: geometry, pixels, and
  /// at most one scale.
  explicit TransformList(std::span<const Transform> transforms);

  /// The size that every picture has behind them. Throws: InvalidArgument if it depends on the
  /// picture.
  Extent output() const;
  /// Throws: InvalidArgument if one is not for pictures of so many channels.
  void check_channels(int channels) const;
  bool changes_pixels() const { return !pixels_.empty(); }
  /// Null: levels become level / 255.
  const ScaleStep* scale() const { return scale_; }

  void start(const SampleId& id, Draws& draws) const;
  /// Requires: start(). Throws: Unsupported for a picture that a step cannot take.
  Geometry choose(int width, int height, Draws& draws) const;
  /// Requires: start().
  void change(Pixels& pixels, Draws& draws) const;

 private:
  template <typename Step>
  struct Drawing {
    const Step* step;
    std::size_t draws;  ///< which generator
  };

  void add(const Transform& transform);
  std::size_t generator_for(Purpose purpose);

  std::vector<std::unique_ptr<const TransformStep>> steps_;
  std::vector<Purpose> purposes_;
  std::vector<Drawing<GeometryStep>> geometry_;
  std::vector<Drawing<PixelStep>> pixels_;
  const ScaleStep* scale_ = nullptr;
};

}  // namespace millrace::decode::detail
