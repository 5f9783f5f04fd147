// What a run takes over from the one that it continues (--resume), where its own options do not
// say: its outputs, how pictures are fitted, its streams and its default warm-up.
//
// Threads: functions of their arguments.
#pragma once

#include <optional>
#include <string>

#include "io/base/log.h"
#include "tools/train/train_command_options.h"

namespace millrace::tools {

/// The model that the run was begun with; nullopt if none is continued, or it does not say. Throws:
/// as trainer::read_checkpoint_state(), where the outputs have to come from it.
std::optional<ModelChoice> resumed_choice(const TrainCommandOptions& options);

/// Takes over of `before` what was not given: the outputs, so that labels are not counted again,
/// and how pictures are fitted. Throws: InvalidArgument for another tokenizer.
void continue_as(const ModelChoice& before, TrainCommandOptions& options, const Log& log);

/// Of the checkpoint that is continued.
struct ResumedState {
  SavedStreams streams = {};  ///< zeros where the options say, or nothing does
  std::string warmup = {};    ///< the default one, as saved_warmup(); empty: none
};
/// Reads the checkpoint only where something of it is used.
ResumedState resumed_state(const TrainCommandOptions& options);

}  // namespace millrace::tools
