// The decoder of an AudioField.
#pragma once

#include <memory>

#include "pipeline/detail/field_decoder.h"

namespace millrace::pipeline::detail {

/// Throws: InvalidArgument; Unsupported without libsndfile.
std::unique_ptr<const FieldDecoder> compile_audio(const AudioField& field);

}  // namespace millrace::pipeline::detail
