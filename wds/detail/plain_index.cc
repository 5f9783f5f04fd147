#include "wds/detail/plain_index.h"

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <system_error>
#include <vector>

#include "io/base/text.h"

namespace millrace::wds::detail {
namespace {

/// Takes tokens from the front; each function returns false if the text has something else.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : next_(text.data()), end_(next_ + text.size()) {}

  bool at_end() const { return next_ == end_; }

  bool literal(std::string_view wanted) {
    if (!std::string_view(next_, left()).starts_with(wanted)) return false;
    next_ += wanted.size();
    return true;
  }

  // JSON has no leading zeros; a sign, fraction or exponent fails at the next token.
  bool number(std::uint64_t& value) {
    if (left() > 1 && next_[0] == '0' && next_[1] >= '0' && next_[1] <= '9') return false;
    const auto [stop, error] = std::from_chars(next_, end_, value);
    next_ = stop;
    return error == std::errc();
  }

  // A string without escapes, so that its characters are its bytes.
  bool text(std::string& value) {
    std::string_view found;
    if (!text(found)) return false;
    value = found;
    return true;
  }

  bool text(std::string_view& found) {
    if (!literal("\"")) return false;
    const char* const begin = next_;
    bool ascii = true;
    for (; next_ != end_ && *next_ != '"'; ++next_) {
      const auto byte = static_cast<unsigned char>(*next_);
      if (byte < 0x20 || byte == '\\') return false;
      ascii = ascii && byte < 0x80;
    }
    found = std::string_view(begin, static_cast<std::size_t>(next_ - begin));
    if (!ascii && !is_utf8(found)) return false;
    return literal("\"");
  }

  bool crc32(std::uint32_t& value) {
    constexpr std::size_t kDigits = 8;
    if (!literal("\"") || left() < kDigits) return false;
    const char* const stop = next_ + kDigits;
    const bool whole = std::from_chars(next_, stop, value, 16).ptr == stop;
    next_ = stop;
    return whole && literal("\"");
  }

  // Anything of the right length in place of ["SUFFIX",OFFSET and of its checksums.
  bool pass_member(std::uint64_t& size) {
    constexpr std::string_view kChecksums = R"(,"00000000","00000000"])";
    std::string_view suffix;
    std::uint64_t offset = 0;
    if (!literal("[") || !text(suffix) || !literal(",") || !number(offset) || !literal(",") ||
        !number(size) || left() < kChecksums.size() || next_[kChecksums.size() - 1] != ']')
      return false;
    next_ += kChecksums.size();
    return true;
  }

 private:
  std::size_t left() const { return static_cast<std::size_t>(end_ - next_); }

  const char* next_;
  const char* end_;
};

bool scan_member(Scanner& in, IndexedMember& member) {
  return in.literal("[") && in.text(member.suffix) && in.literal(",") && in.number(member.offset) &&
         in.literal(",") && in.number(member.size) && in.literal(",") && in.crc32(member.crc32) &&
         in.literal(",") && in.crc32(member.header_crc32) && in.literal("]");
}

bool scan_sample(Scanner& in, IndexParts parts, IndexedSample& sample) {
  if (!in.literal("\n[") || !in.text(sample.key) || !in.literal(",") || !in.number(sample.offset) ||
      !in.literal(",[")) {
    return false;
  }
  do {
    std::uint64_t size = 0;
    if (parts == IndexParts::kSamples) {
      if (!in.pass_member(size)) return false;
    } else {
      IndexedMember& member = sample.members.emplace_back();
      if (!scan_member(in, member)) return false;
      size = member.size;
    }
    sample.num_bytes += size;
  } while (in.literal(","));
  return in.literal("]]");
}

// Most samples have as many members as the one before, so reserve that many. At most kUsual, or one
// large sample would inflate all that follow.
bool scan_samples(Scanner& in, IndexParts parts, std::vector<IndexedSample>& samples) {
  constexpr std::size_t kUsual = 8;
  std::size_t members = 0;
  do {
    IndexedSample& sample = samples.emplace_back();
    sample.members.reserve(members);
    if (!scan_sample(in, parts, sample)) return false;
    members = std::min(sample.members.size(), kUsual);
  } while (in.literal(","));
  return true;
}

bool scan_end(Scanner& in) {
  std::uint32_t seal = 0;
  if (!in.literal("\n]")) return false;
  if (in.literal(",\"crc32\":") && !in.crc32(seal)) return false;
  return in.literal("}\n") && in.at_end();
}

bool scan_head(Scanner& in, ShardIndex& index, std::uint64_t& count) {
  return in.literal("{\"bytes\":") && in.number(index.bytes) && in.literal(",\"count\":") &&
         in.number(count) && in.literal(",\"end\":") && in.number(index.end) &&
         in.literal(",\"millrace_index\":1,\"sha256\":") && in.text(index.sha256) &&
         in.literal(",\"samples\":[");
}

}  // namespace

std::optional<ShardIndex> parse_plain_index(std::string_view text, IndexParts parts) {
  Scanner in(text);
  ShardIndex index;
  std::uint64_t count = 0;
  if (!scan_head(in, index, count)) return {};
  constexpr std::size_t kLeastText = 40;  // of a sample, whatever the count claims
  index.samples.reserve(std::min<std::uint64_t>(count, text.size() / kLeastText));
  if (!scan_samples(in, parts, index.samples)) return {};
  if (!scan_end(in) || count != index.samples.size()) return {};
  return index;
}

}  // namespace millrace::wds::detail
