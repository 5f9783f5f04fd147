// libFuzzer target: any bytes as a shard, plain or compressed, and as an index and a manifest.
#include <cstddef>
#include <cstdint>
#include <string>

#include "io/base/error.h"
#include "tests/wds/memory_opener.h"
#include "wds/manifest.h"
#include "wds/shard_index.h"
#include "wds/shard_reader.h"

namespace {

using namespace millrace;  // NOLINT

wds::ShardOptions options_from(unsigned bits) {
  return {.tar = {.max_member_bytes = 1 << 20,
                  .behind_end = (bits & 1U) != 0 ? wds::BehindEnd::kRead : wds::BehindEnd::kFault,
                  .header_checksums = (bits & 2U) != 0},
          .lenient = (bits & 4U) != 0};
}

void read_shard(const io::Opener& opener, const wds::ShardOptions& options) {
  try {
    wds::ShardReader reader(opener, "x", options);
    for (bool more = true; more;) {
      try {
        wds::Sample sample;
        more = reader.next(sample);
      } catch (const Error&) {  // a fault is a valid result
        more = reader.can_continue();
      }
    }
  } catch (const Error&) {
  }
}

void read_beside(const io::Opener& opener) {
  try {
    wds::read_index(opener, "x");
  } catch (const Error&) {
  }
  try {
    wds::read_manifest(opener, "x");
  } catch (const Error&) {
  }
}

}  // namespace

/// The first byte selects how the rest is read.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned bits = data[0];
  millrace::testing::MemoryOpener opener;
  opener.files["x"] = std::string(reinterpret_cast<const char*>(data) + 1, size - 1);
  opener.knows_size = (bits & 8U) != 0;
  if ((bits & 16U) != 0) opener.step = 700;
  read_shard(opener, options_from(bits));
  if (size > 1 && data[1] == '{') read_beside(opener);
  return 0;
}
