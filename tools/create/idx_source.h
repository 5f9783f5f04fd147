// IDX files, as used by MNIST and its relatives: one of images, one of labels, gzipped or not.
//
// Samples: an image ("png" by default) and its class number ("cls"). Everything is read and
// checked when the source is opened: sizes against the headers, and the two counts against each
// other.
//
// Source: the IDX format (bytes 0, 0, type, rank; the sizes as big-endian 32-bit numbers; data).
#pragma once

#include <memory>
#include <string>

#include "tools/create/image_encoding.h"
#include "tools/create/sample_source.h"

namespace millrace::tools {

struct IdxOptions {
  ImageEncoding encoding = {};
  NewSize size = {};
};

/// Throws: NotFound, Io, Corrupt, Truncated, Unsupported.
std::unique_ptr<SampleSource> open_idx_source(const std::string& images_path,
                                              const std::string& labels_path,
                                              const IdxOptions& options);

}  // namespace millrace::tools
