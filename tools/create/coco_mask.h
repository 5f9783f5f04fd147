// Masks of COCO's segmentations: polygons, and run lengths by columns, plain or as text.
//
//   MaskArea area = mask_area(annotation["segmentation"], height, width);
//   paint(area, 7, mask);
//
// Threads: free functions, callable from any thread.
#pragma once

#include <array>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>
#include <vector>

#include "decode/class_mask.h"

namespace millrace::tools {

/// Where an object is: pixels inside any of the polygons, or runs outside and inside in turn, from
/// the first column's top on.
struct MaskArea {
  std::vector<std::vector<float>> polygons = {};  ///< x, y of each corner
  std::vector<std::uint32_t> runs = {};
};

/// Throws: Corrupt for anything that is no segmentation of a picture of this size.
MaskArea mask_area(const nlohmann::ordered_json& segmentation, int height, int width);

/// COCO's text of run lengths. Throws: Corrupt.
std::vector<std::uint32_t> parse_runs(std::string_view text);

/// x, y, width and height of what lies in the area, of a picture of `height`; nothing for an empty
/// one.
std::optional<std::array<double, 4>> bounds_of(const MaskArea& area, int height);

/// Sets the labels of the pixels whose centres are inside; what lies outside of the picture is not
/// drawn.
void paint(const MaskArea& area, std::int64_t label, decode::ClassImage& mask);

}  // namespace millrace::tools
