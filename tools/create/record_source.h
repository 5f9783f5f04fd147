// Records as samples: which columns become which fields.
//
//   images   files of their own: "jpg" of the first, "mask.png" of others, by the column's name
//   label    "cls": a number as it is, or the number of a name
//   labels   numbers, as json {"labels": [...]}
//   columns  the rest: numbers and texts into the json by their names, other files as "NAME.npy"
//
// Without any of these all columns are taken. The key is the record's number in eight digits, or
// made of columns. Errors name the file and the record.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/create/records.h"
#include "tools/create/sample_source.h"
#include "tools/create/source_format.h"

namespace millrace::tools {

/// Throws: InvalidArgument for a column that there is not, two of one field's name, and keys that
/// are not distinct; Corrupt with the record.
std::unique_ptr<SampleSource> open_record_source(std::unique_ptr<Records> records,
                                                 const SourceRequest& request);

}  // namespace millrace::tools
