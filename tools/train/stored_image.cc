#include "tools/train/stored_image.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "decode/class_mask.h"
#include "decode/codec.h"
#include "decode/image.h"
#include "io/base/error.h"
#include "tools/scan.h"

namespace millrace::tools {
namespace {

/// Smaller factors are ordinary resizing.
constexpr double kNotable = 1.5;
/// Less distortion is hardly seen.
constexpr double kSqueezed = 1.05;
/// The square in the middle of a 3:2 picture is more, and so is what it fills of a square.
constexpr double kCropped = 0.6;

StoredImage look_at(const wds::Field& field) {
  const decode::Image image = decode::decode_image(field.data, {.tolerate_truncated = true});
  return {.height = image.height, .width = image.width, .channels = image.channels};
}

/// Of their sides, from stored to seen, both 1 if nothing is resized.
struct Scale {
  double height = 1;
  double width = 1;
};

Scale scale_of(const StoredImage& stored, const ImageOptions& seen) {
  const Scale squeezed{static_cast<double>(seen.size.height) / stored.height,
                       static_cast<double>(seen.size.width) / stored.width};
  if (seen.fit == "none") return {};
  if (seen.fit == "squeeze") return squeezed;
  const double both = seen.fit == "contain" ? std::min(squeezed.height, squeezed.width)
                                            : std::max(squeezed.height, squeezed.width);
  return {both, both};
}

/// The share of the picture that is left after cropping it.
double share_seen(const StoredImage& stored, const ImageOptions& seen, const Scale& scale) {
  return std::min(1.0, seen.size.height / (scale.height * stored.height)) *
         std::min(1.0, seen.size.width / (scale.width * stored.width));
}

/// The share of the model's input that the picture fills.
double share_filled(const StoredImage& stored, const ImageOptions& seen, const Scale& scale) {
  return std::min(1.0, scale.height * stored.height / seen.size.height) *
         std::min(1.0, scale.width * stored.width / seen.size.width);
}

std::string change_text(const StoredImage& stored, const ImageOptions& seen) {
  const Scale scale = scale_of(stored, seen);
  const double enlarged = std::min(scale.height, scale.width);
  const double squeezed = std::max(scale.height, scale.width) / enlarged;
  const double share = share_seen(stored, seen, scale);
  std::vector<std::string> changes;
  if (enlarged >= kNotable) changes.push_back(fmt::format("enlarged {:.1f} times", enlarged));
  if (squeezed >= kSqueezed)
    changes.push_back(fmt::format("squeezed by {:.0f} %", 100 * (1 - 1 / squeezed)));
  if (share <= kCropped) changes.push_back(fmt::format("cropped to {:.0f} %", 100 * share));
  const double filled = share_filled(stored, seen, scale);
  if (filled <= kCropped)
    changes.push_back(
        fmt::format("filling {:.0f} % of {}x{}", 100 * filled, seen.size.height, seen.size.width));
  if (seen.channels == 1 && stored.channels >= 3) changes.emplace_back("made grey");
  if (changes.empty()) return {};
  return fmt::format("stored {}: {}", text(stored), fmt::join(changes, ", "));
}

/// Calls `look` with the first sample. What cannot be read is for the run to report.
void look_at_first(const StoredImageInput& input,
                   const std::function<void(const wds::Sample&)>& look) {
  if (input.shards.empty() || io::is_stream_url(input.shards.front())) return;
  wds::FaultLedger ledger(unlogged(input.policy));
  try {
    scan({.shards = input.shards.first(1),
          .opener = input.opener,
          .ledger = ledger,
          .stop = input.stop},
         [&](const wds::Sample& sample) {
           look(sample);
           return false;
         });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
  }
}

}  // namespace

std::optional<StoredImage> find_stored_image(const StoredImageInput& input) {
  std::optional<StoredImage> found;
  look_at_first(input, [&](const wds::Sample& sample) {
    const wds::Field* field = sample.find_any(decode::standard_codecs()->suffixes());
    if (field != nullptr) found = look_at(*field);
  });
  return found;
}

std::int64_t find_largest_level(const StoredImageInput& input, std::string_view suffix) {
  std::int64_t largest = 0;
  look_at_first(input, [&](const wds::Sample& sample) {
    const wds::Field* field = sample.find_any(suffix);
    if (field == nullptr) return;
    const decode::ClassImage levels = decode::decode_classes(field->data, {.ignore = -1});
    if (!levels.labels.empty()) largest = *std::ranges::max_element(levels.labels);
  });
  return largest;
}

std::string text(const StoredImage& image) {
  return fmt::format("{}x{}x{}", image.height, image.width, image.channels);
}

std::string find_changes(const StoredImageInput& input, const ImageOptions& seen) {
  const auto stored = find_stored_image(input);
  return stored ? change_text(*stored, seen) : "";
}

}  // namespace millrace::tools
