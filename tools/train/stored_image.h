// stored_image: what images look like in the shards, and what a run makes of them that its user may
// not have meant: enlarged, or made grey.
#pragma once

#include <optional>
#include <span>
#include <stop_token>
#include <string>

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

/// The first sample's image. Empty where there is none or it cannot be read, which is for whoever
/// reads on to say, and for a pipe, which can be read once. Throws: Cancelled.
std::optional<StoredImage> find_stored_image(const StoredImageInput& input);

/// "32x32x3".
std::string text(const StoredImage& image);

/// "stored 32x32x3: enlarged 7.0 times, made grey"; empty when neither is so. Requires: settled
/// options.
std::string change_text(const StoredImage& stored, const ImageOptions& seen);

}  // namespace millrace::tools
