// Whether an index is older than its shard: members that were appended are not in it, and whoever
// finds samples by their place would not see them.
//
//   if (outgrows_index(url, *index)) index = nullptr;
//
// Threads: from any.
#pragma once

#include <stop_token>
#include <string>

#include "wds/shard_index.h"

namespace millrace::wds {

/// True if the local file at `url` is longer than its index says. False for what is no local file:
/// readers find that at the shard's end.
bool outgrows_index(const std::string& url, const ShardIndex& index);

/// Of a distant shard the first byte is asked for, whose answer says how long the shard is; one
/// that cannot be opened is left to its reader. Throws: Corrupt, with the url, if the shard is
/// longer than its index says; Cancelled.
void check_not_outgrown(const io::Opener& opener, const std::string& url, const ShardIndex& index,
                        const std::stop_token& stop = {});

}  // namespace millrace::wds
