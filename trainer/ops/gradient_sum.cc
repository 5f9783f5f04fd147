#include "trainer/ops/detail/gradient_sum.h"

#include <algorithm>
#include <utility>

namespace millrace::trainer::ops {

GradientSum::GradientSum(Lowering& lowering, std::vector<Gradient> parts, const Tensor& relu_output)
    : parts_(std::move(parts)),
      relu_output_(relu_output),
      storage_(storage_of(lowering.context())) {
  lowering.use(relu_output);
  if (parts_.size() == 1 && !relu_output) {
    sum_ = parts_[0].tensor;
    sum_.rounded = true;  // by who made it, or after it was made
    shared_ = parts_[0].shared;
    return;
  }
  for (const Gradient& part : parts_) lowering.leave_unrounded(part);
  const auto own = std::ranges::find(parts_, false, &Gradient::shared);
  if (own != parts_.end()) std::swap(*own, parts_[0]);
  sum_ = own != parts_.end() ? parts_[0].tensor : lowering.make(parts_[0].tensor.desc());
  sum_.rounded = true;
}

Tensor GradientSum::in_place(Lowering& lowering, nn::Value input) const {
  Tensor gradient = shared_ ? lowering.make(sum_.desc()) : sum_;
  gradient.rounded = true;
  lowering.add_gradient(input, gradient);
  return gradient;
}

void GradientSum::add_to(Works& works) const {
  if (parts_.size() <= 1 && !relu_output_) return;
  std::vector<dnnl::memory> arrays = {sum_.memory, relu_output_.memory};
  for (const Gradient& part : parts_) arrays.push_back(part.tensor.memory);
  works.push_back(loop_work(relu_output_ ? "relu" : "gradient sum", arrays,
                            [sum = *this](const Pass&) { sum.run(); }));
}

void GradientSum::run() const {
  const std::size_t count = padded_values(sum_.memory);
  const void* sum = parts_[0].tensor.data();
  for (std::size_t i = 2; i < parts_.size(); ++i) {
    add(storage_, count, {.a = sum, .b = parts_[i].tensor.data(), .out = sum_.data()});
    sum = sum_.data();
  }
  add_masked(storage_, count,
             {.a = sum,
              .b = parts_.size() > 1 ? parts_[1].tensor.data() : nullptr,
              .y = relu_output_ ? relu_output_.data() : nullptr,
              .out = sum_.data()});
}

}  // namespace millrace::trainer::ops
