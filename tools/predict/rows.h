// Predictions as lines of CSV or JSON.
//
//   classify    key,class,probability       the most likely class; with --top K that many, in order
//   multilabel  key,label0,label1,...       each label's probability
//   contrast    key,feature0,feature1,...   the embedding
//
// Threads: pure functions.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/predict.h"

namespace millrace::tools {

struct RowOptions {
  bool json = false;
  std::size_t top = 1;                  ///< classify: classes per row, at most as many as exist
  std::vector<std::string> names = {};  ///< class or label names; empty: their numbers
};

/// The header line; empty for JSON. `outputs`: number of classes, labels or features.
std::string class_header(const RowOptions& options, std::size_t outputs);
std::string label_header(const RowOptions& options, std::size_t outputs);
std::string feature_header(const RowOptions& options, std::size_t outputs);

/// Throws: Corrupt for a NaN among the outputs, which cannot be ranked.
std::string class_row(const trainer::Prediction& one, const RowOptions& options);
std::string label_row(const trainer::Prediction& one, const RowOptions& options);
std::string feature_row(const trainer::Prediction& one, const RowOptions& options);

}  // namespace millrace::tools
