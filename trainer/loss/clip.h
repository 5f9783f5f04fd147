// CLIP's loss: which of a step's embeddings of one tower is of the same sample as one of the
// other's, an image and its caption. Of embeddings u and v (N, F), side by side (N, 2 F), with
// length 1, and s_ij = u_i v_j / temperature, slot i's loss is the mean of two cross-entropies,
//
//   (log sum over j of exp(s_ij) - s_ii + log sum over j of exp(s_ji) - s_ii) / 2
//
// Slots of the same sample, such as two captions of one image, are told from the others but not
// from each other: s_ii is then the mean of s_ip over the sample's slots p.
//
// In training j runs over the valid slots of all ranks, as InfoNCE's (loss/info_nce.h); in
// evaluation over the batch's own. top1 and top5 count slots whose image has the caption among the
// nearest one and five.
//
// Source: Radford and others, "Learning transferable visual models from natural language
// supervision" (2021); OpenCLIP's ClipLoss, of one machine or many.
//
// Threads: as a value.
#pragma once

#include <memory>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

/// Embeddings (N, 2 F), sample numbers (N). In training evaluate() throws InvalidArgument for a
/// step of a single sample, unless slots are masked.
struct Clip {
  float temperature = 0.07F;
  /// s_ij is u_i v_j, as with InfoNce: nn::LogitScale{.parts = 2} is the model's last layer.
  bool learned = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Loss> make() const;
};

}  // namespace millrace::trainer::losses
