#include "tools/resized_partners.h"

#include <fmt/format.h>

#include <optional>
#include <string_view>
#include <vector>

#include "decode/boxes.h"
#include "decode/codec.h"
#include "decode/image.h"
#include "decode/npy.h"
#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::tools {
namespace {

std::string_view last_part(std::string_view suffix) { return suffix.substr(suffix.rfind('.') + 1); }

/// Of an array (H, W) or (H, W, C).
std::optional<decode::ImageSize> array_size(const io::Bytes& data) {
  constexpr std::int64_t kMost = 1 << 24;
  const auto shape = decode::parse_npy(data).shape;
  if (shape.size() < 2 || shape.size() > 3 || shape[0] > kMost || shape[1] > kMost) return {};
  return decode::ImageSize{.height = static_cast<int>(shape[0]),
                           .width = static_cast<int>(shape[1])};
}

/// Nothing for what is no picture, or a damaged one, which recoding counts.
std::optional<decode::ImageSize> partner_size(std::string_view suffix, const io::Bytes& data) {
  try {
    if (decode::standard_codecs()->of_content(data.span()) != nullptr)
      return decode::image_size(data);
    if (last_part(suffix) == "npy") return array_size(data);
  } catch (const Error&) {
  }
  return {};
}

bool same(const decode::ImageSize& one, const decode::ImageSize& other) {
  return one.height == other.height && one.width == other.width;
}

std::string sides_of(const decode::ImageSize& size) {
  return fmt::format("{} x {}", size.height, size.width);
}

struct Sizes {
  std::string suffix;
  decode::ImageSize before;
  decode::ImageSize after;
};

std::vector<Sizes> sizes_of(std::span<const ResizedField> fields) {
  std::vector<Sizes> sizes;
  for (const ResizedField& field : fields) {
    const auto before = partner_size(field.suffix, field.before);
    if (!before) continue;
    const bool is_kept = field.after.data() == field.before.data();
    const auto after = is_kept ? before : partner_size(field.suffix, field.after);
    sizes.push_back({field.suffix, *before, after.value_or(*before)});
  }
  return sizes;
}

void check_pair(const std::string& key, const Sizes& one, const Sizes& other) {
  if (!same(one.before, other.before) || same(one.after, other.after)) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      fmt::format("{} and {} are both {}, and {} alone would become {}: train's --size "
                  "resizes both",
                  one.suffix, other.suffix, sides_of(one.before), one.suffix, sides_of(one.after)),
      {.key = key});
}

void check_boxes(const std::string& key, std::span<const ResizedField> fields) {
  for (const ResizedField& field : fields) {
    if (last_part(field.suffix) != "json") continue;
    try {
      refuse_boxes_without_size(field.before);
    } catch (Error& error) {
      error.annotate({.key = key, .member = key + "." + field.suffix});
      throw;
    }
  }
}

}  // namespace

void check_partners(const std::string& key, std::span<const ResizedField> fields) {
  const std::vector<Sizes> sizes = sizes_of(fields);
  for (const Sizes& one : sizes) {
    if (same(one.before, one.after)) continue;
    for (const Sizes& other : sizes) check_pair(key, one, other);
    check_boxes(key, fields);
  }
}

void refuse_boxes_without_size(const io::Bytes& json) {
  const decode::BoxKeys keys{.labels = "", .crowds = ""};
  if (json.text().find('"' + keys.boxes + '"') == std::string_view::npos) return;
  decode::ObjectBoxes found;
  try {
    found = decode::decode_json_boxes(json, keys);
  } catch (const Error&) {  // other boxes than readers know
    return;
  }
  if (found.objects.empty() || found.picture) return;
  throw Error(
      ErrorCode::kInvalidArgument,
      "the json has boxes and does not say of which size of picture, so they would be wrong "
      "in the resized one: add its \"width\" and \"height\", or leave the size");
}

}  // namespace millrace::tools
