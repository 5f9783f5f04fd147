#include "trainer/nn/layers.h"

#include <functional>
#include <numeric>

namespace millrace::trainer::nn {
namespace {

template <typename... Visitors>
struct Overloaded : Visitors... {
  using Visitors::operator()...;
};

}  // namespace

std::string shape_text(const Shape& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  }
  return text + ")";
}

std::int64_t num_values(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::string_view layer_name(const Layer& layer) {
  return std::visit(
      Overloaded{[](const Input&) { return "input"; }, [](const Conv2d&) { return "conv2d"; },
                 [](const BatchNorm&) { return "batch_norm"; }, [](const Relu&) { return "relu"; },
                 [](const Add&) { return "add"; }, [](const Dropout&) { return "dropout"; },
                 [](const MaxPool2d&) { return "max_pool2d"; },
                 [](const AdaptiveAvgPool2d&) { return "adaptive_avg_pool2d"; },
                 [](const Flatten&) { return "flatten"; }, [](const Linear&) { return "linear"; }},
      layer);
}

}  // namespace millrace::trainer::nn
