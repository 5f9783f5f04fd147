#include "wds/detail/header_blocks.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string_view>
#include <vector>

#include "io/base/error.h"

namespace millrace::wds::detail {
namespace {

constexpr std::size_t kMaxExtensionBytes = std::size_t{1024} * 1024;

[[noreturn]] void corrupt_header(const std::string& message) {
  throw Error(ErrorCode::kCorrupt, message);
}

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

// An extension's size: octal, as all writers write it; GNU tar's volume label has zero bytes for
// none. (The member's own size is parsed by libarchive.)
std::uint64_t extension_size(std::string_view block) {
  std::string_view field = block.substr(124, 12);
  if (field.find_first_not_of('\0') == field.npos) return 0;
  field.remove_prefix(std::min(field.find_first_not_of(' '), field.size()));
  std::uint64_t size = 0;
  const auto result = std::from_chars(field.data(), field.data() + field.size(), size, 8);
  if (result.ec != std::errc()) corrupt_header("tar: an extension header's size is not a number");
  if (size > kMaxExtensionBytes) corrupt_header("tar: an extension header is larger than 1 MiB");
  return size;
}

struct PaxRecord {
  std::string_view key, value;
};

// Removes "LENGTH KEY=VALUE " from the front of `body`; nullopt if it is malformed.
std::optional<PaxRecord> take_record(std::string_view& body) {
  std::size_t length = 0;
  const auto number = std::from_chars(body.data(), body.data() + body.size(), length);
  const auto digits = static_cast<std::size_t>(number.ptr - body.data());
  if (number.ec != std::errc() || digits == 0 || length > body.size() || length < digits + 4) {
    return {};
  }
  const std::string_view record = body.substr(0, length);
  const std::size_t equals = record.find('=', digits);
  if (record[digits] != ' ' || record.back() != '\n' || equals == std::string_view::npos) return {};
  body.remove_prefix(length);
  return PaxRecord{record.substr(digits + 1, equals - digits - 1),
                   record.substr(equals + 1, length - equals - 2)};
}

bool is_text_key(std::string_view key) {
  return key == "path" || key == "linkpath" || key == "uname" || key == "gname";
}
bool is_sparse_key(std::string_view key) {
  return key.starts_with("GNU.sparse.") || key == "SCHILY.realsize" || key == "SUN.holesdata";
}

// Of several extensions the outermost counts, as for libarchive; an empty value sets nothing.
void take_name(std::string_view value, std::string& name) {
  if (name.empty()) name.assign(value);
}

void inspect_pax(std::string_view body, char type, HeaderFacts& facts) {
  std::vector<std::string_view> keys;
  while (!body.empty()) {
    const auto record = take_record(body);
    if (!record) {
      facts.fault = "malformed pax record";
      return;
    }
    const auto [key, value] = *record;
    if (is_sparse_key(key)) facts.sparse = true;
    if (type != 'g' && key == "path") take_name(value, facts.name);
    if (type != 'g' && key == "linkpath") take_name(value, facts.link);
    if (is_text_key(key) && value.find('\0') != std::string_view::npos) {
      facts.fault = "pax " + std::string(key) + " holds a NUL";
    }
    if (type == 'g' && (key == "path" || key == "size")) {
      facts.fault = "global pax header sets every member's " + std::string(key);
    }
    keys.push_back(key);
  }
  std::sort(keys.begin(), keys.end());
  const auto twice = std::adjacent_find(keys.begin(), keys.end());
  if (twice != keys.end() && !facts.sparse) {
    facts.fault = "pax record " + std::string(*twice) + " occurs twice";
  }
}

// A GNU long name may end with NULs but not contain one.
void inspect_long_name(std::string_view body, HeaderFacts& facts, std::string& name) {
  const std::size_t end = body.find('\0');
  if (end != std::string_view::npos &&
      body.find_first_not_of('\0', end) != std::string_view::npos) {
    facts.fault = "member's name holds a NUL";
  }
  take_name(body.substr(0, end), name);
}

bool is_extension(char type) {
  return type == 'x' || type == 'X' || type == 'g' || type == 'L' || type == 'K' || type == 'A' ||
         type == 'V';
}

// An octal field, terminated by NUL or space; nullopt if it contains anything else.
std::optional<std::uint64_t> octal(std::string_view field, std::size_t digits) {
  std::uint64_t value = 0;
  for (const char c : field.substr(0, digits)) {
    if (c < '0' || c > '7') return {};
    value = value * 8 + static_cast<std::uint64_t>(c - '0');
  }
  const char end = field[digits];
  if (end != '\0' && end != ' ') return {};
  return value;
}

// The checksum is the sum of all bytes, with its own field counted as spaces.
bool checksum_is_right(std::string_view block) {
  constexpr std::size_t kField = 148;
  constexpr std::size_t kWidth = 8;
  std::uint32_t sum = 0;
  for (const char c : block) sum += static_cast<std::uint8_t>(c);
  for (const char c : block.substr(kField, kWidth)) sum -= static_cast<std::uint8_t>(c);
  sum += kWidth * ' ';
  const char last = block[kField + kWidth - 1];
  return (last == ' ' || last == '\0') && octal(block.substr(kField, kWidth), 6) == sum;
}

std::string_view until_nul(std::string_view field) { return field.substr(0, field.find('\0')); }

}  // namespace

bool has_header_checksum(std::span<const std::byte> block) {
  return block.size() == kBlockBytes && checksum_is_right(text_of(block));
}

std::optional<PlainHeader> parse_plain_header(std::span<const std::byte> bytes) {
  const std::string_view block = text_of(bytes);
  const bool posix = block.substr(257, 8) == std::string_view("ustar\00000", 8);
  const bool gnu = block.substr(257, 8) == std::string_view("ustar  \0", 8);
  const bool v7 = block.substr(257, 8) == std::string_view("\0\0\0\0\0\0\0\0", 8);
  const bool star = block.substr(508, 4) == std::string_view("tar\0", 4);  // a shorter prefix
  const char type = block[156];
  if ((!posix && !gnu && !v7) || star || (type != '0' && type != '\0')) return {};
  const auto size = octal(block.substr(124, 12), 11);
  if (!size || !checksum_is_right(block)) return {};
  PlainHeader header{.prefix = {}, .name = until_nul(block.substr(0, 100)), .size = *size};
  if (posix) header.prefix = until_nul(block.substr(345, 155));
  if (header.name.empty() || header.name.back() == '/') return {};
  return header;
}

HeaderFacts inspect_header(std::span<const std::byte> region) {
  std::string_view rest = text_of(region);
  HeaderFacts facts;
  for (;;) {
    if (rest.size() < kBlockBytes) corrupt_header("tar: headers end in the middle");
    const std::string_view block = rest.substr(0, kBlockBytes);
    facts.type = block[156];
    rest.remove_prefix(kBlockBytes);
    if (!is_extension(facts.type)) break;
    const std::uint64_t size = extension_size(block);
    const std::uint64_t padded = padded_size(size);
    if (padded > rest.size())
      corrupt_header("tar: an extension header's size is not what was read");
    const std::string_view body = rest.substr(0, size);
    if (facts.type == 'x' || facts.type == 'X' || facts.type == 'g') {
      inspect_pax(body, facts.type, facts);
    } else if (facts.type == 'L') {
      inspect_long_name(body, facts, facts.name);
    } else if (facts.type == 'K') {
      inspect_long_name(body, facts, facts.link);
    }
    rest.remove_prefix(padded);
  }
  facts.sparse = facts.sparse || facts.type == 'S';
  // GNU sparse headers continue in further blocks; all others are one block.
  if (!rest.empty() && !facts.sparse) corrupt_header("tar: more header blocks than one member has");
  return facts;
}

void data_behind_end(std::optional<std::uint64_t> offset) {
  throw Error(ErrorCode::kCorrupt,
              "data behind the tar's end marker (another archive is read with --concatenated)",
              {.offset = offset});
}

bool is_zero(std::span<const std::byte> bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](std::byte b) { return b == std::byte{0}; });
}

std::string describe_start(std::span<const std::byte> bytes) {
  if (bytes.empty()) return "an empty file";
  const std::string_view whole = text_of(bytes);
  if (whole.size() == kBlockBytes && whole.substr(257, 5) == "ustar") {
    return "a file whose first tar header is damaged";
  }
  const std::string_view text = whole.substr(0, 40);
  if (text.starts_with("version https://git-lfs")) {
    return "a git-LFS pointer (the shard itself was never downloaded)";
  }
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string_view::npos && text[first] == '<') return "an HTML or XML page";
  std::string shown;
  for (const char c : text.substr(0, 24)) {
    const bool printable = c >= ' ' && c < 127;
    shown += printable ? c : '.';
  }
  return "a file that starts with '" + shown + "'";
}

}  // namespace millrace::wds::detail
