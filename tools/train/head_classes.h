// check_head_classes: whether the last layer of --init is of the classes that a run has.
//
// Threads: as a function of its arguments.
#pragma once

#include <string>

#include "io/opener.h"
#include "tools/train/model_choice.h"

namespace millrace::tools {

/// A last layer is of the classes that it was trained for, in their order; with as many others it
/// would be loaded all the same. `init`: as TrainOptions::init. What says no names (a file of
/// weights, a program's own checkpoint, another task), or cannot be read, passes. Throws:
/// InvalidArgument for a label that has another name there than in `choice`; Cancelled.
void check_head_classes(const std::string& init, const ModelChoice& choice,
                        const io::Opener& opener);

}  // namespace millrace::tools
