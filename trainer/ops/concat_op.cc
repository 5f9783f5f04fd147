// Concatenation along the channels, through the plain order, in which each part is a slice.
#include "trainer/ops/detail/gradient_sum.h"
#include "trainer/ops/detail/ops.h"

namespace millrace::trainer::ops {
namespace {

class ConcatOp final : public Op {
 public:
  ConcatOp(Lowering& lowering, const nn::Group& group)
      : context_(lowering.context()), inputs_(lowering.node(group.head).inputs) {
    const Tensor y = lowering.make(lowering.gradient_desc({group.result}));
    const Tensor whole = lowering.make(plain(y));
    std::int64_t channel = 0;
    for (const nn::Value input : inputs_) {
      const Tensor x = lowering.value(input);
      calls_.push_back(reorder_call(x.memory, slice(lowering, whole, x, channel)));
      channel += x.desc().dims()[1];
    }
    calls_.push_back(reorder_call(whole.memory, y.memory));
    lowering.set_value(group.result, y);
  }

  void lower_backward(Lowering& lowering, std::vector<Gradient> parts) override {
    dy_ = GradientSum(lowering, std::move(parts));
    const Tensor whole = lowering.make(plain(dy_.tensor()));
    calls_back_.push_back(reorder_call(dy_.tensor().memory, whole.memory));
    std::int64_t channel = 0;
    for (const nn::Value input : inputs_) {
      const Tensor dx = lowering.make(lowering.gradient_desc(input));
      calls_back_.push_back(reorder_call(slice(lowering, whole, dx, channel), dx.memory));
      channel += dx.desc().dims()[1];
      lowering.add_gradient(input, dx);
    }
  }

  void forward(const Pass&) override {
    for (const Call& call : calls_) call.run(context_);
  }
  void backward() override {
    dy_.run();
    for (const Call& call : calls_back_) call.run(context_);
  }

 private:
  static Desc plain(const Tensor& tensor) {
    const auto dims = tensor.desc().dims();
    return {dims, tensor.desc().data_type(), dims.size() == 4 ? FormatTag::abcd : FormatTag::ab};
  }

  // The channels of `part` in `whole`, which is in plain order.
  static dnnl::memory slice(Lowering& lowering, const Tensor& whole, const Tensor& part,
                            std::int64_t channel) {
    dnnl::memory::dims offsets(whole.desc().dims().size(), 0);
    offsets[1] = channel;
    return lowering.view(whole, whole.desc().submemory_desc(part.desc().dims(), offsets)).memory;
  }

  const Context& context_;
  std::vector<nn::Value> inputs_;
  std::vector<Call> calls_, calls_back_;
  GradientSum dy_;
};

}  // namespace

OpPointer make_concat(Lowering& lowering, const nn::Group& group) {
  return std::make_unique<ConcatOp>(lowering, group);
}

}  // namespace millrace::trainer::ops
