#include "tools/create/coco_mask.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <string>

#include "io/base/error.h"
#include "io/base/json.h"

namespace millrace::tools {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void no_segmentation(const std::string& why) {
  throw Error(ErrorCode::kCorrupt, "segmentation: " + why);
}

std::vector<float> polygon_of(const Json& json) {
  if (!json.is_array() || json.size() < 6 || json.size() % 2 != 0)
    no_segmentation("a polygon has the x and y of three corners or more");
  std::vector<float> corners;
  corners.reserve(json.size());
  for (const Json& number : json) {
    if (!number.is_number()) no_segmentation("a corner that is no number");
    corners.push_back(number.get<float>());
    if (!std::isfinite(corners.back()) || std::abs(corners.back()) > 1e6F)
      no_segmentation("a corner outside of any picture");
  }
  return corners;
}

std::vector<std::uint32_t> runs_of(const Json& counts) {
  if (counts.is_string()) return parse_runs(counts.get_ref<const std::string&>());
  if (!counts.is_array()) no_segmentation("run lengths are a list or a text");
  std::vector<std::uint32_t> runs;
  for (const Json& count : counts)
    runs.push_back(json_integer<std::uint32_t>(count, "segmentation: a run length"));
  return runs;
}

void check_runs(const std::vector<std::uint32_t>& runs, const Json& size, int height, int width) {
  if (!size.is_array() || size.size() != 2 || size[0] != height || size[1] != width)
    no_segmentation(fmt::format("of a picture of another size than {} x {}", height, width));
  std::uint64_t pixels = 0;
  for (const std::uint32_t run : runs) pixels += run;
  if (pixels != static_cast<std::uint64_t>(height) * static_cast<std::uint64_t>(width))
    no_segmentation("run lengths of another number of pixels");
}

/// Where the polygon's edges cross the middle of row `y`, from left to right.
std::vector<float> crossings(const std::vector<float>& corners, int y) {
  const float middle = static_cast<float>(y) + 0.5F;
  std::vector<float> at;
  for (std::size_t i = 0, n = corners.size(); i < n; i += 2) {
    const float x0 = corners[i];
    const float y0 = corners[i + 1];
    const float x1 = corners[(i + 2) % n];
    const float y1 = corners[(i + 3) % n];
    if ((y0 <= middle) == (y1 <= middle)) continue;
    at.push_back(x0 + (middle - y0) / (y1 - y0) * (x1 - x0));
  }
  std::sort(at.begin(), at.end());
  return at;
}

/// The first column of `width` whose middle is at `x` or behind it.
int first_column(float x, int width) {
  return static_cast<int>(std::clamp(std::ceil(x - 0.5F), 0.0F, static_cast<float>(width)));
}

void paint_polygon(const std::vector<float>& corners, std::int64_t label,
                   decode::ClassImage& mask) {
  float top = corners[1];
  float bottom = corners[1];
  for (std::size_t i = 1; i < corners.size(); i += 2) {
    top = std::min(top, corners[i]);
    bottom = std::max(bottom, corners[i]);
  }
  const int first = std::max(0, static_cast<int>(std::floor(top)));
  const int last = std::min(mask.height - 1, static_cast<int>(std::floor(bottom)));
  for (int y = first; y <= last; ++y) {
    const auto at = crossings(corners, y);
    const auto row = mask.labels.begin() + static_cast<std::ptrdiff_t>(y) * mask.width;
    for (std::size_t i = 0; i + 1 < at.size(); i += 2)
      std::fill(row + first_column(at[i], mask.width), row + first_column(at[i + 1], mask.width),
                label);
  }
}

void paint_runs(const std::vector<std::uint32_t>& runs, std::int64_t label,
                decode::ClassImage& mask) {
  const auto height = static_cast<std::size_t>(mask.height);
  const auto width = static_cast<std::size_t>(mask.width);
  std::size_t at = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::size_t end = at + runs[i];
    if (i % 2 == 1)
      for (std::size_t pixel = at; pixel < end; ++pixel)
        mask.labels[pixel % height * width + pixel / height] = label;
    at = end;
  }
}

/// Along one axis.
struct MaskExtent {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void take(double from, double to) {
    low = std::min(low, from);
    high = std::max(high, to);
  }
};

/// Of the pixels from `first` to `last`, by columns.
void take_run(std::uint64_t first, std::uint64_t last, int height, MaskExtent& across,
              MaskExtent& down) {
  const auto rows = static_cast<std::uint64_t>(height);
  const std::uint64_t left = first / rows;
  const std::uint64_t right = last / rows;
  across.take(static_cast<double>(left), static_cast<double>(right + 1));
  if (left == right)
    down.take(static_cast<double>(first % rows), static_cast<double>(last % rows + 1));
  else
    down.take(0, static_cast<double>(rows));
}

}  // namespace

// Five bits a character, the lowest first, the last with the sign; from the fourth on a run is the
// difference to the one before the last.
std::vector<std::uint32_t> parse_runs(std::string_view text) {
  std::vector<std::uint32_t> runs;
  for (std::size_t at = 0; at < text.size();) {
    std::int64_t run = 0;
    bool more = true;
    for (unsigned shift = 0; more; shift += 5) {
      if (at == text.size() || shift > 35) no_segmentation("run lengths that end within a number");
      const int bits = text[at++] - 48;
      if (bits < 0 || bits > 63) no_segmentation("run lengths of other characters");
      run |= static_cast<std::int64_t>(bits & 31) << shift;
      more = (bits & 32) != 0;
      if (!more && (bits & 16) != 0) run -= std::int64_t{1} << (shift + 5);
    }
    if (runs.size() > 2) run += runs[runs.size() - 2];
    if (run < 0 || run > UINT32_MAX) no_segmentation("a negative run length");
    runs.push_back(static_cast<std::uint32_t>(run));
  }
  return runs;
}

MaskArea mask_area(const Json& segmentation, int height, int width) {
  MaskArea area;
  if (segmentation.is_array()) {
    for (const Json& polygon : segmentation) area.polygons.push_back(polygon_of(polygon));
    return area;
  }
  if (!segmentation.is_object() || !segmentation.contains("counts") ||
      !segmentation.contains("size"))
    no_segmentation("neither polygons nor run lengths");
  area.runs = runs_of(segmentation["counts"]);
  check_runs(area.runs, segmentation["size"], height, width);
  return area;
}

std::optional<std::array<double, 4>> bounds_of(const MaskArea& area, int height) {
  MaskExtent across;
  MaskExtent down;
  for (const auto& polygon : area.polygons)
    for (std::size_t i = 0; i + 1 < polygon.size(); i += 2) {
      across.take(polygon[i], polygon[i]);
      down.take(polygon[i + 1], polygon[i + 1]);
    }
  std::uint64_t at = 0;
  for (std::size_t i = 0; i < area.runs.size(); at += area.runs[i++])
    if (i % 2 == 1 && area.runs[i] > 0) take_run(at, at + area.runs[i] - 1, height, across, down);
  if (across.low > across.high) return {};
  return std::array{across.low, down.low, across.high - across.low, down.high - down.low};
}

void paint(const MaskArea& area, std::int64_t label, decode::ClassImage& mask) {
  for (const auto& polygon : area.polygons) paint_polygon(polygon, label, mask);
  paint_runs(area.runs, label, mask);
}

}  // namespace millrace::tools
