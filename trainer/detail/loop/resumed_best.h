// What becomes of a run's best epochs when it is resumed: they are compared with later ones only if
// both are measured alike, and are replaced by none that was not compared with them.
//
// Threads: one at a time.
#pragma once

#include <string>

#include "io/opener.h"
#include "trainer/checkpoint.h"
#include "trainer/train_options.h"

namespace millrace::trainer::detail {

/// Of `saved`, read at `path`, which a run continues that starts as `given`. Where the two monitor
/// another measure, or measure it on another validation set, `saved` has no best epochs afterwards,
/// which is logged. Throws: InvalidArgument where the run would then replace checkpoints in its
/// folder; of another set only without TrainOptions::accept_changed_data.
void continue_best(const std::string& path, TrainState& saved, const TrainState& given,
                   const TrainOptions& options, const io::Opener& opener);

/// Forgets the best epochs, of which `log` is warned: "epoch 3, with val_top1 0.5, `why`".
void begin_best_anew(TrainState& state, const std::string& why, const Log& log);

}  // namespace millrace::trainer::detail
