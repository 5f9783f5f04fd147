// PyTorch as an oracle: runs a few lines of Python and reads the numbers they print.
#pragma once

#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace millrace::testing {

/// Whether /usr/bin/python3 has torch and torchvision.
bool have_torchvision();

/// Runs a script with torch, torchvision and numpy imported, on one thread; its exit status. The
/// tests of a program share the Python (tests/support/python_worker.h).
int run_torch_script(const std::vector<std::string>& words, const std::string& out = "/dev/null");

/// Prints the distance of a value from the oracle's if MILLRACE_PARITY_PRINT is set.
void print_distance(const std::string& what, double error);

/// The float32 values of a file that numpy's tofile() wrote.
std::vector<float> read_floats(const std::string& path);
/// Writes such a file, for numpy's fromfile().
template <typename T>
void write_values(const std::string& path, std::span<const T> values) {
  write_file(path, {reinterpret_cast<const char*>(values.data()), values.size_bytes()});
}

/// The numbers that `script` (with torch imported) prints, one per line; nullopt without a Python
/// that has torch: the test then skips.
std::optional<std::vector<double>> run_torch(const std::string& script);

struct LayerTensor {
  /// A layer's inputs: "parameter", "state", "image", "incoming" (gradient); its results: "output",
  /// "evaluated", "gradient", "state_after".
  std::string kind;
  std::string name;  ///< of the parameter or state; else "-"
  std::vector<float> values;
};

/// PyTorch's results for single layers, streamed from one process that computes the next case
/// meanwhile. See torch_layers.py for the values that it chooses.
class TorchLayers {
 public:
  /// `cases`: one line each, "fp32 BATCH DESCRIPTION" or "bf16 ...", from describe().
  explicit TorchLayers(const std::string& cases);

  /// The next case's tensors; empty if PyTorch has failed, with its reason on standard error.
  std::vector<LayerTensor> next();

 private:
  bool read(LayerTensor& tensor);

  TempDir folder_;
  std::unique_ptr<FILE, int (*)(FILE*)> pipe_;
};

}  // namespace millrace::testing
