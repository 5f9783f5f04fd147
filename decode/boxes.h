// Boxes: where the objects of a picture are, read from JSON, and moved as what is seen of it moves.
//
//   const PictureGeometry pictures(options);                      // those of its ImageDecoder
//   const ImageSize size = pictures.size(jpeg);
//   const Geometry geometry = pictures.choose(size, id);          // as the decoder chooses
//   for (const ObjectBox& object : decode_json_boxes(json, {}).objects)
//     const SeenBounds seen = seen_through(geometry, object.bounds);
//
// Coordinates are pixels from the upper left corner, as Projection has them: the first pixel
// reaches from 0 to 1.
// Threads: const members and functions may be called from many threads at once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "decode/extent.h"
#include "decode/geometry.h"
#include "decode/image.h"
#include "decode/image_decoder.h"
#include "decode/sample_id.h"
#include "io/base/words.h"
#include "io/bytes.h"

namespace millrace::decode {

namespace detail {
class TransformList;
}

struct Bounds {
  double left = 0;
  double top = 0;
  double right = 0;
  double bottom = 0;

  double width() const { return right - left; }
  double height() const { return bottom - top; }
  double area() const { return width() * height(); }
};

/// What the four numbers of a box are.
enum class BoxForm {
  kXywh,    ///< left, top, width, height: COCO's
  kXyxy,    ///< left, top, right, bottom
  kCxcywh,  ///< the middle, width, height
};
inline constexpr std::array<Word<BoxForm>, 3> kBoxFormWords = {
    {{"xywh", BoxForm::kXywh}, {"xyxy", BoxForm::kXyxy}, {"cxcywh", BoxForm::kCxcywh}}};

std::array<double, 4> in_form(const Bounds& bounds, BoxForm form);

struct ObjectBox {
  Bounds bounds = {};
  std::int64_t label = -1;  ///< -1: it has no class
};

/// Where a JSON has boxes: each a key of the outermost object, or a JSON pointer.
struct BoxKeys {
  std::string boxes = "boxes";    ///< a list of lists of four numbers
  std::string labels = "labels";  ///< class numbers, one for each box; empty: there are none
  /// Boxes with 1 (or true) here are of crowds, and left out; where the JSON has no such list, or
  /// if empty, none are.
  std::string crowds = "crowd";
  BoxForm form = BoxForm::kXywh;
};

struct ObjectBoxes {
  std::vector<ObjectBox> objects = {};  ///< in the file's order, with a width and height above 0
  /// "width" and "height" of the outermost object: of the picture that they are of.
  std::optional<ImageSize> picture = {};
};

/// Throws: Corrupt if the field is not such JSON: no list of boxes, a box that is not four numbers
/// or has a negative side, lists that differ in length, a width without a height.
ObjectBoxes decode_json_boxes(const io::Bytes& field, const BoxKeys& keys);

/// For a picture that was made smaller after its boxes were drawn. Throws: Corrupt if the sizes
/// have other proportions.
void scale_boxes(ObjectBoxes& boxes, const ImageSize& picture);

/// What is left of a box.
struct SeenBounds {
  Bounds bounds = {};
  double share = 0;  ///< of its area, 0 to 1; 0: nothing
};

/// What becomes of `box` of the picture: moved, and cut where each crop ends. One that is turned is
/// the upright box around its corners. Source: torchvision's transforms.v2.
SeenBounds seen_through(const Geometry& geometry, const Bounds& box);

/// The geometry that a decoder chooses for each picture, without decoding it.
class PictureGeometry {
 public:
  /// Throws: InvalidArgument as ImageDecoder, and if a transform moves pixels where boxes cannot
  /// follow (RandAugment).
  explicit PictureGeometry(const ImageDecoderOptions& options);
  ~PictureGeometry();
  PictureGeometry(PictureGeometry&&) noexcept;
  PictureGeometry& operator=(PictureGeometry&&) noexcept;

  /// Before any transform. Throws: as image_size().
  ImageSize size(const io::Bytes& encoded) const;
  /// Throws: Unsupported for a size that a transform cannot take.
  Geometry choose(const ImageSize& size, const SampleId& id) const;

 private:
  DecodeImageOptions reading_;
  std::unique_ptr<const detail::TransformList> transforms_;
};

}  // namespace millrace::decode
