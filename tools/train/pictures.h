// pictures: a sheet of a dense model's predictions: for each sample, above its key, image | mask |
// predicted mask | depth | predicted depth, as far as the task has them, and a legend of the class
// colours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pipeline/options.h"
#include "tools/train/model_choice.h"

namespace millrace::tools {

struct PictureOptions {
  std::string path;  ///< of the picture, or its url; an existing file is replaced
  int samples = 8;   ///< maximum number
  /// Seed to choose samples from all over the set; without it the first ones are shown.
  std::optional<std::uint64_t> shuffle = {};
  std::string checkpoint;  ///< a folder or URL
};

/// Runs the model in float32 over the first samples of `input` (make_pipeline_options()
/// with precision fp32), shuffled as `input` is. Requires: choice.task.is_dense(), and
/// `input` has its opener, which also reads the checkpoint. Throws: as reading and loading;
/// Io.
void write_pictures(const ModelChoice& choice, pipeline::PipelineOptions input,
                    const PictureOptions& options);

}  // namespace millrace::tools
