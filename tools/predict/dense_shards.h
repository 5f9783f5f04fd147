// DenseShards: predicted masks and depths as shards, under their samples' keys.
//
// `mask.png` holds `mask_value` where the mask is likelier than not, `depth.png` depths of 0 to 1
// as 0 to 255: what `train --task mask-depth` reads.
//
// Threads: one at a time.
#pragma once

#include <string>
#include <vector>

#include "trainer/predict.h"
#include "wds/shard_writer.h"

namespace millrace::tools {

struct DenseOptions {
  int side = 0;  ///< of the square pictures, in pixels
  int mask_value = 1;
};

class DenseShards {
 public:
  DenseShards(wds::ShardWriterOptions shards, const DenseOptions& options)
      : writer_(std::move(shards)), options_(options) {}

  /// The outputs are the mask's logits and the depths.
  void write(const trainer::Prediction& one);
  std::vector<wds::ShardSummary> finish() { return writer_.finish(); }

 private:
  wds::ShardWriter writer_;
  DenseOptions options_;
};

}  // namespace millrace::tools
