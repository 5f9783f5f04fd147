// pictures: what a model of masks and depths makes of samples, for eyes: under each one's key
// image | mask | predicted mask | depth | predicted depth, as far as the task has them, and a
// legend of the classes' colours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/options.h"
#include "tools/train/model_choice.h"

namespace millrace::tools {

struct PictureOptions {
  std::string path;  ///< of the PNG; replaced where there is one
  int samples = 8;   ///< at most
  /// Of samples from all over; without, they are the first ones.
  std::optional<std::uint64_t> shuffle = {};
  std::string checkpoint;  ///< a folder or URL
};

/// Runs the model in float32 over the first samples of `input` (make_pipeline_options() with
/// precision fp32), shuffled as `input` is. Requires: choice.task.is_dense(), and that
/// `input` has its opener, which reads the checkpoint too. Throws: what reading
/// and loading throw; Io.
void write_pictures(const ModelChoice& choice, pipeline::PipelineOptions input,
                    const PictureOptions& options);

}  // namespace millrace::tools
