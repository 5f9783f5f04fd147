#include "wds/detail/forward_reader.h"

#include <utility>

#include "wds/parquet_shard.h"

namespace millrace::wds::detail {
namespace {

// Reading and dropping this much costs less than a new request, or than opening a file.
constexpr std::uint64_t kWideNetworkGap = std::uint64_t{4} * 1024 * 1024;
constexpr std::uint64_t kWideFileGap = std::uint64_t{128} * 1024;

}  // namespace

ForwardReader::ForwardReader(std::string url, const io::Opener& opener, ShardOptions options)
    : url_(std::move(url)),
      opener_(opener),
      options_(std::move(options)),
      wide_gap_(io::is_network_url(url_) ? kWideNetworkGap : kWideFileGap) {}

Sample ForwardReader::at(std::uint64_t offset) {
  const bool behind = reader_ && offset < reader_->position();
  // What is packed is unpacked from its beginning, whatever the offset.
  const bool opens =
      !reader_ || behind || (offset > reader_->position() + wide_gap_ && !reader_->compressed());
  if (opens) open(offset);
  const std::uint64_t before = reader_->position();
  try {
    Sample sample = find(offset);
    if (is_parquet(url_))
      bytes_ += sample.num_bytes();
    else
      bytes_ += reader_->position() - (opens && reader_->compressed() ? 0 : before);
    return sample;
  } catch (const Error&) {
    broken_ = !reader_->can_continue() && reader_->compressed();
    if (!reader_->can_continue()) close();
    throw;
  }
}

void ForwardReader::open(std::uint64_t offset) {
  close();
  options_.offset = offset;
  reader_.emplace(opener_, url_, options_);
}

void ForwardReader::close() {
  refetched_ = refetched();
  reader_.reset();
}

Sample ForwardReader::find(std::uint64_t offset) {
  passed_over_.reset();
  for (Sample sample; next(sample, offset);) {
    if (sample.offset == offset) return sample;
    if (sample.offset > offset) break;
  }
  if (passed_over_) throw Error(*passed_over_);
  throw Error(ErrorCode::kCorrupt, "no sample where the saved position says: the shard changed",
              {.url = url_, .offset = offset});
}

// Nothing is sought behind the offset: a shard that is damaged throughout would be read to its end
// for each of the samples wanted.
bool ForwardReader::next(Sample& sample, std::uint64_t offset) {
  while (reader_->position() <= offset) {
    try {
      return reader_->next(sample);
    } catch (const Error& error) {
      if (!reader_->can_continue()) throw;
      passed_over_ = error;
    }
  }
  return false;
}

}  // namespace millrace::wds::detail
