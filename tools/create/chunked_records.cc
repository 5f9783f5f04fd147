#include "tools/create/chunked_records.h"

#include <fmt/format.h>

#include <tuple>
#include <utility>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::tools {

ChunkedRecords::ChunkedRecords(std::string folder, const Words& words)
    : folder_(std::move(folder)), words_(words) {}

void ChunkedRecords::open(const std::string& index,
                          const std::function<void(const RecordJson&)>& take) {
  index_ = index;
  try {
    take(read_index_json(index_));
  } catch (Error& error) {
    error.annotate({.url = index_});
    throw;
  }
  for (const ItemChunk& chunk : chunks_)
    if (chunk.packing == Packing::kPlain) chunk.check(ranges_);
  checked_ = std::make_unique<std::once_flag[]>(chunks_.size());
}

void ChunkedRecords::set_columns(std::vector<std::string> names, std::vector<std::string> encodings,
                                 std::vector<std::uint64_t> sizes) {
  if (names_.empty()) std::tie(names_, encodings_, sizes_) = std::tie(names, encodings, sizes);
  if (std::tie(names_, encodings_, sizes_) != std::tie(names, encodings, sizes))
    throw Error(ErrorCode::kUnsupported, "shards of different columns");
}

void ChunkedRecords::add_chunk(ItemChunk chunk) {
  chunk.first = size();
  if (chunk.count > 0) chunks_.push_back(std::move(chunk));
}

std::uint64_t ChunkedRecords::size() const {
  return chunks_.empty() ? 0 : chunks_.back().first + chunks_.back().count;
}

std::vector<std::string> ChunkedRecords::files() const {
  std::vector<std::string> files = {index_};
  for (const ItemChunk& chunk : chunks_) files.push_back(chunk.path);
  return files;
}

std::string ChunkedRecords::place(std::uint64_t index) const {
  const ItemChunk& chunk = chunk_of(chunks_, index);
  return fmt::format("{} {} {}", chunk.path, words_.item, index - chunk.first);
}

std::vector<RecordValue> ChunkedRecords::read(std::uint64_t index,
                                              const std::vector<std::size_t>& columns) const {
  const ItemChunk& chunk = chunk_of(chunks_, index);
  // When it is first read, so that the disk is read once.
  if (!chunk.sha1.empty())
    std::call_once(checked_[static_cast<std::size_t>(&chunk - chunks_.data())],
                   [&chunk] { chunk.check_sha1(); });
  const auto parts = sized_parts(chunk.item(ranges_, index - chunk.first), sizes_);
  std::vector<RecordValue> values;
  values.reserve(columns.size());
  for (const std::size_t column : columns) {
    try {
      values.push_back(value_of(encodings_[column], parts[column]));
    } catch (const Error& error) {
      throw Error(
          error.code(),
          fmt::format("{} {}: {}", words_.value, printable(names_[column]), error.message()),
          error.where());
    }
  }
  return values;
}

}  // namespace millrace::tools
