// The decoder of a BoxesField.
#pragma once

#include <memory>
#include <vector>

#include "pipeline/detail/field_decoder.h"

namespace millrace::pipeline::detail {

/// The picture that boxes are of, and which view of the sample it is.
struct BoxesPicture {
  ImageField field;  ///< with all transforms that it gets
  std::uint64_t view = 0;
};

/// Throws: InvalidArgument.
std::unique_ptr<const FieldDecoder> compile_boxes(const BoxesField& field,
                                                  const BoxesPicture& picture);

}  // namespace millrace::pipeline::detail
