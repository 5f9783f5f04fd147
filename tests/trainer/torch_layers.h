// TorchLayers: PyTorch's answers for layers taken alone, streamed from one process that works on
// the next case meanwhile. See torch_layers.py for the values that it chooses.
#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/temp_dir.h"

namespace millrace::testing {

struct LayerTensor {
  /// What a layer is given: "parameter", "state", "image", "incoming" (gradient); what must come
  /// out: "output", "evaluated", "gradient", "state_after".
  std::string kind;
  std::string name;  ///< of the parameter or state; else "-"
  std::vector<float> values;
};

class TorchLayers {
 public:
  /// `cases`: one line each, "fp32 BATCH DESCRIPTION" or "bf16 ...", as describe() has it.
  explicit TorchLayers(const std::string& cases);

  /// The next case's tensors. Nothing where PyTorch has failed; it has said why.
  std::vector<LayerTensor> next();

 private:
  bool read(LayerTensor& tensor);

  TempDir folder_;
  std::unique_ptr<FILE, int (*)(FILE*)> pipe_;
};

}  // namespace millrace::testing
