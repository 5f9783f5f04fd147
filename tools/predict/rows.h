// Rows: predictions as lines of CSV or JSON.
//
//   classify    key,class,probability         the likeliest class; with --top K that many, in turn
//   multilabel  key,label0,label1,...         each label's probability
//
// Threads: const.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "trainer/predict.h"

namespace millrace::tools {

struct RowOptions {
  bool json = false;
  std::size_t top = 1;                  ///< classify: classes a row, at most as many as there are
  std::vector<std::string> names = {};  ///< of the classes or labels; empty: their numbers
};

/// The line before the rows, where there is one: not in JSON. `outputs`: classes or labels.
std::string class_header(const RowOptions& options, std::size_t outputs);
std::string label_header(const RowOptions& options, std::size_t outputs);

/// Throws: Corrupt for an output that is no number: no class would be the likeliest.
std::string class_row(const trainer::Prediction& one, const RowOptions& options);
std::string label_row(const trainer::Prediction& one, const RowOptions& options);

}  // namespace millrace::tools
