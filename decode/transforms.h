// Transform: an operation on a picture between decoding and its slot. Each is a struct in
// transforms/, which says what it is called and takes; standard_transforms() lists them.
//
//   std::vector<Transform> transforms = {RandomResizedCrop{.size = 160}, RandomHorizontalFlip{}};
//   transforms = parse("rrc(160), hflip", standard_transforms());      // the same
//
//   TransformTable table = standard_transforms();                      // with one's own
//   table.add<Speckle>();
//
// Names, defaults and formulas are torchvision's. Threads: const, from any.
#pragma once

#include <vector>

#include "decode/transform_step.h"
#include "io/component/choice.h"

namespace millrace::decode {

using Transform = Choice<TransformStep>;
using TransformTable = TableOf<TransformStep>;

const TransformTable& standard_transforms();

/// Transforms as a field of another one. In text they are the standard ones.
const ValueType& value_type(const std::vector<Transform>&);

/// What a transform does (transform_step.h). Throws: as Transform::make().
enum class TransformKind { kGeometry, kPixels, kScale };
TransformKind kind_of(const Transform& transform);

/// Those of a list that are of this kind, in their order.
std::vector<Transform> of_kind(const std::vector<Transform>& transforms, TransformKind kind);

}  // namespace millrace::decode
