// PyTorch as an oracle: runs a few lines of Python and reads the numbers they print.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace millrace::testing {

/// True where /usr/bin/python3 has torch and torchvision.
bool have_torchvision();

/// The numbers that `script` (with torch imported) prints, one a line. Nothing when there is no
/// Python with torch: the test then skips.
std::optional<std::vector<double>> run_torch(const std::string& script);

}  // namespace millrace::testing
