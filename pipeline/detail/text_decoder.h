// The decoder of a TextField.
#pragma once

#include <memory>

#include "pipeline/detail/field_decoder.h"

namespace millrace::pipeline::detail {

/// Throws: InvalidArgument.
std::unique_ptr<const FieldDecoder> compile_text(const TextField& field);

}  // namespace millrace::pipeline::detail
