// TorchLayers: PyTorch's results for single layers, streamed from one process that computes the
// next case meanwhile. See torch_layers.py for the values that it chooses.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace millrace::testing {

struct LayerTensor {
  /// A layer's inputs: "parameter", "state", "image", "incoming" (gradient); its results: "output",
  /// "evaluated", "gradient", "state_after".
  std::string kind;
  std::string name;  ///< of the parameter or state; else "-"
  std::vector<float> values;
};

class TorchLayers {
 public:
  /// `cases`: one line each, "fp32 BATCH DESCRIPTION" or "bf16 ...", from describe().
  explicit TorchLayers(const std::string& cases);

  /// The next case's tensors; nullopt if PyTorch has failed, with its reason on standard error.
  std::vector<LayerTensor> next();

 private:
  bool read(LayerTensor& tensor);

  TempDir folder_;
  std::unique_ptr<FILE, int (*)(FILE*)> pipe_;
};

}  // namespace millrace::testing
