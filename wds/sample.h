// Sample: a key and its fields' bytes, from consecutive members of one shard.
//
// Immutable once handed up; a copy shares the bytes. Source: docs/webdataset.md; key = path up to
// the first dot of the base name, suffix = what follows, lower-cased.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace millrace::wds {

struct Field {
  std::string suffix;
  io::Bytes data;
  /// Of the payload's first byte in the (decompressed) tar stream.
  std::uint64_t offset = 0;
};

struct Sample {
  std::string key = {};
  /// The shard's url as expanded, shared by all samples of the shard; null for one from no shard.
  std::shared_ptr<const std::string> url = nullptr;
  /// Of the first member's first header block in the (decompressed) tar stream.
  std::uint64_t offset = 0;
  /// In the shard's own order.
  std::vector<Field> fields = {};
  /// Payload bytes of members that nobody wanted and that are not held (ShardOptions::suffixes).
  std::uint64_t passed_bytes = 0;

  /// The field with this suffix, or null. Lifetime: until the sample changes.
  const Field* find(std::string_view suffix) const;
  /// The first field of the sample that has one of `suffixes` ("jpg;jpeg;png"), in the order of
  /// `suffixes`; null when there is none.
  const Field* find_any(std::string_view suffixes) const;
  /// The fields' payload bytes.
  std::size_t num_bytes() const;
};

}  // namespace millrace::wds
