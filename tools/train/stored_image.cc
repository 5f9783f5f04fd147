#include "tools/train/stored_image.h"

#include <fmt/format.h>

#include <algorithm>

#include "decode/codec.h"
#include "decode/image.h"
#include "io/base/error.h"
#include "tools/scan.h"

namespace millrace::tools {
namespace {

/// Smaller factors are ordinary resizing.
constexpr double kNotable = 1.5;

StoredImage look_at(const wds::Field& field) {
  const decode::Image image = decode::decode_image(field.data, {.tolerate_truncated = true});
  return {.height = image.height, .width = image.width, .channels = image.channels};
}

std::string change_text(const StoredImage& stored, const ImageOptions& seen) {
  const double scale = std::min(static_cast<double>(seen.size.height) / stored.height,
                                static_cast<double>(seen.size.width) / stored.width);
  std::string changes;
  if (scale >= kNotable) changes = fmt::format("enlarged {:.1f} times", scale);
  if (seen.channels == 1 && stored.channels >= 3)
    changes += changes.empty() ? "made grey" : ", made grey";
  return changes.empty() ? changes : fmt::format("stored {}: {}", text(stored), changes);
}

}  // namespace

std::optional<StoredImage> find_stored_image(const StoredImageInput& input) {
  if (input.shards.empty() || io::is_stream_url(input.shards.front())) return {};
  std::optional<StoredImage> found;
  wds::FaultLedger ledger(unlogged(input.policy));
  try {
    scan({.shards = input.shards.first(1),
          .opener = input.opener,
          .ledger = ledger,
          .stop = input.stop},
         [&](const wds::Sample& sample) {
           const wds::Field* field = sample.find_any(decode::standard_codecs()->suffixes());
           if (field != nullptr) found = look_at(*field);
           return false;
         });
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
  }
  return found;
}

std::string text(const StoredImage& image) {
  return fmt::format("{}x{}x{}", image.height, image.width, image.channels);
}

std::string find_changes(const StoredImageInput& input, const ImageOptions& seen) {
  const auto stored = find_stored_image(input);
  return stored ? change_text(*stored, seen) : "";
}

}  // namespace millrace::tools
