#include "tools/train/model_summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "trainer/nn/summary.h"

namespace millrace::tools {
namespace {

namespace nn = trainer::nn;

/// For a training step with one sample: the arena grows with the batch.
std::size_t activation_bytes(const trainer::GraphModel& model, nn::Precision precision) {
  const std::size_t count = model.parameters().padded_size();
  std::vector<float> parameters(count);
  std::vector<float> gradients(count);
  std::vector<float> buffers(model.buffers().padded_size());
  const bool full = precision == nn::Precision::kFloat32;
  const auto plan =
      model.compile({.precision = precision,
                     .input_dtype = full ? decode::DType::kFloat32 : decode::DType::kBFloat16},
                    {.parameters = parameters, .gradients = gradients, .buffers = buffers});
  return plan->activation_bytes();
}

void print_json(const trainer::GraphModel& model, std::size_t activations, Output& out) {
  nlohmann::ordered_json total = {{"event", "summary"}, {"model", model.name()}};
  std::int64_t multiply_adds = 0;
  for (const nn::LayerSummary& layer : nn::summarise(*model.graph())) {
    const nlohmann::ordered_json line = {{"layer", layer.name},
                                         {"kind", layer.kind},
                                         {"shape", layer.shape},
                                         {"parameters", layer.parameters},
                                         {"multiply_adds", layer.multiply_adds}};
    out.line(line.dump());
    multiply_adds += layer.multiply_adds;
  }
  total["parameters"] = model.parameters().num_values();
  total["multiply_adds"] = multiply_adds;
  total["activation_bytes_per_sample"] = activations;
  out.line(total.dump());
}

}  // namespace

void print_model_summary(const trainer::GraphModel& model, const SummaryOptions& options,
                         Output& out) {
  const std::size_t activations = activation_bytes(model, options.precision);
  if (options.json) return print_json(model, activations, out);
  constexpr double kMiB = 1024.0 * 1024.0;
  const double sample_mib = static_cast<double>(activations) / kMiB;
  std::string table = nn::summary_text(*model.graph());
  table.pop_back();  // line() ends it
  out.line(table);
  out.line(fmt::format("{}: {} parameters, {:.1f} MiB as float32", model.name(),
                       model.parameters().num_values(),
                       4.0 * static_cast<double>(model.parameters().num_values()) / kMiB));
  out.line(fmt::format(
      "activations of a training step: {:.1f} MiB per sample, about {:.0f} MiB for a batch of {}",
      sample_mib, sample_mib * static_cast<double>(options.batch_size), options.batch_size));
}

}  // namespace millrace::tools
