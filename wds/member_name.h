// Member names: how a tar member's path becomes a sample's key and a field's suffix.
//
// Key = the path up to the first dot of its base name; suffix = everything after that dot,
// lower-cased. Names are used as keys, never as paths: nothing is normalised, stripped or opened.
//
// Source: docs/webdataset.md, "Key and suffix" and "Members", as observed in WebDataset 1.0.2.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace millrace::wds {

struct MemberName {
  std::string_view key;  ///< views the path
  std::string suffix;    ///< lower-cased
};

/// Nullopt if the path belongs to no sample ("noext", ".hidden"). Lifetime: the key views
/// `path`.
std::optional<MemberName> split_member_name(std::string_view path);

/// True for WebDataset's metadata members, which are skipped ("__index__", "__dir__/x").
bool is_metadata_member(std::string_view path);

/// A column's name as a part of a suffix: small letters, digits, _ and -; all else becomes _.
std::string suffix_part(std::string_view column);

/// Throws: Corrupt if `path` is empty, longer than 4 KiB, not UTF-8 or contains a NUL.
void check_member_name(std::string_view path);

}  // namespace millrace::wds
