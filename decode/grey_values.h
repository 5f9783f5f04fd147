// GreyValues: how the levels of a grey picture are read as numbers, such as depths.
//
//   ImageDecoder decoder({.transforms = {Resize{352, 1216}}, .channels = 1,
//                         .values = GreyValues{.one = 20480, .none = 0}});  // KITTI: 80 m are 1
//
// Threads: a value type.
#pragma once

namespace millrace::decode {

struct GreyValues {
  /// The level that becomes 1, up to 65535. 0: the largest that the file's bits hold, 255 or 65535.
  int one = 0;
  /// The level of pixels without a value, which becomes NaN. -1: each pixel has one.
  int none = -1;

  bool operator==(const GreyValues&) const = default;
};

}  // namespace millrace::decode
