// Records of Apache Arrow's: Parquet files, and streams of record batches as Hugging Face's
// datasets writes them.
//
// Arrow's libraries are large, and few commands need them: what uses them is a module of its own
// (libmillrace_arrow.so), loaded when such a source is opened.
#pragma once

#include <string>
#include <vector>

#include "tools/create/records.h"

namespace millrace::tools {

enum class ArrowFormat { kParquet, kStream };

/// Throws: Unsupported in a build without Arrow, or if its libraries cannot be loaded; Corrupt,
/// Truncated, Unsupported with the file.
std::unique_ptr<Records> open_arrow_records(const std::vector<std::string>& files,
                                            ArrowFormat format);

/// What the module exports; the caller owns the result.
inline constexpr const char* kArrowModuleEntry = "millrace_open_arrow_records";
using ArrowModuleEntry = Records*(const std::vector<std::string>& files, ArrowFormat format);

}  // namespace millrace::tools
