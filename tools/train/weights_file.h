// Weights to start from: told from PyTorch's own files before a run begins.
//
// Threads: pure functions.
#pragma once

#include <string>

namespace millrace::tools {

/// Throws: InvalidArgument, with the way to convert it, for a file that torch.save() wrote; its
/// name tells it, or its first bytes where it is on this machine's disk.
void check_weights_file(const std::string& path);

}  // namespace millrace::tools
