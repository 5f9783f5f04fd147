#include "wds/detail/index_check.h"

#include <string>
#include <string_view>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "wds/detail/header_blocks.h"

namespace millrace::wds::detail {
namespace {

/// A member as it was found.
struct Found {
  std::string_view suffix;
  std::uint64_t offset;
  std::uint64_t size;
  std::uint32_t header_crc32;
  const io::Bytes* data;  // null if it was skipped
};

// The first difference, ignoring the payload's bytes; null if there is none.
const char* difference(const IndexedMember& expected, const Found& found) {
  if (found.suffix != expected.suffix) return "suffix";
  if (found.offset != expected.offset) return "place of the payload";
  if (found.size != expected.size) return "size";
  if (found.header_crc32 != expected.header_crc32) return "CRC-32 of the header";
  return nullptr;
}

void check_member(const IndexedMember& expected, const Found& found, const std::string& key) {
  const char* what = difference(expected, found);
  if (what == nullptr && found.data && crc32(found.data->span()) != expected.crc32) what = "CRC-32";
  if (what != nullptr)
    throw unlike_index(what, key + "." + std::string(found.suffix), found.offset);
}

}  // namespace

Error unlike_index(const std::string& what, const std::string& member,
                   std::optional<std::uint64_t> offset) {
  return Error(ErrorCode::kCorrupt, what + " is not what the index says",
               {.member = member, .offset = offset});
}

void check_sample(const IndexedSample& expected, const Sample& sample,
                  const std::vector<PassedMember>& passed,
                  const std::vector<std::uint32_t>& header_crcs) {
  if (sample.key != expected.key) throw unlike_index("key " + sample.key);
  if (sample.offset != expected.offset) throw unlike_index("place of the sample");
  if (sample.fields.size() + passed.size() != expected.members.size())
    throw unlike_index("number of members");
  auto field = sample.fields.begin();
  auto past = passed.begin();
  for (std::size_t i = 0; i < expected.members.size(); ++i) {
    if (past != passed.end() && past->place == i) {
      const IndexedMember& member = (past++)->member;
      check_member(expected.members[i],
                   {member.suffix, member.offset, member.size, header_crcs[i], nullptr},
                   sample.key);
    } else {
      check_member(expected.members[i],
                   {field->suffix, field->offset, field->data.size(), header_crcs[i], &field->data},
                   sample.key);
      ++field;
    }
  }
}

void check_end(const ShardIndex& index, std::uint64_t end,
               std::optional<std::uint64_t> stored_bytes) {
  if (end != index.end) {
    throw Error(ErrorCode::kCorrupt, "end marker is not where the index says", {.offset = end});
  }
  if (stored_bytes == index.bytes) return;
  if (!stored_bytes) data_behind_end(end);
  throw Error(*stored_bytes < index.bytes ? ErrorCode::kTruncated : ErrorCode::kCorrupt,
              "shard has " + std::to_string(*stored_bytes) + " bytes, its index says " +
                  std::to_string(index.bytes),
              {.offset = *stored_bytes});
}

}  // namespace millrace::wds::detail
