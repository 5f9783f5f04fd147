// MixUpOptions: MixUp and CutMix, which mix the pictures of a batch with one another.
//
// A sample's partner is the valid slot before it in its device's batch, with copies the one before
// all of its own; masked slots are never mixed in. What is drawn, one number or box for each step,
// is keyed by seed, epoch and step: the same bits at any number of threads and processes, for the
// same devices in all.
//
//   options.mixup = {.mixup = 0.2, .cutmix = 1};
//   batch.field("label");        // (N) int64, as without
//   batch.field("label.other");  // (N) int64: the partner's
//   batch.field("label.share");  // (N) float32: how much of the target is `label`'s
//
// A masked slot repeats a mixed one. Source: Zhang et al., "mixup" (2018); Yun et al., "CutMix"
// (2019), and torchvision.transforms.v2's MixUp and CutMix.
#pragma once

#include <string>

namespace millrace::pipeline {

struct MixUpOptions {
  double mixup = 0;        ///< alpha of MixUp's Beta distribution; 0: no MixUp
  double cutmix = 0;       ///< alpha of CutMix's; with both, either is done equally often
  double probability = 1;  ///< that a step's batches are mixed
  /// (N, H, W, C) or (N, C, H, W), of float32, bfloat16 or uint8.
  std::string image = "image";
  std::string label = "label";  ///< (N) int64

  bool is_on() const { return mixup > 0 || cutmix > 0; }
};

/// The fields that a mixed batch has beside `label`.
std::string other_label_field(const std::string& label);
std::string label_share_field(const std::string& label);

}  // namespace millrace::pipeline
