#include "wds/detail/sample_assembler.h"

#include <algorithm>
#include <utility>

#include "io/base/check.h"
#include "wds/member_name.h"

namespace millrace::wds::detail {
SampleAssembler::SampleAssembler(const io::Opener& opener, std::shared_ptr<const std::string> url,
                                 const ShardOptions& options)
    : opener_(opener), options_(options), url_(std::move(url)) {
  options_.tar.lenient = options_.lenient;
  try {
    auto source = opener.open(
        *url_,
        {.offset = options_.offset, .expected = options_.expected_bytes, .stop = options_.stop});
    tar_ = std::make_unique<TarReader>(std::move(source), options_.tar, options_.offset);
  } catch (const Error& error) {
    // The offset may lie beyond the file's end if the shard is compressed.
    if (error.code() != ErrorCode::kTruncated || options_.offset == 0 || !reopen_compressed())
      throw;
  }
}

SampleAssembler::SampleAssembler(const io::Opener& opener, std::shared_ptr<const std::string> url,
                                 const ShardOptions& options,
                                 std::unique_ptr<io::ByteSource> source)
    : opener_(opener), options_(options), url_(std::move(url)), known_plain_(options.offset > 0) {
  options_.tar.lenient = options_.lenient;
  tar_ = std::make_unique<TarReader>(std::move(source), options_.tar, options_.offset);
}

std::uint64_t SampleAssembler::position() const {
  if (!started_) return options_.offset;
  return pending_ && !skip_pending_ ? pending_->member.offset : tar_->position();
}

// Offsets in a compressed tar refer to the unpacked stream: read from the beginning and drop what
// comes before.
bool SampleAssembler::reopen_compressed() {
  if (known_plain_) return false;
  auto source = opener_.open(*url_, {.stop = options_.stop});
  auto whole = std::make_unique<TarReader>(std::move(source), options_.tar);
  known_plain_ = !whole->skip_to(options_.offset);
  if (known_plain_) return false;
  tar_ = std::move(whole);
  return true;
}

// Sets pending_ to the next member that belongs to a sample, or to nullopt at the end.
void SampleAssembler::advance() {
  pending_.reset();
  for (Pending next; next_member(next);) {
    if (!counts(next) || !accept(next)) continue;
    // Members of a sample that was already dropped cost nothing more.
    if (dropped_key_ && next.key == *dropped_key_) continue;
    dropped_key_.reset();
    pending_ = std::move(next);
    return;
  }
}

// Reads the next member of the tar; what is wrong with this member only becomes its `fault`.
bool SampleAssembler::next_member(Pending& next) {
  next.fault.reset();
  try {
    return tar_->next(next.member);
  } catch (Error& error) {
    if (!tar_->can_continue()) throw;
    next.fault = std::move(error);
    return true;
  }
}

// Folders and special files are not fields and are ignored.
bool SampleAssembler::counts(const Pending& next) {
  return next.fault || next.member.kind == MemberKind::kFile ||
         next.member.kind == MemberKind::kHardLink;
}

// Whether the member belongs to a sample. Fills in its key and suffix, and checks its
// name.
bool SampleAssembler::accept(Pending& next) {
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

bool SampleAssembler::next(Sample& sample) {
  MILLRACE_CHECK(!broken_, "a broken shard cannot be read further");
  broken_ = true;  // until this call succeeds
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

void SampleAssembler::start() {
  try {
    advance();
  } catch (const Error& error) {
    const bool final = error.code() == ErrorCode::kCancelled || cannot_be_seen(error);
    if (options_.offset == 0 || final) throw;
    if (!reopen_compressed()) throw;
    advance();
  }
  // An offset past the end of the packed bytes looks like a missing end marker to a lenient reader.
  if (options_.offset > 0 && !pending_ && !tar_->compressed() && reopen_compressed()) advance();
}

void SampleAssembler::read_sample(Sample& sample) {
  begin(sample);
  const std::uint32_t archive = pending_->member.archive;
  do {
    add_field(sample);
    try {
      advance();
    } catch (Error& error) {
      error.annotate({.key = sample.key});
      throw;
    }
  } while (pending_ && pending_->key == sample.key && pending_->member.archive == archive);
  end_sample(sample, archive);
}

// With an index the index decides whether a sample is complete; without one, archive ends need
// extra checks.
void SampleAssembler::end_sample(const Sample& sample, std::uint32_t archive) {
  if (options_.index) return;
  if (!pending_) check_whole(sample);
  if (pending_ && pending_->member.archive != archive) check_archive_end(sample);
  if (options_.lenient || options_.tar.behind_end == BehindEnd::kRead)
    last_suffixes_ = suffixes_of(sample);
}

std::vector<std::string> SampleAssembler::suffixes_of(const Sample& sample) const {
  std::vector<std::string> suffixes;
  for (const Field& field : sample.fields) suffixes.push_back(field.suffix);
  for (const PassedMember& one : passed_) suffixes.push_back(one.member.suffix);
  std::sort(suffixes.begin(), suffixes.end());
  return suffixes;
}

void SampleAssembler::begin(Sample& sample) {
  sample.key = pending_->key;
  sample.url = url_;
  sample.offset = pending_->member.offset;
  sample.fields.clear();
  sample.passed_bytes = 0;
  header_crcs_.clear();
  passed_.clear();
  // With an index, index_check compares the keys.
  if (options_.index) return;
  const auto before = keys_.insert(sample.key, sample.offset);
  if (!before || options_.lenient) return;
  drop(Error(ErrorCode::kCorrupt,
             "members of one key are not together: its first lies at " + std::to_string(*before),
             {.member = pending_->member.name, .offset = pending_->member.offset}));
}

void SampleAssembler::add_field(Sample& sample) {
  if (pending_->fault) drop(*pending_->fault);
  const std::string& suffix = pending_->suffix;
  const bool passed = std::any_of(passed_.begin(), passed_.end(), [&](const PassedMember& one) {
    return one.member.suffix == suffix;
  });
  if (passed || sample.find(suffix) != nullptr) {
    drop(Error(ErrorCode::kCorrupt, "suffix '" + suffix + "' twice in one sample",
               {.member = pending_->member.name, .offset = pending_->member.offset}));
  }
  if (options_.tar.header_checksums) header_crcs_.push_back(pending_->member.header_crc32);
  if (!is_wanted(suffix)) return pass_over(sample);
  LinkResolver::Target target = payload(sample);
  sample.fields.push_back({.suffix = std::move(pending_->suffix),
                           .data = std::move(target.data),
                           .offset = target.offset});
}

bool SampleAssembler::is_wanted(const std::string& suffix) const {
  const auto& wanted = options_.suffixes;
  return wanted.empty() || std::find(wanted.begin(), wanted.end(), suffix) != wanted.end();
}

// Its payload is never read, so that the tar can skip it.
void SampleAssembler::pass_over(Sample& sample) {
  const TarMember& member = pending_->member;
  IndexedMember seen{.suffix = pending_->suffix, .offset = member.data_offset, .size = member.size};
  if (options_.index && member.kind == MemberKind::kHardLink) {
    const LinkResolver::Target target = payload(sample);
    seen.offset = target.offset;
    seen.size = target.data.size();
  }
  sample.passed_bytes += seen.size;
  passed_.push_back({.place = sample.fields.size() + passed_.size(), .member = std::move(seen)});
}

// A payload that cannot be read, in a tar that can continue, costs only its sample.
LinkResolver::Target SampleAssembler::payload(const Sample& sample) {
  const TarMember& member = pending_->member;
  try {
    if (member.kind == MemberKind::kHardLink) return link_target(sample);
    return {.data = tar_->read_payload(), .offset = member.data_offset};
  } catch (Error& error) {
    error.annotate({.key = sample.key, .member = member.name, .offset = member.offset});
    if (!tar_->can_continue() || error.code() == ErrorCode::kCancelled) throw;
    drop(error);
  }
}

// Most links refer to a member of the same sample, which is in memory.
LinkResolver::Target SampleAssembler::link_target(const Sample& sample) {
  const TarMember& link = pending_->member;
  const auto name = split_member_name(link.link);
  if (name && name->key == sample.key && !options_.rename) {
    if (const Field* field = sample.find(name->suffix))
      return {.data = field->data, .offset = field->offset};
  }
  if (!links_) links_ = std::make_unique<LinkResolver>(opener_, *url_, options_.tar, options_.stop);
  return links_->resolve(link);
}

// Drops the sample that pending_ belongs to; its remaining members will be skipped.
void SampleAssembler::drop(Error error) {
  error.annotate({.key = pending_->key});
  dropped_key_.reset();
  if (!pending_->key.empty()) dropped_key_ = pending_->key;
  skip_pending_ = true;
  broken_ = false;
  throw Error(std::move(error));
}

// Without an end marker the last sample may be incomplete. Lenient readers accept it if it has the
// same fields as the one before.
void SampleAssembler::check_whole(const Sample& sample) {
  if (tar_->warnings().missing_end == 0 || last_suffixes_.empty()) return;
  if (suffixes_of(sample) == last_suffixes_) return;
  broken_ = false;
  throw Error(ErrorCode::kTruncated, "tar ends without its end marker, within a sample",
              {.key = sample.key, .offset = sample.offset});
}

// A member whose header and payload are zeros looks like an end marker. So a sample before one
// counts as complete only if it has at least the fields of the sample before it and does not
// continue after it.
void SampleAssembler::check_archive_end(const Sample& sample) {
  const std::vector<std::string> here = suffixes_of(sample);
  const bool whole =
      std::includes(here.begin(), here.end(), last_suffixes_.begin(), last_suffixes_.end());
  if (whole && pending_->key != sample.key) return;
  Error error(ErrorCode::kCorrupt, "an end marker within a sample",
              {.key = sample.key, .offset = sample.offset});
  if (pending_->key == sample.key) drop(std::move(error));
  broken_ = false;
  throw Error(std::move(error));
}

}  // namespace millrace::wds::detail
