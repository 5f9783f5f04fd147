#include "wds/shard_reader.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "wds/detail/header_blocks.h"
#include "wds/detail/index_check.h"
#include "wds/detail/listed_reader.h"
#include "wds/detail/parquet_reader.h"
#include "wds/detail/sample_assembler.h"
#include "wds/outgrown_index.h"
#include "wds/parquet_shard.h"
#include "wds/shard_index.h"

namespace millrace::wds {
namespace {

// What so many samples in a row are when they are fetched again is what the shard holds.
constexpr int kMostInVain = 2;

bool is_damage(const Error& error) {
  return error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kTruncated ||
         error.code() == ErrorCode::kUnsupported || error.code() == ErrorCode::kExhausted;
}

}  // namespace

struct ShardReader::State {
  State(const io::Opener& borrowed, const std::string& wanted_url, const ShardOptions& wanted)
      : opener(borrowed), options(wanted), url(std::make_shared<const std::string>(wanted_url)) {
    if (!options.index) return;
    MILLRACE_CHECK(!options.rename && !options.select, "an index is of unchanged members");
    options.tar.header_checksums = true;
    // Data after the end marker is checked against the index, once all samples are returned.
    if (options.tar.behind_end == BehindEnd::kFault) options.tar.behind_end = BehindEnd::kCount;
    cursor = options.index->sample_at(options.offset);
    const std::size_t count = options.index->samples.size();
    last = options.max_samples == 0 ? count
                                    : std::min<std::size_t>(count, cursor + options.max_samples);
  }

  bool is_listed() const { return options.listed && options.index; }
  bool plain_by_index() const {
    return options.index && detail::ListedReader::may_read(*options.index);
  }
  void begin();
  bool open_as_listed();
  void open();
  void go_on(detail::ListedReader& from);
  TarWarnings warnings() const;
  bool next(Sample& sample);
  bool next_indexed(Sample& sample);
  bool next_listed(Sample& sample);
  void check_listed_end();
  void read_indexed(Sample& sample);
  void read_expected(Sample& sample);
  bool read_as_listed(Sample& sample);
  void pass_over();
  detail::ListedReader::Outcome try_as_listed(Sample& sample);
  bool read_again(Sample& sample, const Error& fault);
  bool may_come_right(const Error& fault);
  bool is_known_damaged() const { return in_vain >= kMostInVain; }
  void lose(const Error& error);
  bool stands_at_next() const;
  bool rest_is_cut_off() const;
  void check_end();

  const io::Opener& opener;
  ShardOptions options;
  std::shared_ptr<const std::string> url;
  std::optional<detail::ParquetReader> rows;     // of a Parquet file; then nothing below is used
  std::optional<detail::SampleAssembler> group;  // null after a failed open
  TarWarnings before;                            // of earlier readers
  // Only with an index:
  std::optional<detail::ListedReader> by_index;  // as long as all is as the index lists it
  bool plain = false;                            // as far as known, so that it may be read that way
  bool differed = false;                         // the sample was not, and is read anew
  std::size_t cursor = 0;                        // the next sample
  std::size_t last = 0;                          // one past the last wanted sample
  bool lost = false;                             // the tar is not positioned at the cursor's sample
  bool broken = false;
  bool packed = false;  // as far as known
  std::uint64_t lost_samples = 0;
  std::uint64_t refetched = 0;
  bool packed_read_again = false;
  int in_vain = 0;           // consecutive samples that were no better when fetched again
  bool known_plain = false;  // the tar is not compressed
};

void ShardReader::State::begin() {
  plain = plain_by_index();
  if (!plain || !open_as_listed()) open();
}

// False for a shard that ends before the offset: it may be compressed.
bool ShardReader::State::open_as_listed() {
  try {
    by_index.emplace(opener.open(*url, {.offset = options.offset,
                                        .expected = options.expected_bytes,
                                        .stop = options.stop}),
                     url, options);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kTruncated) throw;
    plain = false;
  }
  return plain;
}

void ShardReader::State::open() {
  if (is_parquet(*url)) {
    rows.emplace(opener, url, options);
    return;
  }
  before = warnings();
  known_plain = known_plain || (group && plain_by_index() && group->is_known_plain());
  group.reset();
  group.emplace(opener, url, options);
  if (known_plain) group->set_known_plain();
}

/// The group reader takes over where the other one stands.
void ShardReader::State::go_on(detail::ListedReader& from) {
  options.offset = from.position();
  group.emplace(opener, url, options, from.rest());
  by_index.reset();
}

TarWarnings ShardReader::State::warnings() const {
  TarWarnings all = before;
  if (group) all += group->tar().warnings();
  return all;
}

bool ShardReader::State::next(Sample& sample) {
  lost_samples = 1;
  if (rows) return rows->next(sample);
  if (is_listed()) return next_listed(sample);
  return options.index ? next_indexed(sample) : group->next(sample);
}

bool ShardReader::State::next_listed(Sample& sample) {
  if (cursor == last) {
    check_listed_end();
    return false;
  }
  const IndexedSample& listed = options.index->samples[cursor++];
  sample = {
      .key = listed.key, .url = url, .offset = listed.offset, .passed_bytes = listed.num_bytes};
  return true;
}

// As check_end(), without reading the shard.
void ShardReader::State::check_listed_end() {
  if (last != options.index->samples.size() || std::exchange(lost, true)) return;
  lost_samples = 0;
  check_as_listed(opener, *url, *options.index, options.stop);
}

bool ShardReader::State::next_indexed(Sample& sample) {
  MILLRACE_CHECK(!broken, "a broken shard cannot be read further");
  if (cursor == last) {
    check_end();
    return false;
  }
  const IndexedSample& expected = options.index->samples[cursor];
  try {
    read_expected(sample);
    if (differed && io::is_network_url(*url)) ++refetched;
  } catch (Error& error) {
    error.annotate({.key = expected.key, .offset = expected.offset});
    if (differed || !read_again(sample, error)) {
      if (io::is_network_url(*url)) ++in_vain;
      lose(error);
      if (std::exchange(differed, false)) lost = true;
      throw;
    }
  }
  if (std::exchange(differed, false)) lost = cursor + 1 < last;
  in_vain = 0;
  ++cursor;
  return true;
}

void ShardReader::State::read_expected(Sample& sample) {
  if (lost && plain) {
    options.offset = options.index->samples[cursor].offset;
    lost = !open_as_listed();
  }
  if (by_index && read_as_listed(sample)) return;
  read_indexed(sample);
  detail::check_sample(options.index->samples[cursor], sample, group->passed(),
                       group->header_crcs());
}

// Whether that was possible; the group reader reads it otherwise, and says what is wrong with it:
// from here on, or what seems damaged once more from its beginning.
bool ShardReader::State::read_as_listed(Sample& sample) {
  const auto outcome = try_as_listed(sample);
  if (outcome == detail::ListedReader::Outcome::kRead) return true;
  if (is_known_damaged()) pass_over();
  differed = outcome == detail::ListedReader::Outcome::kDiffers;
  plain = differed;
  if (by_index->position() <= options.index->samples[cursor].offset && !differed) {
    go_on(*by_index);
  } else {
    lost = true;
    by_index.reset();
  }
  return false;
}

// Many samples that differ, as in a shard that was rewritten behind its index, cost no requests.
void ShardReader::State::pass_over() {
  if (auto difference = by_index->pass_over(options.index->samples[cursor]))
    throw Error(*std::move(difference));
}

// A fault of the disk or the network is no damage: once more would be no better.
detail::ListedReader::Outcome ShardReader::State::try_as_listed(Sample& sample) {
  try {
    return by_index->next(options.index->samples[cursor], sample);
  } catch (const Error& error) {
    if (is_damage(error)) return detail::ListedReader::Outcome::kDiffers;
    by_index.reset();
    throw;
  }
}

// Only once for a packed shard, since it must be read from its beginning; and there a flipped bit
// may show up as anything, even as an exceeded limit or an early end.
bool ShardReader::State::may_come_right(const Error& fault) {
  if (!io::is_network_url(*url) || is_known_damaged()) return false;
  packed = packed || (group && group->tar().compressed());
  if (!packed) return fault.code() == ErrorCode::kCorrupt;
  return is_damage(fault) && !std::exchange(packed_read_again, true);
}

// A bit flipped on the network is right the second time; data damaged in storage is not, and then
// its first fault counts.
bool ShardReader::State::read_again(Sample& sample, const Error& fault) {
  if (!may_come_right(fault)) return false;
  lost = true;
  try {
    read_expected(sample);
    ++refetched;
    return true;
  } catch (const Error& second) {
    if (second.code() == ErrorCode::kCancelled) throw;
    return false;
  }
}

// Three faults end the shard: damage in a packed tar, which cannot be skipped; a network or disk
// fault, which would hit the next sample too; and the end of the file.
void ShardReader::State::lose(const Error& error) {
  lost = !stands_at_next();
  packed = packed || (group && group->tar().compressed());
  broken = !is_damage(error) || (packed && !(group && group->can_continue())) ||
           (error.code() == ErrorCode::kTruncated && rest_is_cut_off());
  lost_samples = broken ? last - cursor : 1;
  ++cursor;
}

// Whether the tar is at the sample after the cursor's despite the fault, so that nothing needs to
// be reopened: only payload bytes differed.
bool ShardReader::State::stands_at_next() const {
  if (cursor + 1 >= last) return false;
  const std::uint64_t next = options.index->samples[cursor + 1].offset;
  if (by_index) return by_index->position() == next;
  return group && group->can_continue() && group->position() == next;
}

// Whether the next sample lies past the end of the file. A source that cannot be opened at the
// cursor's sample means the same.
bool ShardReader::State::rest_is_cut_off() const {
  if (cursor + 1 >= last) return false;
  if (!group) return true;
  const auto size = group->tar().size();
  return size && options.index->samples[cursor + 1].offset >= *size;
}

void ShardReader::State::read_indexed(Sample& sample) {
  const std::uint64_t offset = options.index->samples[cursor].offset;
  if (lost || !group) {
    options.offset = offset;
    open();
    lost = false;
  }
  if (!group->next(sample)) {
    if (group->tar().warnings().trailing_data > 0) detail::data_behind_end();
    throw Error(ErrorCode::kTruncated,
                "shard ends " + std::to_string(last - cursor) + " samples before its index does");
  }
}

// Called once, after the last sample of the shard: no more may follow, and the end must be where
// the index says.
void ShardReader::State::check_end() {
  const ShardIndex& index = *options.index;
  if (by_index && last == index.samples.size()) go_on(*by_index);
  if (lost || !group || last != index.samples.size()) return;
  lost = true;
  lost_samples = 0;
  Sample more;
  if (group->next(more)) {
    throw Error(ErrorCode::kCorrupt, "shard holds more samples than its index",
                {.key = more.key, .offset = more.offset});
  }
  detail::check_end(index, group->tar().end_offset(), group->tar().stored_bytes());
}

ShardReader::ShardReader(const io::Opener& opener, const std::string& url,
                         const ShardOptions& options)
    : state_(std::make_unique<State>(opener, url, options)) {
  if (state_->is_listed()) return;
  try {
    state_->begin();
  } catch (Error& error) {
    error.annotate({.url = url});
    throw;
  }
}
ShardReader::~ShardReader() = default;
ShardReader::ShardReader(ShardReader&&) noexcept = default;
ShardReader& ShardReader::operator=(ShardReader&&) noexcept = default;

bool ShardReader::next(Sample& sample) {
  try {
    return state_->next(sample);
  } catch (Error& error) {
    error.annotate({.url = *state_->url});
    throw;
  }
}

bool ShardReader::can_continue() const {
  if (state_->rows) return state_->rows->can_continue();
  return state_->options.index ? !state_->broken : state_->group->can_continue();
}
std::uint64_t ShardReader::lost_samples() const {
  return state_->rows ? state_->rows->lost_samples() : state_->lost_samples;
}

std::uint64_t ShardReader::position() const {
  const State& state = *state_;
  if (state.rows) return state.rows->position();
  if (!state.options.index) return state.group->position();
  const ShardIndex& index = *state.options.index;
  return state.cursor < index.samples.size() ? index.samples[state.cursor].offset : index.end;
}

bool ShardReader::at_end() const {
  if (state_->rows) return state_->rows->at_end();
  return state_->options.index ? state_->cursor == state_->last : state_->group->at_end();
}
bool ShardReader::compressed() const { return state_->group && state_->group->tar().compressed(); }
TarWarnings ShardReader::warnings() const { return state_->warnings(); }
std::uint64_t ShardReader::refetched() const {
  return state_->rows ? state_->rows->refetched() : state_->refetched;
}
const std::vector<std::uint32_t>& ShardReader::header_crcs() const {
  MILLRACE_CHECK(state_->group.has_value(), "a sample was read");
  return state_->group->header_crcs();
}
std::uint64_t ShardReader::end_offset() const {
  MILLRACE_CHECK(state_->group.has_value(), "the shard was read to its end");
  return state_->group->tar().end_offset();
}

}  // namespace millrace::wds
