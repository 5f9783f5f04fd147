// PyTorch as an oracle: runs a few lines of Python and reads the numbers they print.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace millrace::testing {

/// True where /usr/bin/python3 has torch and torchvision.
bool have_torchvision();

/// Shows how far a value is from the oracle's, where MILLRACE_PARITY_PRINT is set.
void print_distance(const std::string& what, double error);

/// The float32 values of a file that numpy's tofile() wrote.
std::vector<float> read_floats(const std::string& path);
/// Writes such a file, for numpy's fromfile().
template <typename T>
void write_values(const std::string& path, std::span<const T> values) {
  write_file(path, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

/// The numbers that `script` (with torch imported) prints, one a line. Nothing when there is no
/// Python with torch: the test then skips.
std::optional<std::vector<double>> run_torch(const std::string& script);

}  // namespace millrace::testing
