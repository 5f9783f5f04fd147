// InfoNce and Clip in StableHLO: the formulas of info_nce.h and clip.h, over the slots of all
// replicas. Rows are a replica's own slots, columns those of all.
//
// Threads: as hlo/builder.h's.
#pragma once

#include "trainer/hlo/loss_program.h"
#include "trainer/loss/detail/embeddings.h"

namespace millrace::trainer::detail {

/// Of predictions (N, parts * F).
hlo::LossResults contrast_program(const hlo::LossArguments& of, const Contrast& contrast);

}  // namespace millrace::trainer::detail
