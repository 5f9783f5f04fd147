// InfoNCE: which of all other embeddings of a step are of the same sample. Of embeddings z (N, F),
// u = z / |z| and s_ij = u_i u_j / temperature, slot i's loss is the mean over the slots p of its
// sample, the positives, of
//
//   -s_ip + log sum over j other than i of exp(s_ij)
//
// With two views of each sample that is SimCLR's NT-Xent, and log(2 n - 1) where n samples all look
// alike. With class labels in the place of sample numbers it is the supervised contrastive loss. A
// slot without a positive has loss 0, and is a negative of the others.
//
// In training j runs over the valid slots of all ranks, which gather their embeddings; each
// computes its own rows, and the whole gradient of its own embeddings, so that a step is that of
// one device with the whole batch. With accumulated micro-batches, over those of the micro-batch.
// In evaluation a batch is compared with itself alone: the loss and its measures depend on the
// batch's size. top1 and top5 count slots with a positive among the nearest one and five.
//
// Sources: van den Oord, Li, Vinyals, "Representation learning with contrastive predictive coding"
// (2018); Chen and others, "A simple framework for contrastive learning of visual representations"
// (2020); Khosla and others, "Supervised contrastive learning" (2020), its L_out.
//
// Threads: as a value.
#pragma once

#include <memory>

#include "trainer/loss/loss.h"

namespace millrace::trainer::losses {

/// Embeddings (N, F), sample numbers (N). In training evaluate() throws InvalidArgument for a step
/// without two slots of one sample, and for one of a single sample, unless slots are masked: at an
/// epoch's end there may be few.
struct InfoNce {
  float temperature = 0.1F;
  /// s_ij is z_i z_j: the model ends with nn::LogitScale (trainer/nn/logit_scale.h), which scales
  /// embeddings of length 1 by the root of 1 / temperature, a parameter.
  bool learned = false;

  static const ComponentName kName;
  void fields(FieldList& field);
  std::unique_ptr<Loss> make() const;
};

}  // namespace millrace::trainer::losses
