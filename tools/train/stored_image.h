// stored_image: the format of the images in the shards, and changes by a run that its user may not
// have intended: enlarged, squeezed, cropped, or converted to grey.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>

#include "io/opener.h"
#include "tools/image_options.h"
#include "wds/fault_ledger.h"

namespace millrace::tools {

struct StoredImage {
  int height = 0;
  int width = 0;
  int channels = 0;
};

struct StoredImageInput {
  std::span<const std::string> shards;
  const io::Opener& opener;
  wds::FaultPolicy policy = {};
  std::stop_token stop = {};
};

/// The first sample's image. Nullopt if there is none, if it cannot be read (the run itself will
/// report that), and for a pipe, which can be read only once. Throws: Cancelled.
std::optional<StoredImage> find_stored_image(const StoredImageInput& input);

/// The largest level of the first sample's field `suffix`, if that is a grey picture; 0: unknown.
/// Throws: Cancelled.
std::int64_t find_largest_level(const StoredImageInput& input, std::string_view suffix);

/// "32x32x3".
std::string text(const StoredImage& image);

/// What happens to the first sample's image: "stored 32x32x3: enlarged 7.0 times, made grey"; empty
/// if nothing does, or the image cannot be read. Requires: settled options. Throws: Cancelled.
std::string find_changes(const StoredImageInput& input, const ImageOptions& seen);

}  // namespace millrace::tools
