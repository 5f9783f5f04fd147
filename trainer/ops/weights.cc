#include "trainer/ops/detail/weights.h"

#include <algorithm>

#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

std::int64_t row_size(const Desc& desc) {
  const auto dims = dims_of(desc);
  std::int64_t size = 1;
  for (std::size_t i = 1; i < dims.size(); ++i) size *= dims[i];
  return size;
}

// PyTorch's layout of a bias or of a convolution's weights.
Desc plain(const Desc& desc) {
  const bool bias = dims_of(desc).size() == 1;
  return {dims_of(desc), DataType::f32, bias ? FormatTag::a : FormatTag::abcd};
}

// A row is an output channel; the shorter row is the first part of the longer one.
RowCopy rows_between(const dnnl::memory& from, const dnnl::memory& to) {
  const std::int64_t have = row_size(from.get_desc());
  const std::int64_t want = row_size(to.get_desc());
  const std::int64_t rows = std::min(dims_of(from.get_desc())[0], dims_of(to.get_desc())[0]);
  return {from, to, rows, std::min(have, want), have, want};
}

}  // namespace

void RowCopy::run() const {
  const auto* source = static_cast<const float*>(from.get_data_handle());
  auto* target = static_cast<float*>(to.get_data_handle());
  for (std::int64_t row = 0; row < rows; ++row) {
    std::copy_n(source + row * from_stride, count, target + row * to_stride);
  }
}

PreparedWeights::PreparedWeights(Lowering& lowering, const dnnl::memory& master, const Desc& wanted)
    : memory_(master), rounds_(lowering.context().round_to_bfloat16 && dims_of(wanted).size() > 1) {
  if (dims_of(wanted) != dims_of(master.get_desc())) {
    pad_ = rows_between(master, lowering.keep(plain(wanted)));
    memory_ = pad_.to;
  }
  if (wanted == memory_.get_desc() && !rounds_) return;
  const dnnl::memory source = memory_;
  memory_ = lowering.keep(wanted);
  copy_ = reorder_call(source, memory_);
}

void PreparedWeights::refresh(const Context& context) {
  if (!stale_) return;
  if (pad_.to) pad_.run();
  if (copy_) copy_.run(context);
  if (rounds_) round_to_bfloat16(memory_);
  stale_ = false;
}

WeightGradient::WeightGradient(Lowering& lowering, const FlatView& view, const Desc& made) {
  const bool first = lowering.is_first_gradient(view.parameter);
  memory_ = lowering.gradient(view.parameter, view.dims, view.tag);
  if (!first) {
    sum_ = memory_;
    own_ = memory_ = lowering.make(sum_.get_desc()).memory;
  }
  if (made == memory_.get_desc()) return;
  dnnl::memory target = memory_;
  if (dims_of(made) != dims_of(target.get_desc())) {
    trim_ = rows_between(lowering.make(plain(made)).memory, target);
    target = memory_ = trim_.from;
    if (made == target.get_desc()) return;
  }
  memory_ = lowering.make(made).memory;
  copy_ = reorder_call(memory_, target);
}

void WeightGradient::finish(const Context& context) const {
  if (copy_) copy_.run(context);
  if (trim_.from) trim_.run();
  if (!own_) return;
  void* sum = sum_.get_data_handle();
  add(Storage::kFloat32, padded_values(sum_), {.a = sum, .b = own_.get_data_handle(), .out = sum});
}

}  // namespace millrace::trainer::ops
