#include "trainer/ops/detail/weights.h"

#include <algorithm>
#include <string>
#include <utility>

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

Work RowCopy::work(std::string_view part) const {
  Work work = loop_work("row copy", {from, to}, [rows = *this](const Pass&) { rows.run(); });
  work.about.part = part;
  work.about.layout = layout_text(from.get_desc(), to.get_desc(), weight_axes(to.get_desc()));
  return work;
}

PreparedWeights::PreparedWeights(Lowering& lowering, const dnnl::memory& master, const Desc& wanted)
    : memory_(master), rounds_(lowering.context().round_to_bfloat16 && dims_of(wanted).size() > 1) {
  if (dims_of(wanted) != dims_of(master.get_desc())) {
    pad_ = rows_between(master, lowering.keep(plain(wanted)));
    memory_ = pad_.to;
  }
  if (wanted == memory_.get_desc() && !rounds_) return;
  source_ = memory_;
  memory_ = lowering.keep(wanted);
}

void PreparedWeights::add(Works& works, Work work) const {
  work.run = [this, run = std::move(work.run)](const Pass& pass) {
    if (stale_) run(pass);
  };
  works.push_back(std::move(work));
}

void PreparedWeights::add_to(Works& works, const Context& context, std::string_view part) {
  const std::string_view axes = weight_axes(memory_.get_desc());
  const std::size_t before = works.size();
  if (pad_.to) add(works, pad_.work(part));
  if (source_) add(works, reorder_work(context, source_, memory_, part, axes));
  if (rounds_) add(works, rounding_work(memory_, part, axes));
  if (works.size() == before) return;
  works.back().run = [this, run = std::move(works.back().run)](const Pass& pass) {
    run(pass);
    stale_ = false;
  };
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
  copied_ = target;
}

void WeightGradient::add_to(Works& works, const Context& context, std::string_view part) const {
  if (copied_)
    works.push_back(reorder_work(context, memory_, copied_, part, weight_axes(memory_.get_desc())));
  if (trim_.from) works.push_back(trim_.work(part));
  if (!own_) return;
  works.push_back(
      loop_work("gradient sum", {sum_, own_, sum_}, [sum = sum_, own = own_](const Pass&) {
        void* values = sum.get_data_handle();
        add(Storage::kFloat32, padded_values(sum),
            {.a = values, .b = own.get_data_handle(), .out = values});
      }));
}

}  // namespace millrace::trainer::ops
