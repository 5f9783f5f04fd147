// ShardSet: the files that a pattern such as "out/train-%06d.tar" names.
#pragma once

#include <string>
#include <vector>

namespace millrace::tools {

/// The shards of `pattern` that exist, by number. Throws: InvalidArgument (the pattern).
std::vector<std::string> existing_shards(const std::string& pattern);

/// Throws: InvalidArgument when a shard of `pattern` exists, naming it.
void refuse_existing_shards(const std::string& pattern);
/// Deletes the shards of `pattern`, and what lies beside them: indexes and label map. Throws: Io.
void delete_shards(const std::string& pattern);

}  // namespace millrace::tools
