// A source whose samples' pictures are stored as --jpeg and --image say.
#pragma once

#include <memory>

#include "tools/create/sample_source.h"
#include "tools/picture_recoding.h"

namespace millrace::tools {

/// `pictures` is borrowed, and counts.
std::unique_ptr<SampleSource> recoded_source(std::unique_ptr<SampleSource> source,
                                             PictureRecoding& pictures);

}  // namespace millrace::tools
