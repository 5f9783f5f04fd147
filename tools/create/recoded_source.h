// A source whose samples' JPEGs are re-coded as --jpeg says.
#pragma once

#include <memory>

#include "tools/create/sample_source.h"
#include "tools/jpeg_recoding.h"

namespace millrace::tools {

/// `jpeg` is borrowed, and counts.
std::unique_ptr<SampleSource> recoded_source(std::unique_ptr<SampleSource> source,
                                             JpegRecoding& jpeg);

}  // namespace millrace::tools
