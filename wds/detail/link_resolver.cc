#include "wds/detail/link_resolver.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "io/base/error.h"
#include "io/local_path.h"

namespace millrace::wds::detail {
namespace {

// A small tar may contain a million links to one large member; this much may always be read again.
constexpr std::uint64_t kFreeLinkBytes = std::uint64_t{64} * 1024 * 1024;

std::uint64_t hash_of(const std::string& name) { return std::hash<std::string>{}(name); }

}  // namespace

LinkResolver::LinkResolver(const io::Opener& opener, std::string url, const TarOptions& options,
                           std::stop_token stop)
    : opener_(opener), url_(std::move(url)), options_(options), stop_(std::move(stop)) {
  options_.header_checksums = false;
}
LinkResolver::~LinkResolver() = default;

LinkResolver::Target LinkResolver::resolve(const TarMember& link) {
  if (io::is_read_once(url_)) {  // opening a FIFO again would wait for another writer
    throw Error(ErrorCode::kUnsupported,
                "hard link to " + link.link + ", in a stream that cannot be read twice");
  }
  scan_to(link.offset);
  const auto found = headers_.find(hash_of(link.link));
  if (found == headers_.end()) {
    throw Error(ErrorCode::kCorrupt,
                "hard link to " + link.link + ", which is not an earlier member");
  }
  if (last_header_ != found->second) {
    last_header_.reset();
    last_ = read(link, found->second);
    last_header_ = found->second;
  }
  return last_;
}

std::unique_ptr<TarReader> LinkResolver::open_at(std::uint64_t offset) const {
  return std::make_unique<TarReader>(opener_.open(url_, {.offset = offset, .stop = stop_}),
                                     options_, offset);
}

// Notes the members before `offset`. The scan ends at damage: the main reader has reported it or
// skipped past it.
void LinkResolver::scan_to(std::uint64_t offset) {
  if (!scan_) scan_ = open_at(0);
  try {
    for (TarMember member; !ahead_ && scan_->can_continue() && scan_->next(member);) {
      if (member.offset >= offset)
        ahead_ = member;
      else
        note(member);
    }
  } catch (const Error& error) {
    if (error.code() == ErrorCode::kCancelled) throw;
  }
  if (!ahead_ || ahead_->offset >= offset) return;
  note(*std::exchange(ahead_, std::nullopt));
  scan_to(offset);
}

void LinkResolver::note(const TarMember& member) {
  if (member.kind == MemberKind::kFile) headers_[hash_of(member.name)] = member.offset;
  if (member.kind != MemberKind::kHardLink) return;
  const auto target = headers_.find(hash_of(member.link));
  if (target != headers_.end()) headers_[hash_of(member.name)] = target->second;
}

void LinkResolver::spend(std::uint64_t bytes, std::uint64_t seen) {
  spent_ += bytes;
  const std::uint64_t most = std::max(kFreeLinkBytes, seen * options_.max_expansion);
  if (spent_ <= most) return;
  throw Error(ErrorCode::kExhausted, "hard links: more than " + std::to_string(most) +
                                         " bytes would be read again for them");
}

LinkResolver::Target LinkResolver::read(const TarMember& link, std::uint64_t offset) {
  const bool packed = scan_->compressed();
  auto tar = open_at(packed ? 0 : offset);
  if (packed) {
    spend(offset, link.offset);
    tar->skip_to(offset);
  }
  TarMember member;
  const bool found = tar->next(member);
  // Only hashes of names are kept, and a link to a link has another name.
  if (!found || member.kind != MemberKind::kFile || member.offset != offset) {
    throw Error(ErrorCode::kCorrupt,
                "hard link to " + link.link + ", which is not an earlier member");
  }
  spend(member.size, link.offset);
  return {.data = tar->read_payload(), .offset = member.data_offset};
}

}  // namespace millrace::wds::detail
