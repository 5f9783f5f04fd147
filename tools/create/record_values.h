// What several formats store in one way: numbers, NumPy's arrays, PIL's pixels, and chunks of items
// behind a table of offsets.
//
// Threads: free functions, callable from any thread; const members may be called from many at once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "tools/create/file_ranges.h"
#include "tools/create/records.h"

namespace millrace::tools {

/// A type of numbers, by NumPy's code: b, i, u, f; 'B' is bfloat16.
struct NumberType {
  char kind = 'i';
  std::size_t bytes = 8;

  bool operator==(const NumberType&) const = default;
};

/// By NumPy's name: "uint8", "float16". Throws: Unsupported.
NumberType number_type(std::string_view name);

/// One little-endian number. Throws: Corrupt unless there are type.bytes bytes.
RecordJson number_value(const NumberType& type, std::string_view bytes);

/// Values in C order as an npy file; bfloat16 becomes float32. Throws: Corrupt if there are more or
/// fewer than `shape` says.
RecordFile npy_file(const NumberType& type, const std::vector<std::uint64_t>& shape,
                    const io::Bytes& values);

/// PIL's pixels, [width: 4][height: 4][mode's length: 4][mode][pixels], little-endian, of the modes
/// 1, L, LA, RGB and RGBA. Throws: Corrupt, Unsupported.
RecordFile pil_file(const io::Bytes& data);

/// Pictures behind their number and sizes, each four bytes. Throws: Corrupt.
RecordValue jpeg_list(const io::Bytes& data);

/// `bytes` as text. Throws: Corrupt unless they are UTF-8.
RecordJson text_value(std::string_view bytes);

/// Four little-endian bytes. Requires: at + 4 <= bytes.size().
std::uint32_t u32_at(std::string_view bytes, std::size_t at);

/// Cuts `count` sizes of four bytes off the front of `rest`, and then such parts: how both MDS and
/// LitData store a sample. `fixed` sizes other than 0 are not stored. Throws: Corrupt unless they
/// make up all of it.
std::vector<io::Bytes> sized_parts(const io::Bytes& item, std::span<const std::uint64_t> fixed);

/// A chunk: the number of its items, n + 1 offsets from its beginning, four bytes each, and the
/// items.
struct ItemChunk {
  std::string path;
  Packing packing = Packing::kPlain;
  std::uint64_t count = 0;
  std::uint64_t first = 0;  ///< number of its first item among those of all chunks
  std::string sha1 = {};    ///< of the file, as the index has it; empty: unknown

  /// Reads the whole file. Throws: Corrupt unless it has that SHA-1; NotFound, Io.
  void check_sha1() const;
  /// Throws: Corrupt unless the chunk has `count` items; Truncated.
  void check(const FileRanges& files) const;
  /// Requires: number < count. Throws: Corrupt, Truncated, with the offset.
  io::Bytes item(const FileRanges& files, std::uint64_t number) const;
};

/// The chunk of item `index`. Requires: there is one.
const ItemChunk& chunk_of(std::span<const ItemChunk> chunks, std::uint64_t index);

/// `name`, which an index in `folder` gives, as a path. Throws: Corrupt if it leads out of the
/// folder.
std::string path_inside(const std::string& folder, const std::string& name);

/// The JSON of an index file, up to 1 GiB. Throws: NotFound, Io, Corrupt, with the file.
RecordJson read_index_json(const std::string& path);

}  // namespace millrace::tools
