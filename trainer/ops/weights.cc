#include "trainer/ops/detail/weights.h"

#include "trainer/ops/detail/kernels.h"

namespace millrace::trainer::ops {

PreparedWeights::PreparedWeights(Lowering& lowering, const dnnl::memory& master, const Desc& wanted)
    : memory_(master) {
  if (wanted == master.get_desc() && !lowering.backend().round_to_bfloat16) return;
  memory_ = lowering.keep(wanted);
  copy_ = reorder_call(master, memory_);
}

void PreparedWeights::refresh(const Backend& backend) {
  if (!copy_ || !stale_) return;
  copy_.run(backend);
  if (backend.round_to_bfloat16) round_to_bfloat16(memory_);
  stale_ = false;
}

WeightGradient::WeightGradient(Lowering& lowering, const dnnl::memory& flat, const Desc& made)
    : memory_(flat) {
  if (made == flat.get_desc()) return;
  memory_ = lowering.make(made).memory;
  copy_ = reorder_call(memory_, flat);
}

}  // namespace millrace::trainer::ops
