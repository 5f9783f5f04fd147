// SampleView: a sample as pictures, one per field: as a model would see them, or as stored.
//
// The first field is the image: cropped, flipped and resized as in training. The others (masks,
// depth) go through the same geometry with nearest-neighbour resizing. Grey ones are made visible:
// small values as one colour each; many values, and depth, stretched from black to white. A mask of
// palette indices or grey levels of any bit depth shows its classes, in class_colour()'s colours.
// Boxes of objects are drawn on the image, where its transforms move them. With multi-crop the
// pictures are the views of the image.
//
// Threads: const members may be called from many threads.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "decode/boxes.h"
#include "decode/codec.h"
#include "decode/image.h"
#include "decode/paired_decoder.h"
#include "tools/image_options.h"
#include "wds/sample.h"

namespace millrace::tools {

struct SampleViewOptions {
  /// A suffix, or several to choose from ("jpg;png"), for each picture.
  std::vector<std::string> fields = {decode::standard_codecs()->suffixes()};
  /// Suffix of the JSON with the boxes of objects; empty: none are drawn.
  std::string boxes = {};
  /// Requires: size and channels are set.
  ImageOptions images = {};
  /// Multi-crop: how each view is seen; then there is one field, no boxes, and neither `evaluation`
  /// nor `raw`.
  std::vector<ImageOptions> views = {};
  /// Evaluation's transforms instead of training's.
  bool evaluation = false;
  /// As stored, except that pictures over kMaxStored pixels wide or high are shrunk.
  bool raw = false;
  std::uint64_t seed = 0;
  bool tolerate_truncated = false;
};

class SampleView {
 public:
  static constexpr int kMaxStored = 512;

  explicit SampleView(SampleViewOptions options) : options_(std::move(options)) {}

  /// `index` keys the random transforms. Throws: NotFound (a field is missing), and as
  /// decoding.
  std::vector<decode::Image> pictures(const wds::Sample& sample, std::uint64_t index) const;
  /// Whether one of the pictures shows class numbers.
  bool shows_classes(const wds::Sample& sample) const;

 private:
  std::vector<decode::PairedImage> files_of(const wds::Sample& sample) const;
  bool holds_classes(std::size_t field, const io::Bytes& encoded) const;
  decode::Image stored(std::size_t field, const io::Bytes& encoded) const;
  std::vector<decode::Image> seen_views(const io::Bytes& encoded, const decode::SampleId& id) const;
  decode::ImageDecoderOptions view_of(const ImageOptions& images) const;
  std::vector<decode::Image> seen(std::vector<decode::PairedImage> files,
                                  const decode::SampleId& id) const;
  std::vector<decode::ObjectBox> boxes_of(const wds::Sample& sample,
                                          const decode::Geometry& geometry,
                                          const decode::ImageSize& size) const;
  decode::Geometry image_geometry(const decode::ImageSize& size, const decode::Image& drawn,
                                  const decode::SampleId& id) const;
  void add_boxes(const wds::Sample& sample, const io::Bytes& encoded, const decode::SampleId& id,
                 decode::Image& drawn) const;
  decode::ImageDecoderOptions member(std::size_t field, const io::Bytes& encoded) const;
  std::vector<decode::Transform> transforms() const;
  bool normalised() const { return !options_.images.mean.empty() || !options_.images.std.empty(); }

  SampleViewOptions options_;
};

}  // namespace millrace::tools
