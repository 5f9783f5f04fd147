// Tied weights in a model and in a file: where the two do not agree.
#pragma once

#include <string>
#include <vector>

#include "trainer/parameters.h"
#include "trainer/safetensors.h"
#include "trainer/weights.h"

namespace millrace::trainer::detail {

/// The file's tensor for an entry: by its name, else by an alias; null where it has neither.
const Tensor* tensor_for(const Safetensors& file, const std::string& prefix,
                         const Parameter& entry);

/// A line for each tie of the model that does not hold in the file: there both names have values of
/// their own. Those under the parameter's first name count.
std::vector<std::string> ties_broken_in_file(const Safetensors& file,
                                             const std::vector<FlatTensors>& into);

/// A line for each pair of parameters that the model keeps apart though the file has the same
/// values for both (and not one value throughout, as start values of biases and norms): a tie was
/// lost.
std::vector<std::string> ties_lost_in_model(const Safetensors& file,
                                            const std::vector<FlatTensors>& into);

/// "Tied weights: 1,000 values where untied layers would have 1,500"; empty without ties.
std::string ties_line(const ParameterTable& table);

}  // namespace millrace::trainer::detail
