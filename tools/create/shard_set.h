// ShardSet: the files that a pattern such as "out/train-%06d.tar" names, and what lies beside them.
#pragma once

#include <string>
#include <vector>

#include "wds/shard_writer.h"

namespace millrace::tools {

/// The shards of `pattern` that exist, by number. Throws: InvalidArgument (the pattern).
std::vector<std::string> existing_shards(const std::string& pattern);

/// Where the manifest of `pattern`'s set lies: out/train-manifest.json.
std::string manifest_path(const std::string& pattern);

/// Throws: InvalidArgument when a shard of `pattern` exists, naming it.
void refuse_existing_shards(const std::string& pattern);
/// Deletes the shards of `pattern`, and what lies beside them: indexes, label map, manifest, and
/// the temporary files of a run that was killed. Throws: Io.
void delete_shards(const std::string& pattern);

/// What an earlier run of the same options completed: the whole shards from number 0 on, each with
/// its index made where it is `indexed` and has none. Deletes all else that run left: shards
/// that are damaged, or lie behind a gap, and temporary files. Throws: Io.
std::vector<wds::ShardSummary> take_over_shards(const std::string& pattern, bool indexed);

}  // namespace millrace::tools
