// Member names: how a tar member's path becomes a sample's key and a field's suffix.
//
// Key = the path up to the first dot of its base name; suffix = all after that dot, lower-cased.
// Names are keys and never paths: nothing is normalised, stripped or opened.
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

/// Nothing when the path belongs to no sample ("noext", ".hidden"). Lifetime: the key is a piece of
/// `path`.
std::optional<MemberName> split_member_name(std::string_view path);

/// True for WebDataset's metadata members, which are skipped ("__index__", "__dir__/x").
bool is_metadata_member(std::string_view path);

/// Throws: Corrupt (a NUL, invalid UTF-8, longer than 4 KiB, empty).
void check_member_name(std::string_view path);

}  // namespace millrace::wds
