// DenseShards: predicted masks and depths as shards, under their samples' keys and in their images'
// own sizes.
//
// The mask's member holds class numbers, as a palette PNG with a colour a class, or `mask_value`
// where the mask is likelier than not; the depth's holds depths of 0 to 1 as 0 to 255: what `train`
// reads for the same task.
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

  /// The outputs are the mask's logits and the depths, as the task has them; the image's size,
  /// kSizeField, is what is carried. Throws: Corrupt with the key, and what writing throws.
  void write(const trainer::Prediction& one);
  std::vector<wds::ShardSummary> finish() { return writer_.finish(); }

 private:
  wds::ShardWriter writer_;
  const ModelChoice& choice_;
  std::vector<decode::RgbColour> palette_;
};

}  // namespace millrace::tools
