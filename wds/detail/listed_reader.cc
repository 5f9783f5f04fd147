#include "wds/detail/listed_reader.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "io/base/hash.h"
#include "wds/detail/header_blocks.h"
#include "wds/detail/index_check.h"
#include "wds/detail/unpack.h"
#include "wds/member_name.h"

namespace millrace::wds::detail {
namespace {

// Up to here a sample is copied from the tape's buffer; a larger one is read into its own memory.
constexpr std::uint64_t kMostCopied = std::uint64_t{32} * 1024;
// Whatever an index lists, sums of offsets and sizes do not overflow.
constexpr std::uint64_t kMaxOffset = std::uint64_t{1} << 60;

/// Where the padding of a member ends.
std::uint64_t padded_end(const IndexedMember& member) {
  return padded_size(member.offset + member.size);
}

/// Each of one header block, next to each other, with suffixes of their own.
bool are_adjacent(const IndexedSample& listed, std::uint64_t max_member_bytes) {
  std::uint64_t end = listed.offset;
  for (auto member = listed.members.begin(); member != listed.members.end(); ++member) {
    const bool fits = end <= kMaxOffset && member->offset == end + kBlockBytes &&
                      member->size <= std::min(max_member_bytes, kMaxOffset);
    const bool twice = std::any_of(listed.members.begin(), member, [&](const auto& before) {
      return before.suffix == member->suffix;
    });
    if (!fits || twice) return false;
    end = padded_end(*member);
  }
  return !listed.members.empty();
}

bool is_name_of(std::string_view path, std::string_view key, std::string_view suffix) {
  const auto name = split_member_name(path);
  return name && name->key == key && name->suffix == suffix && !is_metadata_member(path);
}

bool describes(std::span<const std::byte> block, std::string_view key,
               const IndexedMember& member) {
  const auto header = parse_plain_header(block);
  if (!header || header->size != member.size) return false;
  if (header->prefix.empty()) return is_name_of(header->name, key, member.suffix);
  std::string path(header->prefix);
  if (!path.ends_with('/')) path += '/';
  path += header->name;
  return is_name_of(path, key, member.suffix);
}

std::span<const std::byte> payload_in(std::span<const std::byte> sample,
                                      const IndexedSample& listed, const IndexedMember& member) {
  return sample.subspan(member.offset - listed.offset, member.size);
}

// An empty payload holds on to nothing.
void add_field(const IndexedMember& member, io::Bytes data, Sample& sample) {
  sample.fields.push_back({.suffix = member.suffix,
                           .data = data.empty() ? io::Bytes() : std::move(data),
                           .offset = member.offset});
}

/// The rest of a tape, as a source.
class RestOfTape final : public io::ByteSource {
 public:
  explicit RestOfTape(std::unique_ptr<Tape> tape) : tape_(std::move(tape)) {}

  std::size_t read(std::span<std::byte> into) override { return tape_->read_some(into); }
  bool skip(std::uint64_t bytes) override {
    tape_->skip(bytes);
    return true;
  }
  std::uint64_t position() const override { return tape_->position(); }
  std::optional<std::uint64_t> size() const override { return tape_->source().size(); }
  std::string version() const override { return tape_->source().version(); }
  const std::string& url() const override { return tape_->source().url(); }

 private:
  std::unique_ptr<Tape> tape_;
};

}  // namespace

ListedReader::ListedReader(std::unique_ptr<io::ByteSource> source,
                           std::shared_ptr<const std::string> url, const ShardOptions& options)
    : tape_(std::make_unique<Tape>(std::move(source), options.offset, options.tar.buffer_bytes)),
      url_(std::move(url)),
      suffixes_(options.suffixes),
      max_member_bytes_(options.tar.max_member_bytes) {}

bool ListedReader::may_read(const ShardIndex& index) {
  return index.bytes % kBlockBytes == 0 && index.bytes > index.end;
}

std::unique_ptr<io::ByteSource> ListedReader::rest() {
  return std::make_unique<RestOfTape>(std::move(tape_));
}

bool ListedReader::is_wanted(const IndexedMember& member) const {
  return suffixes_.empty() ||
         std::find(suffixes_.begin(), suffixes_.end(), member.suffix) != suffixes_.end();
}

bool ListedReader::is_plain(const IndexedSample& listed) {
  if (listed.offset != tape_->position() || !are_adjacent(listed, max_member_bytes_)) return false;
  return tape_->position() > 0 || !is_compressed(*tape_);
}

ListedReader::Outcome ListedReader::next(const IndexedSample& listed, Sample& sample) {
  // Its memory is free for the next one.
  sample.fields.clear();
  difference_.reset();
  if (!is_plain(listed)) return Outcome::kNotPlain;
  const std::uint64_t num_bytes = padded_end(listed.members.back()) - listed.offset;
  if (num_bytes <= kMostCopied) return copy(listed, num_bytes, sample);
  // Some sources know their size only once they are read.
  if (!tape_->remaining()) tape_->peek(1);
  const auto left = tape_->remaining();
  const bool wants_all = std::ranges::all_of(
      listed.members, [&](const IndexedMember& member) { return is_wanted(member); });
  if (!left || !wants_all) return Outcome::kNotPlain;
  return num_bytes > *left ? Outcome::kDiffers : take(listed, num_bytes, sample);
}

ListedReader::Outcome ListedReader::compare(const IndexedSample& listed,
                                            std::span<const std::byte> bytes) {
  for (const IndexedMember& member : listed.members) {
    const auto payload = payload_in(bytes, listed, member);
    const auto header = bytes.subspan(member.offset - listed.offset - kBlockBytes, kBlockBytes);
    if (crc32(header) != member.header_crc32) return differ(listed, member, "CRC-32 of the header");
    if (!describes(header, listed.key, member)) return Outcome::kNotPlain;
    if (is_wanted(member) && crc32(payload) != member.crc32)
      return differ(listed, member, "CRC-32");
  }
  return Outcome::kRead;
}

ListedReader::Outcome ListedReader::differ(const IndexedSample& listed, const IndexedMember& member,
                                           const char* what) {
  difference_ = unlike_index(what, listed.key + "." + member.suffix, member.offset);
  return Outcome::kDiffers;
}

// The bytes of a small sample are still in the tape.
std::optional<Error> ListedReader::pass_over(const IndexedSample& listed) {
  if (difference_) tape_->skip(padded_end(listed.members.back()) - tape_->position());
  return std::exchange(difference_, std::nullopt);
}

ListedReader::Outcome ListedReader::copy(const IndexedSample& listed, std::size_t num_bytes,
                                         Sample& sample) {
  const auto bytes = tape_->peek(num_bytes);
  if (bytes.size() < num_bytes) return Outcome::kDiffers;
  const Outcome outcome = compare(listed, bytes);
  if (outcome != Outcome::kRead) return outcome;
  begin(listed, sample);
  copy_payloads(listed, bytes, sample);
  tape_->consume(num_bytes);
  return outcome;
}

ListedReader::Outcome ListedReader::take(const IndexedSample& listed, std::size_t num_bytes,
                                         Sample& sample) {
  const auto owner = std::make_shared_for_overwrite<std::byte[]>(num_bytes);
  const std::span<std::byte> bytes(owner.get(), num_bytes);
  tape_->read(bytes);
  const Outcome outcome = compare(listed, bytes);
  if (outcome != Outcome::kRead) return outcome;
  begin(listed, sample);
  for (const IndexedMember& member : listed.members)
    add_field(member, io::Bytes(payload_in(bytes, listed, member), owner), sample);
  return outcome;
}

void ListedReader::begin(const IndexedSample& listed, Sample& sample) const {
  sample.key = listed.key;
  sample.url = url_;
  sample.offset = listed.offset;
  sample.passed_bytes = 0;
  sample.fields.reserve(listed.members.size());
}

// One allocation holds all payloads, each of which begins where an allocation of its own might.
void ListedReader::copy_payloads(const IndexedSample& listed, std::span<const std::byte> bytes,
                                 Sample& sample) const {
  constexpr std::uint64_t kAlignment = __STDCPP_DEFAULT_NEW_ALIGNMENT__;
  const auto aligned = [](std::uint64_t size) {
    return (size + kAlignment - 1) / kAlignment * kAlignment;
  };
  std::size_t total = 0;
  for (const IndexedMember& member : listed.members)
    if (is_wanted(member)) total += aligned(member.size);
  const auto owner = std::make_shared_for_overwrite<std::byte[]>(total);
  std::byte* next = owner.get();
  for (const IndexedMember& member : listed.members) {
    if (!is_wanted(member)) {
      sample.passed_bytes += member.size;
      continue;
    }
    const auto payload = payload_in(bytes, listed, member);
    std::ranges::copy(payload, next);
    add_field(member, io::Bytes(std::span(next, payload.size()), owner), sample);
    next += aligned(payload.size());
  }
}

}  // namespace millrace::wds::detail
