// The files of a pattern such as "out/train-%06d.tar" or "s3://bucket/train-%06d.tar", and the
// files next to them. `opener` lists and removes those of a url; where it cannot list, none are
// known. With folds the pattern contains "{fold}", which is replaced by 0, 1, ...
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "io/opener.h"
#include "wds/shard_writer.h"

namespace millrace::tools {

struct CommandContext;

inline constexpr std::string_view kFoldMark = "{fold}";

/// `pattern` with each {fold} replaced by `fold`.
std::string fold_pattern(const std::string& pattern, std::uint32_t fold);

/// The patterns of all folds; with 0 folds `pattern` itself. Throws: InvalidArgument if the pattern
/// is invalid, contains {fold} without folds, or lacks it with them, or if folds would share a
/// manifest.
std::vector<std::string> set_patterns(const std::string& pattern, std::uint32_t folds);

/// The existing shards of `pattern`, by number. Throws: InvalidArgument (the pattern).
std::vector<std::string> existing_shards(const io::Opener& opener, const std::string& pattern);

/// The path of the manifest of `pattern`'s set: out/train-manifest.json.
std::string manifest_path(const std::string& pattern);

/// Throws: InvalidArgument if there are shards of another pattern whose manifest and label map have
/// the same paths, so that this set would replace them: train-000000.tar for train-%05d.tar. A
/// store that cannot list is not asked.
void refuse_other_set(const io::Opener& opener, const std::string& pattern);
/// Throws: InvalidArgument if a shard of `pattern` exists, naming it; as refuse_other_set().
void refuse_existing_shards(const io::Opener& opener, const std::string& pattern);
/// Deletes the shards of `pattern` and the files next to them: indexes, label map, manifest, and
/// the temporary files of a run that was killed. Throws: Io; as refuse_other_set(), with nothing
/// deleted.
void delete_shards(const io::Opener& opener, const std::string& pattern);

/// Requires: the pattern is a local path. Takes over what an earlier run with the same options
/// completed: the intact shards from number 0 on. If `indexed`, missing indexes are built. Deletes
/// everything else that the run left: shards that are damaged or follow a gap, and temporary files.
/// Throws: Io.
std::vector<wds::ShardSummary> take_over_shards(const io::Opener& opener,
                                                const std::string& pattern, bool indexed);

/// With --json prints a shard that was written.
void print_written(const wds::ShardSummary& shard, CommandContext& context);

}  // namespace millrace::tools
