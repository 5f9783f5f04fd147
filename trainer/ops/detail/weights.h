// PreparedWeights: a parameter in the layout and type of a primitive; WeightGradient: a gradient
// from a primitive's layout to the flat gradient buffer.
#pragma once

#include <string_view>

#include "trainer/ops/detail/lowering.h"

namespace millrace::trainer::ops {

/// A copy of rows that are `from_stride` floats apart to rows `to_stride` floats apart.
struct RowCopy {
  dnnl::memory from, to;
  std::int64_t rows = 0;
  std::int64_t count = 0;  ///< floats of a row
  std::int64_t from_stride = 0;
  std::int64_t to_stride = 0;

  Work work(std::string_view part) const;

 private:
  void run() const;
};

/// Copied once after each change of the flat parameters, not at each use. Channels of the primitive
/// beyond the layer's (padding to a block) are zero.
class PreparedWeights {
 public:
  PreparedWeights() = default;
  PreparedWeights(Lowering& lowering, const dnnl::memory& master, const Desc& wanted);

  const dnnl::memory& memory() const { return memory_; }
  void parameters_changed() { stale_ = true; }
  /// Its copies, which do nothing unless the parameters have changed. `part` as in PlanStep.
  /// Lifetime: stays where it is.
  void add_to(Works& works, const Context& context, std::string_view part);

 private:
  void add(Works& works, Work work) const;

  dnnl::memory memory_;
  RowCopy pad_;
  dnnl::memory source_;  // of the copy; none if the primitive takes the master's layout
  bool rounds_ = false;  // to bf16, if that is not native; a bias stays float32
  bool stale_ = true;
};

/// A parameter in the flat buffers, in oneDNN's terms.
struct FlatView {
  std::size_t parameter = 0;
  dnnl::memory::dims dims;
  FormatTag tag = FormatTag::a;
};

class WeightGradient {
 public:
  WeightGradient() = default;
  /// For a primitive that writes `made`. Only the op's own step uses it.
  WeightGradient(Lowering& lowering, const FlatView& view, const Desc& made);

  const dnnl::memory& memory() const { return memory_; }
  /// What brings it there once the primitive has run.
  void add_to(Works& works, const Context& context, std::string_view part) const;

 private:
  dnnl::memory memory_;
  dnnl::memory copied_;  // to where memory_ is copied, if it is
  RowCopy trim_;
  // For a parameter whose gradient another layer has written already: own_ is added to sum_.
  dnnl::memory own_, sum_;
};

}  // namespace millrace::trainer::ops
