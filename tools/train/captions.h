// Captions: the fields of a batch that texts beside pictures become.
//
// Threads: free functions; the fields' are const.
#pragma once

#include <string>

#include "decode/array.h"
#include "pipeline/fields.h"
#include "tools/train/tasks.h"

namespace millrace::tools {

inline constexpr const char* kCaptionField = "text";

/// A caption's UTF-8 bytes, or the digits of its tokens' numbers (nn::TokenEmbedding), in the
/// pictures' type, as a model's inputs have one; zeros behind it. What is longer is cut behind a
/// whole character or token. Shape: (N, the tower's num_values()).
pipeline::FunctionField caption_field(const TextTarget& of, decode::DType dtype);
/// A number for each caption, so that samples with the same one count as one: nothing tells their
/// texts apart. Shape: int64 (N).
pipeline::FunctionField same_caption_field(const TextTarget& of, std::string name);

}  // namespace millrace::tools
