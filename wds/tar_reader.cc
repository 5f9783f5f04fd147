#include "wds/tar_reader.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/base/check.h"
#include "io/base/error.h"
#include "wds/detail/header_blocks.h"
#include "wds/detail/header_reader.h"
#include "wds/detail/tape.h"
#include "wds/detail/unpack.h"

namespace millrace::wds {
namespace {

using detail::kBlockBytes;

// Above this size, a payload whose claimed size cannot be verified is grown as its bytes arrive.
constexpr std::size_t kTrustedBytes = std::size_t{1024} * 1024;
// A large payload is read along with the padding and the headers behind it, and small members such
// as labels between them, into memory at its own end: at most a sixteenth more than it needs.
std::size_t room_behind(std::size_t size) {
  constexpr std::size_t kMost = 4096;
  return size < detail::Tape::kDirectBytes ? 0 : std::min(kMost, size / 16);
}
// Writers pad with zeros to a blocking factor; more than this is not padding.
constexpr std::uint64_t kMaxPadding = std::uint64_t{64} * 1024 * 1024;

bool holds_file(char type) { return type == '0' || type == '\0' || type == '7'; }

// pax allows a hard link to carry its target's bytes: then it is an ordinary file.
MemberKind kind_of(const detail::Header& header, char type) {
  if (!header.link.empty()) return header.size > 0 ? MemberKind::kFile : MemberKind::kHardLink;
  if (header.folder) return MemberKind::kFolder;
  return header.regular && holds_file(type) ? MemberKind::kFile : MemberKind::kOther;
}

}  // namespace

TarWarnings& TarWarnings::operator+=(const TarWarnings& more) {
  if (ignored_members == 0) first_ignored = more.first_ignored;
  missing_end += more.missing_end;
  trailing_data += more.trailing_data;
  ignored_members += more.ignored_members;
  unguarded += more.unguarded;
  return *this;
}

struct TarReader::State {
  State(std::unique_ptr<io::ByteSource> source, const TarOptions& wanted, std::uint64_t start)
      : options(wanted),
        tape(std::make_unique<detail::Tape>(std::move(source), start, wanted.buffer_bytes)) {}

  bool next(TarMember& member);
  io::Bytes read_payload();
  void unpack();
  void open();
  bool next_header(detail::Header& header);
  bool next_archive();
  detail::HeaderFacts inspect(const detail::Header& found) const;
  void check_claim(const detail::Header& found) const;
  void check_member(const detail::Header& found, TarMember& member);
  bool at_end_marker();
  bool end_without_marker(const std::string& message, std::uint64_t offset);
  bool padding_ends();
  std::optional<std::uint64_t> stored_bytes();
  io::Bytes grown_payload(std::size_t size);

  TarOptions options;
  TarWarnings warnings;
  std::unique_ptr<detail::Tape> tape;
  std::unique_ptr<detail::HeaderReader> headers;
  detail::Header header;
  std::uint64_t end_offset = 0;
  std::uint64_t unread = 0;   // payload bytes of the current member
  std::uint32_t archive = 0;  // number of the current archive
  bool compressed = false;
  bool broken = false;
  bool ended = false;
};

void TarReader::State::unpack() {
  if (compressed || tape->position() != 0 || !detail::is_compressed(*tape)) return;
  compressed = true;
  tape = std::make_unique<detail::Tape>(
      detail::unpack(std::move(tape), {.max_expansion = options.max_expansion,
                                       .max_window = options.max_window_bytes}),
      0);
}

void TarReader::State::open() {
  unpack();
  const std::uint64_t start = tape->position();
  const auto first = tape->peek(kBlockBytes);
  if (first.size() < kBlockBytes && start == 0) {
    throw Error(ErrorCode::kTruncated, "not a tar but " + detail::describe_start(first),
                {.offset = 0});
  }
  headers = std::make_unique<detail::HeaderReader>(*tape, options.header_checksums);
}

bool TarReader::State::next_header(detail::Header& wanted) {
  try {
    return headers->next(wanted);
  } catch (Error& error) {
    // What libarchive does not recognise at the first block is not a tar.
    if (error.code() == ErrorCode::kCorrupt && error.where().offset == 0) {
      throw Error(ErrorCode::kCorrupt, "not a tar but " + detail::describe_start(tape->region()),
                  {.offset = 0});
    }
    throw;
  }
}

bool TarReader::State::next(TarMember& member) {
  MILLRACE_CHECK(!broken, "a broken tar cannot be read further");
  if (ended) return false;
  broken = true;  // until this call succeeds
  if (!headers) open();
  while (!next_header(header)) {
    if (!at_end_marker() || !next_archive()) {
      ended = true;
      broken = false;
      return false;
    }
  }
  check_member(header, member);
  broken = false;
  return true;
}

// There is no further header: this is the end only if there are two zero blocks.
bool TarReader::State::at_end_marker() {
  const auto seen = tape->region();
  const std::uint64_t here = tape->position() - seen.size();
  end_offset = here;
  if (seen.empty()) return end_without_marker("tar ends without its end marker", here);
  if (seen.size() < 2 * kBlockBytes) {
    return end_without_marker("tar ends inside its end marker", here);
  }
  if (!detail::is_zero(seen)) {
    throw Error(ErrorCode::kCorrupt, "tar: a zero header block before more data", {.offset = here});
  }
  return true;
}

bool TarReader::State::end_without_marker(const std::string& message, std::uint64_t offset) {
  if (!options.lenient) throw Error(ErrorCode::kTruncated, message, {.offset = offset});
  ++warnings.missing_end;
  return false;
}

// After an end marker: whether another archive follows and is to be read.
bool TarReader::State::next_archive() {
  tape->end_region();
  if (padding_ends()) return false;
  if (options.behind_end == BehindEnd::kFault) {
    detail::data_behind_end(tape->position());
  }
  if (options.behind_end == BehindEnd::kCount) {
    ++warnings.trailing_data;
    return false;
  }
  ++archive;
  headers = std::make_unique<detail::HeaderReader>(*tape, options.header_checksums);
  return true;
}

// Skips the zeros after an end marker; returns false if anything but the end follows.
bool TarReader::State::padding_ends() {
  for (std::uint64_t skipped = 0; skipped < kMaxPadding; skipped += kBlockBytes) {
    const auto block = tape->peek(kBlockBytes);
    if (block.empty()) return true;
    if (!detail::is_zero(block)) return false;
    tape->consume(block.size());
  }
  return false;
}

detail::HeaderFacts TarReader::State::inspect(const detail::Header& found) const {
  try {
    return detail::inspect_header(tape->region());
  } catch (Error& error) {
    error.annotate({.member = found.name, .offset = found.offset});
    throw;
  }
}

void TarReader::State::check_member(const detail::Header& found, TarMember& member) {
  const detail::HeaderFacts facts = found.plain ? detail::HeaderFacts() : inspect(found);
  // libarchive composes what is decomposed Unicode in a pax header; keys are bytes.
  member.name = facts.name.empty() ? found.name : facts.name;
  member.offset = found.offset;
  member.data_offset = tape->position();
  member.size = found.size;
  member.header_crc32 = found.crc32;
  member.archive = archive;
  member.kind = kind_of(found, facts.type);
  member.link = found.link.empty() || facts.link.empty() ? found.link : facts.link;
  unread = found.size;
  const auto fail = [&](ErrorCode code, const std::string& message) {
    throw Error(code, message, {.member = found.name, .offset = found.offset});
  };
  // A sparse member's size is its expanded size, so it is not known where it ends.
  if (facts.sparse) fail(ErrorCode::kUnsupported, "sparse member");
  check_claim(found);
  broken = false;  // faults from here on cost only this member
  if (!facts.fault.empty()) fail(ErrorCode::kCorrupt, facts.fault);
  if (!found.plain && !found.warning.empty()) fail(ErrorCode::kCorrupt, found.warning);
  if (member.kind == MemberKind::kOther && warnings.ignored_members++ == 0)
    warnings.first_ignored = member.name;
}

// A claimed size must not exceed what can still follow.
void TarReader::State::check_claim(const detail::Header& found) const {
  const auto refuse = [&](ErrorCode code, const std::string& reason) {
    throw Error(code, "member claims " + std::to_string(found.size) + " bytes, but " + reason,
                {.member = found.name, .offset = found.offset});
  };
  if (const auto left = tape->remaining(); left && found.size > *left)
    refuse(ErrorCode::kTruncated, std::to_string(*left) + " are left");
  if (!compressed) return;
  const auto most = detail::most_bytes(tape->source());
  if (most && found.size > *most - std::min(*most, tape->position()))
    refuse(ErrorCode::kExhausted, "the shard may unpack to " + std::to_string(*most) + ", " +
                                      std::to_string(options.max_expansion) + " times its size");
}

// An unpacking source counts its packed bytes; for an uncompressed tar it is the tape's position.
std::optional<std::uint64_t> TarReader::State::stored_bytes() {
  if (!tape->peek(1).empty()) return {};
  return compressed ? detail::packed_bytes(tape->source()) : tape->position();
}

io::Bytes TarReader::State::read_payload() {
  if (unread > options.max_member_bytes) {
    throw Error(ErrorCode::kExhausted, "member of " + std::to_string(unread) +
                                           " bytes is larger than the limit of " +
                                           std::to_string(options.max_member_bytes));
  }
  const auto size = static_cast<std::size_t>(std::exchange(unread, 0));
  if (size == 0) return {};
  broken = true;
  io::Bytes payload;
  if (size <= kTrustedBytes || tape->remaining()) {
    const std::size_t room = size + room_behind(size);
    auto owner = std::make_shared_for_overwrite<std::byte[]>(room);
    tape->read({owner.get(), room}, size);
    const std::span<const std::byte> view(owner.get(), size);
    payload = io::Bytes(view, std::move(owner));
  } else {
    payload = grown_payload(size);
  }
  headers->took_payload();
  broken = false;
  return payload;
}

io::Bytes TarReader::State::grown_payload(std::size_t size) {
  std::vector<std::byte> data;
  for (std::size_t used = 0; used < size; used = data.size()) {
    data.resize(std::min(size, std::max(kTrustedBytes, used * 2)));
    tape->read(std::span(data).subspan(used));
  }
  return io::Bytes::take(std::move(data));
}

TarReader::TarReader(std::unique_ptr<io::ByteSource> source, const TarOptions& options,
                     std::uint64_t start)
    : state_(std::make_unique<State>(std::move(source), options, start)) {}
TarReader::~TarReader() = default;
TarReader::TarReader(TarReader&&) noexcept = default;
TarReader& TarReader::operator=(TarReader&&) noexcept = default;

bool TarReader::next(TarMember& member) { return state_->next(member); }

io::Bytes TarReader::read_payload() {
  try {
    return state_->read_payload();
  } catch (Error& error) {
    error.annotate({.member = state_->header.name});
    throw;
  }
}

bool TarReader::skip_to(std::uint64_t offset) {
  state_->unpack();
  if (!state_->compressed) return false;
  state_->tape->skip(offset);
  return true;
}

bool TarReader::can_continue() const { return !state_->broken; }
TarWarnings TarReader::warnings() const {
  TarWarnings all = state_->warnings;
  if (state_->compressed) all.unguarded = detail::unguarded_frames(state_->tape->source());
  return all;
}
bool TarReader::compressed() const { return state_->compressed; }
std::uint64_t TarReader::position() const { return state_->tape->position(); }
std::uint64_t TarReader::end_offset() const { return state_->end_offset; }
std::optional<std::uint64_t> TarReader::stored_bytes() const { return state_->stored_bytes(); }
std::optional<std::uint64_t> TarReader::size() const {
  return state_->compressed ? std::nullopt : state_->tape->source().size();
}

}  // namespace millrace::wds
