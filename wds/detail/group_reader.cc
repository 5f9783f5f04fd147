#include "wds/detail/group_reader.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"
#include "wds/member_name.h"

namespace millrace::wds::detail {
namespace {

std::vector<std::string> suffixes_of(const Sample& sample) {
  std::vector<std::string> suffixes;
  for (const Field& field : sample.fields) suffixes.push_back(field.suffix);
  std::sort(suffixes.begin(), suffixes.end());
  return suffixes;
}

}  // namespace

GroupReader::GroupReader(const io::Opener& opener, std::shared_ptr<const std::string> url,
                         const ShardOptions& options)
    : opener_(opener), options_(options), url_(std::move(url)) {
  options_.tar.lenient = options_.lenient;
  auto source = opener.open(*url_, {.offset = options_.offset, .stop = options_.stop});
  tar_ = std::make_unique<TarReader>(std::move(source), options_.tar, options_.offset);
}

std::uint64_t GroupReader::position() const {
  if (!started_) return options_.offset;
  return pending_ && !skip_pending_ ? pending_->member.offset : tar_->position();
}

// An offset in a compressed tar is one in what it unpacks to: read from the beginning, drop the
// rest.
bool GroupReader::reopen_compressed() {
  auto source = opener_.open(*url_, {.stop = options_.stop});
  auto whole = std::make_unique<TarReader>(std::move(source), options_.tar);
  if (!whole->skip_to(options_.offset)) return false;
  tar_ = std::move(whole);
  return true;
}

// Puts the next member that belongs to a sample into pending_, or nothing at the end.
void GroupReader::advance() {
  pending_.reset();
  for (Pending next; next_member(next);) {
    if (!next.fault && !next.member.regular) continue;
    if (!accept(next)) continue;
    // Members of a sample that was dropped already cost nothing more.
    if (dropped_key_ && next.key == *dropped_key_) continue;
    dropped_key_.reset();
    pending_ = std::move(next);
    return;
  }
}

// The next member of the tar; what is wrong with it alone becomes its fault.
bool GroupReader::next_member(Pending& next) {
  next.fault.reset();
  try {
    return tar_->next(next.member);
  } catch (Error& error) {
    if (!tar_->can_continue()) throw;
    next.fault = std::move(error);
    return true;
  }
}

// Whether the member counts; fills in its key and suffix, and finds fault with its name.
bool GroupReader::accept(Pending& next) {
  std::string& path = next.member.name;
  if (is_metadata_member(path)) return false;
  if (options_.rename) path = options_.rename(path);
  if (options_.select && !options_.select(path)) return false;
  const auto name = split_member_name(path);
  next.key = name ? name->key : std::string_view();
  next.suffix = name ? name->suffix : std::string();
  if (!name || next.fault) return next.fault.has_value();
  try {
    check_member_name(path);
  } catch (Error& error) {
    error.annotate({.member = path, .offset = next.member.offset});
    next.fault = std::move(error);
  }
  return true;
}

bool GroupReader::next(Sample& sample) {
  MILLRACE_CHECK(!broken_, "a broken shard cannot go on");
  broken_ = true;  // until this call has come to a good end
  if (!std::exchange(started_, true)) {
    start();
  } else if (std::exchange(skip_pending_, false)) {
    advance();
  }
  const bool found = pending_.has_value();
  if (found) read_sample(sample);
  broken_ = false;
  return found;
}

void GroupReader::start() {
  try {
    advance();
  } catch (const Error& error) {
    const bool final =
        error.code() == ErrorCode::kCancelled || error.code() == ErrorCode::kNotFound;
    if (options_.offset == 0 || final) throw;
    if (!reopen_compressed()) throw;
    advance();
  }
  // Past the packed bytes' end, a lenient reader sees nothing but a missing end marker.
  if (options_.offset > 0 && !pending_ && !tar_->compressed() && reopen_compressed()) advance();
}

void GroupReader::read_sample(Sample& sample) {
  begin(sample);
  do {
    add_field(sample);
    try {
      advance();
    } catch (Error& error) {
      error.annotate({.key = sample.key});
      throw;
    }
  } while (pending_ && pending_->key == sample.key);
  if (!pending_) check_whole(sample);
  if (options_.lenient) last_suffixes_ = suffixes_of(sample);
}

void GroupReader::begin(Sample& sample) {
  sample.key = pending_->key;
  sample.url = url_;
  sample.offset = pending_->member.offset;
  sample.fields.clear();
  header_crcs_.clear();
  // An index knows which keys there are.
  if (options_.index) return;
  const auto before = keys_.insert(sample.key, sample.offset);
  if (!before || options_.lenient) return;
  drop(Error(ErrorCode::kCorrupt,
             "members of one key are not together: its first lies at " + std::to_string(*before),
             {.member = pending_->member.name, .offset = pending_->member.offset}));
}

void GroupReader::add_field(Sample& sample) {
  if (pending_->fault) drop(*pending_->fault);
  if (sample.find(pending_->suffix) != nullptr) {
    drop(Error(ErrorCode::kCorrupt, "suffix '" + pending_->suffix + "' twice in one sample",
               {.member = pending_->member.name, .offset = pending_->member.offset}));
  }
  Field field;
  try {
    field.data = tar_->read_payload();
  } catch (Error& error) {
    error.annotate({.key = sample.key, .offset = pending_->member.offset});
    throw;
  }
  field.suffix = std::move(pending_->suffix);
  field.offset = pending_->member.data_offset;
  sample.fields.push_back(std::move(field));
  if (options_.tar.header_checksums) header_crcs_.push_back(pending_->member.header_crc32);
}

// Throws away the sample that pending_ belongs to; its members still to come will be passed over.
void GroupReader::drop(Error error) {
  error.annotate({.key = pending_->key});
  dropped_key_.reset();
  if (!pending_->key.empty()) dropped_key_ = pending_->key;
  skip_pending_ = true;
  broken_ = false;
  throw Error(std::move(error));
}

// Without an end marker nobody knows whether more members were to come. Lenient readers take the
// last sample when it has the fields that the one before it had.
void GroupReader::check_whole(const Sample& sample) {
  if (tar_->warnings().missing_end == 0 || last_suffixes_.empty()) return;
  if (suffixes_of(sample) == last_suffixes_) return;
  broken_ = false;
  throw Error(ErrorCode::kTruncated, "tar ends without its end marker, within a sample",
              {.key = sample.key, .offset = sample.offset});
}

}  // namespace millrace::wds::detail
