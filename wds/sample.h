// Sample: a key and its fields' bytes, from consecutive members of one shard.
//
// Immutable once returned; a copy shares the bytes. Source: docs/webdataset.md; key = path up to
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
  /// Offset of the payload in the (decompressed) tar stream, in bytes.
  std::uint64_t offset = 0;
  /// Of the shard that it comes from, if that is not the sample's own (wds/join.h).
  std::shared_ptr<const std::string> url = nullptr;
};

struct Sample {
  std::string key = {};
  /// The shard's url as expanded, shared by all its samples; null for samples of other sources.
  std::shared_ptr<const std::string> url = nullptr;
  /// Offset of the first member's first header block in the (decompressed) tar stream, in bytes.
  std::uint64_t offset = 0;
  /// In the shard's order.
  std::vector<Field> fields = {};
  /// Payload bytes of the members that ShardOptions::suffixes left out.
  std::uint64_t passed_bytes = 0;

  /// The field with this suffix, or null. Lifetime: until the sample changes.
  const Field* find(std::string_view suffix) const;
  /// The field with the first of `suffixes` ("jpg;jpeg;png") that the sample has; null if it has
  /// none. Lifetime: until the sample changes.
  const Field* find_any(std::string_view suffixes) const;
  /// Total payload bytes of the fields.
  std::size_t num_bytes() const;
};

}  // namespace millrace::wds
