#include "tools/train/precision_option.h"

#include <CLI/App.hpp>

#include "tools/help.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

/// The names used by PyTorch and Lightning.
const ValueAliases kPrecisions = {
    {"16", "bf16"}, {"16-mixed", "bf16"}, {"bf16-mixed", "bf16"}, {"bfloat16", "bf16"},
    {"32", "fp32"}, {"32-true", "fp32"},  {"float32", "fp32"},    {"16-true", "bf16-true"}};

}  // namespace

void PrecisionOption::declare(CLI::App& app) {
  app.add_option(
         "--precision", word,
         "bf16 (16, 16-mixed, bf16-mixed, bfloat16): bf16 compute, float32 weights; fp32 (32, "
         "float32); bf16-true: bf16 weights too")
      ->transform(one_of({"bf16", "fp32", "bf16-true"}, kPrecisions))
      ->check(in_short_help());
}

trainer::nn::Precision PrecisionOption::compute() const {
  return word == "fp32" ? trainer::nn::Precision::kFloat32 : trainer::nn::Precision::kBFloat16;
}

decode::DType PrecisionOption::input() const {
  return word == "fp32" ? decode::DType::kFloat32 : decode::DType::kBFloat16;
}

}  // namespace millrace::tools
