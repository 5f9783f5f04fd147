// Weights to start from: detects PyTorch's own files before a run begins.
//
// Threads: pure functions.
#pragma once

#include <string>

namespace millrace::tools {

/// Throws: InvalidArgument, explaining how to convert it, for a file written by torch.save(),
/// recognised by its name or, if it is local, by its first bytes.
void check_weights_file(const std::string& path);

}  // namespace millrace::tools
