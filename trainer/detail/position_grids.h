// Embeddings of positions of another image size, made to fit a model's.
#pragma once

#include <string>
#include <vector>

#include "trainer/safetensors.h"
#include "trainer/weights.h"

namespace millrace::trainer::detail {

/// Resizes each embedding of positions whose grid in the file is a square other than the model's:
/// bicubic, corners on corners, as torchvision's interpolate_embeddings(); the class token's stays.
/// What is no such grid stays, to be refused. Returns a line for each. Throws: as
/// Tensor::copy_to().
std::vector<std::string> resize_positions(Safetensors& file, const std::vector<FlatTensors>& like);

}  // namespace millrace::trainer::detail
