// What is left of a buffered sample whose payloads are not kept in memory, since they can be read
// again from its shard: a plain tar on this machine's disk, which the system has read a moment ago.
//
//   const SetAside left = set_aside(sample);
//   read_again(sample, left, opener, options);
//
// Threads: free functions, callable from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "io/opener.h"
#include "wds/sample.h"
#include "wds/shard_reader.h"

namespace millrace::wds::detail {

struct SetAside {
  std::size_t num_bytes = 0;  ///< of the payloads
  std::uint32_t crc32 = 0;    ///< of one after the other
};

/// Drops the sample's fields.
SetAside set_aside(Sample& sample);

/// Brings them back. `options`: by which the sample was read. Throws: Corrupt if the shard holds
/// other bytes by now, and as opening and reading.
void read_again(Sample& sample, const SetAside& left, const io::Opener& opener,
                ShardOptions options);

}  // namespace millrace::wds::detail
