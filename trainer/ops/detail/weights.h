// PreparedWeights: a parameter in the layout and type that a primitive wants; WeightGradient: the
// way back, from a primitive's layout into the flat gradient buffer.
#pragma once

#include "trainer/ops/detail/lowering.h"

namespace millrace::trainer::ops {

/// Copied anew once after each change of the flat parameters, not once a use.
class PreparedWeights {
 public:
  PreparedWeights() = default;
  PreparedWeights(Lowering& lowering, const dnnl::memory& master, const Desc& wanted);

  const dnnl::memory& memory() const { return memory_; }
  void parameters_changed() { stale_ = true; }
  void refresh(const Backend& backend);

 private:
  dnnl::memory memory_;
  Call copy_;  // none where the master's own layout is wanted
  bool stale_ = true;
};

class WeightGradient {
 public:
  WeightGradient() = default;
  /// Where the primitive writes `made`; the op's own step is the only one that needs it.
  WeightGradient(Lowering& lowering, const dnnl::memory& flat, const Desc& made);

  const dnnl::memory& memory() const { return memory_; }
  void finish(const Backend& backend) const {
    if (copy_) copy_.run(backend);
  }

 private:
  dnnl::memory memory_;
  Call copy_;
};

}  // namespace millrace::trainer::ops
