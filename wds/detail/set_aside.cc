#include "wds/detail/set_aside.h"

#include <utility>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "wds/detail/forward_reader.h"

namespace millrace::wds::detail {
namespace {

// Enough for headers: payloads are not read through the tape's buffer, nor is what lies behind
// them.
constexpr std::size_t kTapeBytes = std::size_t{4} * 1024;

SetAside summary_of(const Sample& sample) {
  SetAside summary{.num_bytes = sample.num_bytes()};
  for (const Field& field : sample.fields) summary.crc32 = crc32(field.data.span(), summary.crc32);
  return summary;
}

}  // namespace

SetAside set_aside(Sample& sample) {
  const SetAside summary = summary_of(sample);
  sample.fields = {};
  return summary;
}

// What is behind the sample, the shard's end for one, is told by whoever reads to there.
void read_again(Sample& sample, const SetAside& left, const io::Opener& opener,
                ShardOptions options) {
  options.index = nullptr;
  options.lenient = true;
  options.tar.buffer_bytes = kTapeBytes;
  if (options.tar.behind_end == BehindEnd::kFault) options.tar.behind_end = BehindEnd::kCount;
  Sample again = ForwardReader(*sample.url, opener, std::move(options)).at(sample.offset);
  const SetAside found = summary_of(again);
  if (again.key != sample.key || found.num_bytes != left.num_bytes || found.crc32 != left.crc32)
    throw Error(ErrorCode::kCorrupt, "the shard changed while its samples were shuffled",
                {.url = *sample.url, .key = sample.key, .offset = sample.offset});
  sample.fields = std::move(again.fields);
}

}  // namespace millrace::wds::detail
