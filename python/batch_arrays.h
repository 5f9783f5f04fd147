// A batch as Python sees it.
#pragma once

#include <nanobind/nanobind.h>

#include <set>
#include <string>

#include "pipeline/batch.h"

namespace millrace::python {

struct BatchForm {
  /// A bfloat16 array is one of uint16, for libraries whose DLPack knows no bfloat16.
  bool bits = false;
  /// The ragged fields that are lists of str; the others are of bytes.
  std::set<std::string> texts = {};
};

/// {name: array that has __dlpack__, or list, ..., "valid": uint8 array, "keys": list of str}. The
/// arrays share the batch's memory, which goes back to its pool when the last of them is gone.
/// Requires: the GIL.
nanobind::dict batch_arrays(pipeline::Batch batch, const BatchForm& form);

}  // namespace millrace::python
