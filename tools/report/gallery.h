// The pictures of a run's galleries: read from the shards, at the places that its evaluation.json
// names, when the page is drawn.
//
// That file may be a stranger's: of what it names, only shards on this machine's disk are opened
// unless the caller says otherwise, and commands never.
//
// Threads: free functions.
#pragma once

#include <stop_token>
#include <string>
#include <string_view>

#include "io/opener.h"
#include "tools/report/run_record.h"

namespace millrace::tools {

struct GalleryInput {
  const io::Opener& opener;
  std::stop_token stop = {};
  /// Reads shards in stores and on servers, too.
  bool fetch = false;
};

/// The name in RunRecord::pictures of a sample's picture; empty if the sample does not say where it
/// is.
std::string picture_name(const RecordJson& sample);
/// Fills run.pictures. What cannot be read has its reason there. Throws: Cancelled.
void draw_pictures(RunRecord& run, const GalleryInput& input);

/// <img> of a picture that is base64 of a PNG or JPEG file; `alt` is text. Empty for anything else,
/// or more than 128 KiB.
std::string inline_picture(std::string_view base64, int width, int height, std::string_view alt);

}  // namespace millrace::tools
