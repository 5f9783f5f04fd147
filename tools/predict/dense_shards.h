// DenseShards: writes predicted masks and depths to shards, under their samples' keys and in their
// images' original sizes.
//
// The mask's member contains class numbers, as a palette PNG with one colour per class, or
// `mask_value` where the mask is more likely than not; the depth's contains depths of 0 to 1 as 0
// to 255: the format that `train` reads for the same task.
//
// Threads: one at a time.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/train/model_choice.h"
#include "trainer/predict.h"
#include "wds/shard_writer.h"

namespace millrace::tools {

class DenseShards {
 public:
  /// `choice` is borrowed. Requires: choice.task.is_dense().
  DenseShards(wds::ShardWriterOptions shards, const ModelChoice& choice)
      : writer_(std::move(shards)),
        choice_(choice),
        palette_(choice.task.palette(choice.task.has_class_mask() ? choice.classes : 0)) {}

  /// Requires: the outputs are the task's mask logits and depths, and the image's size is carried
  /// along as kSizeField. Throws: Corrupt with the key, and as wds::ShardWriter.
  void write(const trainer::Prediction& one);
  std::vector<wds::ShardSummary> finish() { return writer_.finish(); }

 private:
  wds::ShardWriter writer_;
  const ModelChoice& choice_;
  std::vector<decode::RgbColour> palette_;
};

}  // namespace millrace::tools
