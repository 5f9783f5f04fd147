// Summary: a model's layers as a table for people: shapes, parameters, multiply-adds, activations.
//
// Threads: functions, and values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "trainer/nn/graph.h"

namespace millrace::trainer::nn {

/// One layer, for one sample.
struct LayerSummary {
  std::string name;
  std::string kind;  ///< "conv2d"
  Shape shape;       ///< of the output
  std::size_t parameters = 0;
  std::int64_t multiply_adds = 0;  ///< of convolutions and linear layers only, as is usual
  std::int64_t values = 0;         ///< of the output
};

/// Of a layer, for one sample: 0 for what has no products.
std::int64_t multiply_adds(const Graph& graph, const Node& node);

std::vector<LayerSummary> summarise(const Graph& graph);

/// The table as text, with a last line of totals.
std::string summary_text(const Graph& graph);

}  // namespace millrace::trainer::nn
