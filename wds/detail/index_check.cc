#include "wds/detail/index_check.h"

#include <string>

#include "io/base/error.h"
#include "io/base/hash.h"

namespace millrace::wds::detail {
namespace {

[[noreturn]] void differs(const std::string& what, const std::string& member = {},
                          std::optional<std::uint64_t> offset = {}) {
  throw Error(ErrorCode::kCorrupt, what + " is not what the index says",
              {.member = member, .offset = offset});
}

// What differs first; null when nothing does.
const char* difference(const IndexedMember& expected, const Field& field,
                       std::uint32_t header_crc32) {
  if (field.suffix != expected.suffix) return "suffix";
  if (field.offset != expected.offset) return "place of the payload";
  if (field.data.size() != expected.size) return "size";
  if (crc32(field.data.span()) != expected.crc32) return "CRC-32";
  if (header_crc32 != expected.header_crc32) return "CRC-32 of the header";
  return nullptr;
}

}  // namespace

void check_sample(const IndexedSample& expected, const Sample& sample,
                  const std::vector<std::uint32_t>& header_crcs) {
  if (sample.key != expected.key) differs("key " + sample.key);
  if (sample.offset != expected.offset) differs("place of the sample");
  if (sample.fields.size() != expected.members.size()) differs("number of members");
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {
    const Field& field = sample.fields[i];
    const char* const what = difference(expected.members[i], field, header_crcs[i]);
    if (what != nullptr) differs(what, sample.key + "." + field.suffix, field.offset);
  }
}

void check_end(const ShardIndex& index, std::uint64_t end,
               std::optional<std::uint64_t> stored_bytes) {
  if (end != index.end) {
    throw Error(ErrorCode::kCorrupt, "end marker is not where the index says", {.offset = end});
  }
  if (stored_bytes == index.bytes) return;
  const bool shorter = stored_bytes && *stored_bytes < index.bytes;
  throw Error(shorter ? ErrorCode::kTruncated : ErrorCode::kCorrupt,
              "shard has " +
                  (stored_bytes ? std::to_string(*stored_bytes) : "more than its tar's") +
                  " bytes, its index says " + std::to_string(index.bytes),
              {.offset = stored_bytes.value_or(end)});
}

}  // namespace millrace::wds::detail
