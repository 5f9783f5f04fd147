// Records of tables, one a file: Parquet files, and streams of record batches as Hugging Face's
// datasets writes them (wds/row_table.h). The latest groups of rows stay in memory, up to 512 MiB.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tools/create/records.h"

namespace millrace::tools {

enum class TableFormat { kParquet, kStream };

/// Throws: Unsupported in a build without Arrow, if its libraries cannot be loaded, or for files of
/// other columns than the first one's; Corrupt, Truncated, with the file.
std::unique_ptr<Records> open_table_records(const std::vector<std::string>& files,
                                            TableFormat format);

}  // namespace millrace::tools
