// Attention: each head's products by oneDNN, of all heads of the batch at once; scale and softmax
// in one pass over the scores. Queries, keys, values and the softmax's result stay for the backward
// pass.
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/primitives.h"
#include "trainer/ops/detail/token_kernels.h"

namespace millrace::trainer::ops {
namespace {

class AttentionOp final : public Op {
 public:
  AttentionOp(Lowering& lowering, const nn::Group& group, const nn::Attention& layer)
      : context_(lowering.context()),
        input_(lowering.node(group.head).inputs[0]),
        result_{group.result},
        storage_(storage_of(context_)),
        heads_(layer.heads),
        size_(lowering.node(group.head).shape[0] / layer.heads),
        tokens_(lowering.node(group.head).shape[1]),
        scale_(1.0F / std::sqrt(static_cast<float>(size_))) {
    seen_ = {.causal = layer.causal, .masked = layer.masked, .rows = heads_ * tokens_};
    if (layer.masked > 0) read_mask(lowering, lowering.node(group.head).inputs[1]);
    split(lowering, forward(), lowering.value(input_), {&query_, &key_, &value_});
    const Tensor scores =
        product(lowering, forward(), "scores", query_, across(lowering, key_), scores_desc());
    shares_ = in_plans_type(lowering, scores);
    std::vector<dnnl::memory> read = {scores.memory, shares_.memory};
    if (mask_) read.push_back(mask_.memory);
    forward().push_back(
        loop_work("softmax", read, [this, scores](const Pass&) { compute_shares(scores); }));
    const Tensor outer = product(lowering, forward(), "", shares_, value_, heads_desc());
    const Tensor y = lowering.make(lowering.gradient_desc(result_));
    join(lowering, forward(), {outer}, y);
    lowering.set_value(group.result, y);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    for (const Tensor& kept : {query_, key_, value_, shares_}) lowering.use(kept);
    Works& works = backward();
    const GradientSum dy(lowering, std::move(parts));
    dy.add_to(works);
    Tensor outer;
    split(lowering, works, dy.tensor(), {&outer});
    const Tensor dvalue =
        product(lowering, works, "dV", across(lowering, shares_), outer, heads_desc());
    const Tensor dshares =
        product(lowering, works, "dP", outer, across(lowering, value_), scores_desc());
    const Tensor dscores = in_plans_type(lowering, dshares);
    works.push_back(
        loop_work("softmax", {shares_.memory, dshares.memory, dscores.memory},
                  [this, dshares, dscores](const Pass&) { compute_slopes(dshares, dscores); }));
    const Tensor dquery = product(lowering, works, "dQ", dscores, key_, heads_desc());
    const Tensor dkey =
        product(lowering, works, "dK", across(lowering, dscores), query_, heads_desc());
    const Tensor dx = lowering.make(lowering.gradient_desc(input_));
    join(lowering, works, {dquery, dkey, dvalue}, dx);
    lowering.add_gradient(input_, dx);
  }

 private:
  /// In plain order, float32.
  void read_mask(Lowering& lowering, nn::Value input) {
    const Tensor mask = lowering.value(input);
    mask_ = lowering.make({dims_of(mask.desc()), DataType::f32, FormatTag::ab});
    forward().push_back(reorder_work(context_, mask.memory, mask_.memory));
    seen_.stride = nn::num_values(lowering.graph().node(input).shape);
  }

  std::int64_t matrices() const { return context_.batch_size * heads_; }
  Desc heads_desc() const { return {{matrices(), tokens_, size_}, context_.type, FormatTag::abc}; }
  Desc scores_desc() const {
    return {{matrices(), tokens_, tokens_}, DataType::f32, FormatTag::abc};
  }
  RowsOf rows() const { return {matrices() * tokens_, tokens_}; }

  /// Each matrix with its rows as columns: the same memory.
  static Tensor across(Lowering& lowering, const Tensor& tensor) {
    const Dims dims = dims_of(tensor.desc());
    return lowering.view(tensor,
                         {{dims[0], dims[2], dims[1]}, type_of(tensor.desc()), FormatTag::acb});
  }
  /// Where a pass over float32 values leaves them in the plan's type: in place if that is float32.
  Tensor in_plans_type(Lowering& lowering, const Tensor& values) const {
    if (context_.type == DataType::f32) return values;
    return lowering.make({dims_of(values.desc()), context_.type, FormatTag::abc});
  }

  Tensor product(Lowering& lowering, Works& works, std::string_view part, const Tensor& a,
                 const Tensor& b, const Desc& desc) const {
    const Tensor c = lowering.make(desc);
    const auto descriptor = matrix_product(context_, a.desc(), b.desc(), desc);
    const Call call(dnnl::matmul(descriptor),
                    {{DNNL_ARG_SRC, a.memory},
                     {DNNL_ARG_WEIGHTS, b.memory},
                     {DNNL_ARG_DST, c.memory},
                     {DNNL_ARG_SCRATCHPAD, lowering.scratchpad(descriptor.scratchpad_desc())}});
    const auto flops =
        2.0 * static_cast<double>(matrices() * tokens_) * static_cast<double>(tokens_ * size_);
    works.push_back(call_work(context_, call,
                              {.kind = "product",
                               .part = std::string(part),
                               .layout = layout_text(a.desc(), desc),
                               .flops = flops}));
    return c;
  }

  HeadCopy copy_of(const Lowering& lowering, nn::Value image) const {
    return {.image = image_shape(context_, lowering.graph().node(image).shape),
            .heads = heads_,
            .size = size_,
            .value_bytes = value_bytes(storage_)};
  }

  /// Makes `parts`, which are the channels of `image`, one after another, by heads.
  void split(Lowering& lowering, Works& works, const Tensor& image,
             const std::vector<Tensor*>& parts) const {
    HeadCopy copy = copy_of(lowering, parts.size() == 1 ? result_ : input_);
    for (Tensor* const part : parts) {
      *part = lowering.make(heads_desc());
      works.push_back(
          loop_work("heads", {part->memory, part->memory}, [copy, image, to = *part](const Pass&) {
            copy_heads_from(copy, image.data(), to.data());
          }));
      copy.first += heads_ * size_;
    }
  }
  void join(const Lowering& lowering, Works& works, const std::vector<Tensor>& parts,
            const Tensor& image) const {
    const HeadCopy whole = copy_of(lowering, parts.size() == 1 ? result_ : input_);
    works.push_back(
        loop_work("heads", {image.memory, image.memory}, [whole, parts, image](const Pass&) {
          HeadCopy copy = whole;
          for (const Tensor& part : parts) {
            copy_heads_to(copy, part.data(), image.data());
            copy.first += copy.heads * copy.size;
          }
          clear_padding(whole.image, whole.value_bytes, image.data());
        }));
  }

  void compute_shares(const Tensor& scores) const {
    SeenColumns seen = seen_;
    if (mask_) seen.mask = static_cast<const float*>(mask_.data());
    scaled_softmax(storage_, rows(),
                   {.x = static_cast<float*>(scores.data()),
                    .y = shares_.data(),
                    .scale = scale_,
                    .seen = seen});
  }
  void compute_slopes(const Tensor& dshares, const Tensor& dscores) const {
    scaled_softmax_backward(storage_, rows(),
                            {.y = shares_.data(),
                             .dy = static_cast<const float*>(dshares.data()),
                             .dx = dscores.data(),
                             .scale = scale_});
  }

  const Context& context_;
  nn::Value input_, result_;
  Storage storage_;
  std::int64_t heads_, size_, tokens_;
  float scale_;
  SeenColumns seen_;  // but for the mask's values
  Tensor mask_, query_, key_, value_, shares_;
};

}  // namespace

OpPointer make_attention(Lowering& lowering, const nn::Group& group, const nn::Attention& layer) {
  return std::make_unique<AttentionOp>(lowering, group, layer);
}

}  // namespace millrace::trainer::ops
