// Tied weights: differences between a model and a file.
#pragma once

#include <string>
#include <vector>

#include "trainer/parameters.h"
#include "trainer/safetensors.h"
#include "trainer/weights.h"

namespace millrace::trainer::detail {

/// The file's tensor for an entry: by its name, else by an alias; null if it has neither.
const Tensor* tensor_for(const Safetensors& file, const std::string& prefix,
                         const Parameter& entry);

/// A line for each tie of the model whose two names have different values in the file. Those under
/// the parameter's first name are used.
std::vector<std::string> ties_broken_in_file(const Safetensors& file,
                                             const std::vector<FlatTensors>& into);

/// A line for each pair of separate parameters of the model that have the same values in the file
/// (and not all the same value, as start values of biases and norms have): a tie may be missing.
std::vector<std::string> ties_lost_in_model(const Safetensors& file,
                                            const std::vector<FlatTensors>& into);

/// "Tied weights: 1,000 values where untied layers would have 1,500"; empty without ties.
std::string ties_line(const ParameterTable& table);

}  // namespace millrace::trainer::detail
