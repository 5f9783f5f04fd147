#include "tests/trainer/nn_support.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "io/base/check.h"
#include "io/base/rng.h"

namespace millrace::trainer {

Network::Network(nn::Graph graph, const nn::PlanOptions& options, std::uint64_t seed)
    : graph_(std::move(graph)),
      parameters_(graph_.parameters().padded_size()),
      gradients_(parameters_.size()),
      buffers_(graph_.buffers().padded_size()) {
  graph_.initialise(seed, parameters_, buffers_);
  plan_ = nn::compile(graph_, options,
                      {.parameters = parameters_, .gradients = gradients_, .buffers = buffers_});
}

std::span<float> Network::parameter(const std::string& name) {
  const Parameter* entry = graph_.parameters().find(name);
  MILLRACE_CHECK(entry != nullptr, "no such parameter");
  return parameters().subspan(entry->offset, entry->size);
}

std::span<float> Network::gradient(const std::string& name) {
  const Parameter* entry = graph_.parameters().find(name);
  MILLRACE_CHECK(entry != nullptr, "no such parameter");
  return gradients().subspan(entry->offset, entry->size);
}

nn::OutputView Network::forward(std::vector<std::vector<float>> inputs, nn::Mode mode) {
  inputs_ = std::move(inputs);
  std::vector<std::span<const std::byte>> bytes;
  for (const auto& input : inputs_) bytes.push_back(std::as_bytes(std::span(input)));
  plan_->parameters_changed();
  plan_->forward(bytes, mode);
  return plan_->output(0);
}

void Network::backward(std::span<const float> output_gradient) {
  std::ranges::copy(output_gradient, plan_->output_gradient(0).data.begin());
  plan_->backward(nullptr);
}

std::vector<float> random_values(std::size_t count, std::uint64_t seed) {
  KeyedRng rng({.seed = seed, .purpose = Purpose::kSynthetic});
  std::vector<float> values(count);
  std::ranges::generate(values, [&] { return rng.normal(); });
  return values;
}

double relative_error(std::span<const float> a, std::span<const float> b) {
  double difference = 0;
  double size = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    const auto exact = static_cast<double>(b[i]);
    const double apart = static_cast<double>(a[i]) - exact;
    difference += apart * apart;
    size += exact * exact;
  }
  return std::sqrt(difference / std::max(size, 1e-30));
}

}  // namespace millrace::trainer
