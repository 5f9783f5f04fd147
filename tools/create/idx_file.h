// IdxFile: an IDX file of bytes, read into memory and checked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "io/bytes.h"

namespace millrace::tools {

struct IdxFile {
  std::vector<std::int64_t> shape;  ///< outermost first
  io::Bytes data;                   ///< product of `shape`, in bytes
};

/// Reads the file, unpacking gzip. Throws: NotFound, Io, Corrupt, Truncated, Unsupported (values
/// that are not bytes), Exhausted (more than 16 GiB).
IdxFile read_idx_file(const std::string& path);

}  // namespace millrace::tools
