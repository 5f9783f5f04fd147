#include <algorithm>
#include <utility>

#include "io/base/rng.h"
#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/kernels.h"
#include "trainer/ops/detail/ops.h"
#include "trainer/ops/detail/primitives.h"

namespace millrace::trainer::ops {
namespace {

// relu(a + b), relu(a), a + b: one pass in each direction.
class AddOp final : public Op {
 public:
  AddOp(Lowering& lowering, const nn::Group& group, bool relu)
      : inputs_(lowering.node(group.head).inputs),
        relu_(relu),
        storage_(storage_of(lowering.context())) {
    a_ = lowering.unrounded_value(inputs_[0]);
    if (inputs_.size() > 1) b_ = lowering.unrounded_value(inputs_[1]);
    y_ = lowering.rounded_result(group.result);
    forward().push_back(loop_work(b_ ? "addition" : "relu", {a_.memory, b_.memory, y_.memory},
                                  [this](const Pass&) { compute(); }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    const GradientSum dy(lowering, std::move(parts), relu_ ? y_ : Tensor{});
    dy.add_to(backward());
    const bool shared = dy.shared() || inputs_.size() > 1;
    for (const nn::Value input : inputs_) lowering.add_gradient(input, dy.tensor(), shared);
  }

 private:
  void compute() const {
    add(storage_, padded_values(y_.memory),
        {.a = a_.data(), .b = b_ ? b_.data() : nullptr, .out = y_.data(), .relu = relu_});
  }

  std::vector<nn::Value> inputs_;
  bool relu_;
  Storage storage_;
  Tensor a_, b_, y_;
};

// Of values, or of whole samples.
class DropoutOp final : public Op {
 public:
  using Draw = void (*)(const nn::BatchKey&, float, std::int64_t, std::span<std::uint8_t>);

  DropoutOp(Lowering& lowering, const nn::Group& group, float probability, Draw draw)
      : draw_(draw),
        input_(lowering.node(group.head).inputs[0]),
        layer_(group.head),
        batch_size_(lowering.context().batch_size),
        storage_(storage_of(lowering.context())),
        probability_(probability),
        scale_(1.0F / (1.0F - probability)) {
    x_ = lowering.unrounded_value(input_);
    y_ = lowering.rounded_result(group.result);
    const auto count = static_cast<std::int64_t>(padded_values(y_.memory));
    keep_ = lowering.make({{count}, DataType::u8, FormatTag::a});
    forward().push_back(loop_work("dropout", {x_.memory, keep_.memory, y_.memory},
                                  [this](const Pass& pass) { drop(pass); }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    lowering.use(keep_);
    dy_ = GradientSum(lowering, std::move(parts));
    dx_ = dy_.in_place(lowering, input_);
    dy_.add_to(backward());
    backward().push_back(loop_work("dropout", {dy_.tensor().memory, keep_.memory, dx_.memory},
                                   [this](const Pass&) { drop_back(); }));
  }

 private:
  void drop(const Pass& pass) const {
    const std::size_t count = padded_values(y_.memory);
    const bool train = pass.mode == nn::Mode::kTrain;
    if (train) draw_(key_of(pass.key), probability_, batch_size_, {keep(), count});
    if (!train) std::fill_n(keep(), count, std::uint8_t{1});
    keep_some(storage_, count,
              {.x = x_.data(), .keep = keep(), .scale = train ? scale_ : 1.0F, .out = y_.data()});
  }

  void drop_back() const {
    keep_some(storage_, padded_values(dx_.memory),
              {.x = dy_.tensor().data(), .keep = keep(), .scale = scale_, .out = dx_.data()});
  }

  std::uint8_t* keep() const { return static_cast<std::uint8_t*>(keep_.data()); }

  nn::BatchKey key_of(nn::BatchKey key) const {
    key.first.stream = static_cast<std::uint32_t>(layer_);
    key.first.purpose = nn::kDropout;
    return key;
  }

  Draw draw_;
  nn::Value input_;
  std::size_t layer_;
  std::int64_t batch_size_;
  Storage storage_;
  float probability_;
  float scale_;
  Tensor x_, y_, keep_, dx_;
  GradientSum dy_;
};

PoolShape pool_shape(const Context& context, const nn::Shape& in, const nn::Shape& out) {
  return {.planes = context.batch_size * context.layout.blocks_of(in[0]),
          .block = context.layout.block_of(in[0]),
          .in_height = in[1],
          .in_width = in[2],
          .out_height = out[1],
          .out_width = out[2]};
}

class AdaptiveAvgPoolOp final : public Op {
 public:
  AdaptiveAvgPoolOp(Lowering& lowering, const nn::Group& group)
      : input_(lowering.node(group.head).inputs[0]),
        shape_(pool_shape(lowering.context(), lowering.graph().node(input_).shape,
                          lowering.node(group.head).shape)),
        scales_(adaptive_avg_scales(shape_)),
        storage_(storage_of(lowering.context())),
        x_(lowering.unrounded_value(input_)),
        y_(lowering.rounded_result(group.result)) {
    forward().push_back(loop_work("pooling", {x_.memory, y_.memory}, [this](const Pass&) {
      adaptive_avg_pool(storage_, shape_, x_.data(), y_.data());
    }));
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts));
    dx_ = lowering.rounded_gradient(input_);
    dy_.add_to(backward());
    backward().push_back(
        loop_work("pooling", {dy_.tensor().memory, dx_.memory}, [this](const Pass&) {
          adaptive_avg_pool_backward(storage_, shape_, scales_, dy_.tensor().data(), dx_.data());
        }));
  }

 private:
  nn::Value input_;
  PoolShape shape_;
  std::vector<float> scales_;
  Storage storage_;
  Tensor x_, y_, dx_;
  GradientSum dy_;
};

class CopyOut final : public OutputOp {
 public:
  CopyOut(Lowering& lowering, nn::Value value) : context_(lowering.context()), value_(value) {
    const Tensor made = lowering.unrounded_value(value);  // as with native bf16
    const Dims dims = dims_of(made.desc());
    const Desc dense(dims, DataType::f32, dims.size() == 4 ? FormatTag::abcd : FormatTag::ab);
    output_ = lowering.keep(dense);
    forward().push_back(reorder_work(context_, made.memory, output_));
    if (lowering.trains()) gradient_ = lowering.keep(dense);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient>) override {
    const Tensor made = lowering.make(lowering.gradient_desc(value_));
    backward().push_back(reorder_work(context_, gradient_, made.memory));
    lowering.add_gradient(value_, made);
  }

  dnnl::memory output() const override { return output_; }
  dnnl::memory gradient() const override { return gradient_; }

 private:
  const Context& context_;
  nn::Value value_;
  dnnl::memory output_, gradient_;
};

}  // namespace

OpPointer make_add(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<AddOp>(lowering, group, group.relu);
}

OpPointer make_relu(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<AddOp>(lowering, group, true);
}

OpPointer make_dropout(Lowering& lowering, const nn::Group& group, const nn::Dropout& layer) {
  return std::make_unique<DropoutOp>(lowering, group, layer.probability, draw_keep);
}

OpPointer make_stochastic_depth(Lowering& lowering, const nn::Group& group,
                                const nn::StochasticDepth& layer) {
  return std::make_unique<DropoutOp>(lowering, group, layer.probability, draw_keep_samples);
}

OpPointer make_adaptive_avg_pool(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<AdaptiveAvgPoolOp>(lowering, group);
}

std::unique_ptr<OutputOp> make_output(Lowering& lowering, nn::Value value) {
  return std::make_unique<CopyOut>(lowering, value);
}

}  // namespace millrace::trainer::ops
