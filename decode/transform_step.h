// TransformStep: what a transform does to one sample. What it is called and takes is its struct's
// (transforms/random_resized_crop.h), whose make() returns one of these three kinds:
//
//   GeometryStep  moves, resizes and mirrors what is seen, before a pixel is decoded. All of a list
//                 are composed into one sampling of the encoded picture, the same for a picture,
//                 its mask and its depth.
//   PixelStep     changes the levels of decoded pixels; neighbours that are tables run as one.
//                 Policies such as RandAugment move pixels, too, and say so.
//   ScaleStep     turns levels into floats while they are written. One at most, and the last.
//
//   class Speckle final : public decode::PixelStep {
//     void change(Pixels& pixels, KeyedRng& rng) const override {
//       for (std::uint8_t& level : pixels.levels)
//         if (rng.uniform() < share_) level = 255;
//     }
//     ...
//
// Random numbers come from the generator that is given alone: it is keyed by the sample, the view
// and the transform's word, so that the same sample gets the same bits on any thread. Transforms of
// one word draw from one generator, in their order.
//
// Threads: const, from many at once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "decode/extent.h"
#include "decode/geometry.h"
#include "io/base/rng.h"

namespace millrace::decode {

struct SampleId;

class TransformStep {
 public:
  virtual ~TransformStep() = default;
  /// What its choices are for; nullopt: its own word. Steps of one purpose share a generator.
  virtual std::optional<Purpose> purpose() const { return {}; }
  /// Throws: InvalidArgument if it is not for pictures of so many channels (1, 3 or 4).
  virtual void check_channels(int /*channels*/) const {}
};

class GeometryStep : public TransformStep {
 public:
  /// How large it shows what is in a picture.
  enum class Scale {
    kKept,     ///< as it was
    kSet,      ///< it resizes what it is given, whole
    kWindows,  ///< it resizes windows, which are mostly parts of a picture
  };

  /// Throws: Unsupported for a picture that it cannot take.
  virtual void choose(Geometry& geometry, KeyedRng& rng) const = 0;
  /// Of a sample of a run, in which what is chosen may follow from the epoch. Default: choose().
  virtual void choose_for(const SampleId& /*id*/, Geometry& geometry, KeyedRng& rng) const {
    choose(geometry, rng);
  }
  /// The size that every picture has behind it; nullopt: it depends on the size before, alone.
  virtual std::optional<Extent> output() const { return {}; }
  virtual Scale scale() const { return Scale::kKept; }
  /// Whether it may stand behind steps of the other kinds. All geometry is done before them.
  virtual bool may_be_late() const { return false; }
};

/// Decoded pixels, to be changed in place.
struct Pixels {
  std::span<std::uint8_t> levels;  ///< (H, W, C), densely packed
  int height = 0;
  int width = 0;
  int channels = 0;  ///< 1 grey, 3 RGB, 4 RGB and alpha
};

class PixelStep : public TransformStep {
 public:
  virtual void change(Pixels& pixels, KeyedRng& rng) const = 0;
  /// Whether it moves what is seen, so that a mask beside the picture would no longer fit.
  virtual bool moves() const { return false; }
};

/// Changes each level by itself, but for alpha. Neighbours run as one table, in one pass.
class LevelStep : public PixelStep {
 public:
  using Levels = std::array<std::uint8_t, 256>;  ///< what each level becomes

  virtual Levels levels(KeyedRng& rng) const = 0;
  void change(Pixels& pixels, KeyedRng& rng) const final;
};

/// Replaces every level but alpha by the table's.
void apply_levels(Pixels& pixels, const LevelStep::Levels& levels);

class ScaleStep : public TransformStep {
 public:
  /// The float of a level: level * slope + offset.
  struct Line {
    float slope = 0;
    float offset = 0;
  };

  /// Requires: `channel` is one of those that were checked.
  virtual Line line(std::size_t channel) const = 0;
};

}  // namespace millrace::decode
