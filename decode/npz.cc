#include "decode/npz.h"

#include <algorithm>
#include <vector>

#include "decode/detail/inflate.h"
#include "io/base/error.h"
#include "io/base/hash.h"

namespace millrace::decode {
namespace {

constexpr std::string_view kEndMagic = "PK\x05\x06";
constexpr std::string_view kEntryMagic = "PK\x01\x02";
constexpr std::string_view kLocalMagic = "PK\x03\x04";
constexpr std::size_t kEndSize = 22;
constexpr std::size_t kEntrySize = 46;
constexpr std::size_t kLocalSize = 30;
constexpr std::size_t kMaxComment = 0xFFFF;
constexpr std::string_view kSuffix = ".npy";

Error corrupt_npz(const char* what) { return {ErrorCode::kCorrupt, std::string("npz: ") + what}; }

struct Entry {
  std::string_view name;
  unsigned flags = 0;
  unsigned method = 0;
  std::uint32_t crc = 0;
  std::size_t packed = 0;
  std::size_t unpacked = 0;
  std::size_t local = 0;  ///< offset of its local header
};

// Little-endian numbers; every offset is checked.
class Zip {
 public:
  explicit Zip(const io::Bytes& bytes) : text_(bytes.text()) {}

  std::size_t number(std::size_t at, std::size_t size) const {
    const std::string_view digits = part(at, size);
    std::size_t value = 0;
    for (std::size_t i = size; i-- > 0;) value = value << 8 | static_cast<unsigned char>(digits[i]);
    return value;
  }

  std::string_view part(std::size_t at, std::size_t size) const {
    if (at > text_.size() || text_.size() - at < size) {
      throw Error(ErrorCode::kTruncated, "npz: it ends before it should");
    }
    return text_.substr(at, size);
  }

  /// Offset of the end record. It may be followed by a comment of up to 64 KiB.
  std::size_t end_record() const {
    if (text_.size() < kEndSize) throw Error(ErrorCode::kTruncated, "npz: it has no directory");
    const std::size_t last = text_.size() - kEndSize;
    const std::size_t at = text_.rfind(kEndMagic, last);
    if (at == std::string_view::npos || last - at > kMaxComment) {
      throw Error(ErrorCode::kTruncated, "npz: it has no directory");
    }
    return at;
  }

 private:
  std::string_view text_;
};

Entry entry_at(const Zip& zip, std::size_t at) {
  if (zip.part(at, 4) != kEntryMagic) throw corrupt_npz("its directory is damaged");
  const Entry entry{.name = zip.part(at + kEntrySize, zip.number(at + 28, 2)),
                    .flags = static_cast<unsigned>(zip.number(at + 8, 2)),
                    .method = static_cast<unsigned>(zip.number(at + 10, 2)),
                    .crc = static_cast<std::uint32_t>(zip.number(at + 16, 4)),
                    .packed = zip.number(at + 20, 4),
                    .unpacked = zip.number(at + 24, 4),
                    .local = zip.number(at + 42, 4)};
  if (entry.packed == 0xFFFFFFFF || entry.unpacked == 0xFFFFFFFF || entry.local == 0xFFFFFFFF) {
    throw Error(ErrorCode::kUnsupported, "npz of more than 4 GiB (zip64)");
  }
  return entry;
}

std::vector<Entry> directory(const Zip& zip) {
  const std::size_t end = zip.end_record();
  const std::size_t count = zip.number(end + 10, 2);
  std::size_t at = zip.number(end + 16, 4);
  std::vector<Entry> entries;
  for (std::size_t i = 0; i < count; ++i) {
    entries.push_back(entry_at(zip, at));
    at += kEntrySize + entries.back().name.size() + zip.number(at + 30, 2) + zip.number(at + 32, 2);
  }
  return entries;
}

std::string_view array_name(std::string_view name) {
  return name.ends_with(kSuffix) ? name.substr(0, name.size() - kSuffix.size()) : name;
}

io::Bytes unpack(const io::Bytes& archive, const Zip& zip, const Entry& entry,
                 const Limits& limits) {
  if ((entry.flags & 1) != 0) throw Error(ErrorCode::kUnsupported, "npz: an encrypted member");
  if (zip.part(entry.local, 4) != kLocalMagic)
    throw corrupt_npz("a member is not where it should be");
  const std::size_t data =
      entry.local + kLocalSize + zip.number(entry.local + 26, 2) + zip.number(entry.local + 28, 2);
  zip.part(data, entry.packed);  // checks that all of it is present
  io::Bytes packed = archive.slice(data, entry.packed);
  if (entry.method == 0) return packed;
  if (entry.method != 8) throw Error(ErrorCode::kUnsupported, "npz: an unknown compression");
  return io::Bytes::take(detail::inflate_all(packed.span(), detail::Packing::kDeflate, limits));
}

NpyArray array_of(const io::Bytes& archive, const Zip& zip, const Entry& entry,
                  const Limits& limits) {
  const io::Bytes member = unpack(archive, zip, entry, limits);
  if (member.size() != entry.unpacked || crc32(member.span()) != entry.crc) {
    throw corrupt_npz("a member contradicts its checksum");
  }
  return parse_npy(member);
}

}  // namespace

NpyArray npz_array(const io::Bytes& archive, std::string_view name, const Limits& limits) {
  const Zip zip(archive);
  const std::vector<Entry> entries = directory(zip);
  const auto entry = std::find_if(entries.begin(), entries.end(), [&](const Entry& candidate) {
    return array_name(candidate.name) == name;
  });
  if (entry == entries.end()) {
    throw Error(ErrorCode::kNotFound, "npz without an array named " + std::string(name));
  }
  return array_of(archive, zip, *entry, limits);
}

std::map<std::string, NpyArray> npz_arrays(const io::Bytes& archive, const Limits& limits) {
  const Zip zip(archive);
  std::map<std::string, NpyArray> arrays;
  Limits left = limits;  // many members may share the same packed bytes
  for (const Entry& entry : directory(zip)) {
    left.max_unpacked_bytes -= static_cast<std::int64_t>(entry.unpacked);
    if (left.max_unpacked_bytes < 0) {
      throw Error(ErrorCode::kExhausted, "npz: its members unpack to more than the limit");
    }
    // The actual size is compared with the claimed one later; here the claim is the limit.
    const Limits own{.max_unpacked_bytes = static_cast<std::int64_t>(entry.unpacked),
                     .max_ratio = limits.max_ratio};
    arrays.insert_or_assign(std::string(array_name(entry.name)),
                            array_of(archive, zip, entry, own));
  }
  return arrays;
}

}  // namespace millrace::decode
