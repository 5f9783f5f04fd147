// pictures: what a mask-and-depth model makes of the first samples, for eyes: one row a sample,
// image | mask | predicted mask | depth | predicted depth.
#pragma once

#include <string>

#include "pipeline/options.h"
#include "tools/train/model_choice.h"

namespace millrace::tools {

struct PictureOptions {
  std::string path;        ///< of the PNG; replaced where there is one
  int samples = 8;         ///< rows, at most
  std::string checkpoint;  ///< a folder or URL
};

/// Runs the model in float32 over the first samples of `input` (make_pipeline_options() with
/// precision fp32). Requires: choice.task.is_dense(). Throws: what reading and loading throw; Io.
void write_pictures(const ModelChoice& choice, pipeline::PipelineOptions input,
                    const PictureOptions& options);

}  // namespace millrace::tools
