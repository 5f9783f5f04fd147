// PreparedWeights: a parameter in the layout and type that a primitive wants; WeightGradient: the
// way back, from a primitive's layout into the flat gradient buffer.
#pragma once

#include "trainer/ops/detail/lowering.h"

namespace millrace::trainer::ops {

/// Rows that lie `from_stride` floats apart here and `to_stride` there.
struct RowCopy {
  dnnl::memory from, to;
  std::int64_t rows = 0;
  std::int64_t count = 0;  ///< floats of a row
  std::int64_t from_stride = 0;
  std::int64_t to_stride = 0;

  void run() const;
};

/// Copied anew once after each change of the flat parameters, not once a use. Where the primitive
/// sees more channels than the layer has (padded to a block), theirs are zero.
class PreparedWeights {
 public:
  PreparedWeights() = default;
  PreparedWeights(Lowering& lowering, const dnnl::memory& master, const Desc& wanted);

  const dnnl::memory& memory() const { return memory_; }
  void parameters_changed() { stale_ = true; }
  void refresh(const Context& context);

 private:
  dnnl::memory memory_;
  RowCopy pad_;
  Call copy_;            // none where the master's own layout is wanted
  bool rounds_ = false;  // to bf16, where that is not native; a bias stays float32
  bool stale_ = true;
};

/// A parameter's place in the flat buffers, as oneDNN describes it.
struct FlatView {
  std::size_t parameter = 0;
  dnnl::memory::dims dims;
  FormatTag tag = FormatTag::a;
};

class WeightGradient {
 public:
  WeightGradient() = default;
  /// Where the primitive writes `made`; the op's own step is the only one that needs it.
  WeightGradient(Lowering& lowering, const FlatView& view, const Desc& made);

  const dnnl::memory& memory() const { return memory_; }
  void finish(const Context& context) const;

 private:
  dnnl::memory memory_;
  Call copy_;
  RowCopy trim_;
  // For a parameter that another layer shares and has written already: what is added to what.
  dnnl::memory own_, sum_;
};

}  // namespace millrace::trainer::ops
