// The pattern of a set of shards. With folds it contains "{fold}", which is replaced by 0, 1,
// ...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace millrace::tools {

inline constexpr std::string_view kFoldMark = "{fold}";

/// `pattern` with each {fold} replaced by `fold`.
std::string fold_pattern(const std::string& pattern, std::uint32_t fold);

/// The patterns of all folds; with 0 folds `pattern` itself. Throws: InvalidArgument if the pattern
/// is invalid, contains {fold} without folds, or lacks it with them.
std::vector<std::string> set_patterns(const std::string& pattern, std::uint32_t folds);

}  // namespace millrace::tools
