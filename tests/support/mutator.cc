#include "tests/support/mutator.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <functional>
#include <span>
#include <string_view>
#include <vector>

#include "io/base/rng.h"

namespace millrace::testing {
namespace {

using Damage = std::function<void(std::string&, KeyedRng&)>;

constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kDeep = 100'000;

std::size_t place_in(const std::string& data, KeyedRng& rng) {
  return rng.below(std::max<std::size_t>(data.size(), 1));
}

std::string repeated(std::string_view part, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += part;
  return text;
}

void flip_bit(std::string& data, KeyedRng& rng) {
  if (!data.empty()) data[place_in(data, rng)] ^= static_cast<char>(1U << rng.below(8));
}

void cut_end(std::string& data, KeyedRng& rng) { data.resize(place_in(data, rng)); }

void lose_range(std::string& data, KeyedRng& rng) {
  data.erase(place_in(data, rng), 1 + rng.below(40));
}

void double_range(std::string& data, KeyedRng& rng) {
  const std::size_t at = place_in(data, rng);
  data.insert(at, data.substr(at, 1 + rng.below(40)));
}

void zero_range(std::string& data, KeyedRng& rng) {
  const std::size_t at = place_in(data, rng);
  const std::size_t size = std::min<std::size_t>(1 + rng.below(16), data.size() - at);
  data.replace(at, size, size, '\0');
}

/// A number, a string with its quotes, or a bare word.
struct Token {
  std::size_t begin;
  std::size_t size;
};

std::vector<Token> tokens_of(const std::string& text) {
  const auto in_word = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.' || c == '-' || c == '_';
  };
  std::vector<Token> tokens;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t end = at;
    if (text[at] == '"') {
      end = text.find('"', at + 1);
      end = end == std::string::npos ? text.size() : end + 1;
    } else {
      while (end < text.size() && in_word(text[end])) ++end;
    }
    if (end == at) continue;
    tokens.push_back({at, end - at});
    at = end;
  }
  return tokens;
}

void put_in_place_of_a_token(std::string& text, KeyedRng& rng, const std::string& value) {
  const auto tokens = tokens_of(text);
  if (tokens.empty()) return;
  const Token token = tokens[rng.below(tokens.size())];
  text.replace(token.begin, token.size, value);
}

void other_number(std::string& text, KeyedRng& rng) {
  constexpr std::array kNumbers = {"-1",
                                   "0",
                                   "1",
                                   "0.5",
                                   "-0.0",
                                   "1e300",
                                   "-1e300",
                                   "1e9999",
                                   "16777216",
                                   "2147483648",
                                   "4294967296",
                                   "9223372036854775807",
                                   "9223372036854775808",
                                   "18446744073709551615",
                                   "18446744073709551616",
                                   "-9223372036854775809",
                                   "99999999999999999999999999",
                                   "0x10",
                                   "007",
                                   "nan",
                                   "inf"};
  put_in_place_of_a_token(text, rng, kNumbers[rng.below(kNumbers.size())]);
}

void other_value(std::string& text, KeyedRng& rng) {
  const std::array<std::string, 15> values = {"null",
                                              "true",
                                              "[]",
                                              "{}",
                                              "\"\"",
                                              "\"\\u0000\"",
                                              "\"\xff\"",
                                              "\"../../etc/passwd\"",
                                              "\"pipe:true\"",

                                              "[[1],[2,3]]",
                                              "{\"a\":{}}",
                                              "\"\\ud800\"",
                                              '"' + std::string(kDeep, 'x') + '"',
                                              std::string(kDeep, '7'),
                                              "\"{0..9}{0..9}.tar\""};
  put_in_place_of_a_token(text, rng, values[rng.below(values.size())]);
}

void swap_tokens(std::string& text, KeyedRng& rng) {
  const auto tokens = tokens_of(text);
  if (tokens.size() < 2) return;
  const std::size_t first = rng.below(tokens.size() - 1);
  const Token a = tokens[first];
  const Token b = tokens[first + 1 + rng.below(tokens.size() - 1 - first)];
  const std::string value = text.substr(a.begin, a.size);
  const std::string other = text.substr(b.begin, b.size);
  text.replace(b.begin, b.size, value);
  text.replace(a.begin, a.size, other);
}

void nest(std::string& text, KeyedRng& rng) {
  constexpr std::array kOpen = {"[", "{\"a\":", "[[],", "{a={b=", "[[1,"};
  constexpr std::array kClose = {"]", "}", "]", "}}", "]]"};
  const std::size_t kind = rng.below(kOpen.size());
  std::string value = repeated(kOpen[kind], kDeep);
  if (rng.below(2) == 0) value += "1" + repeated(kClose[kind], kDeep);
  put_in_place_of_a_token(text, rng, value);
}

void double_line(std::string& text, KeyedRng& rng) {
  const std::size_t at = text.rfind('\n', place_in(text, rng));
  const std::size_t begin = at == std::string::npos ? 0 : at + 1;
  const std::size_t end = text.find('\n', begin);
  const std::string line = text.substr(begin, end == std::string::npos ? end : end + 1 - begin);
  // The last element of a list has no comma, so a copy would not be valid JSON.
  text.insert(begin, line.find(',') == std::string::npos && line.find(':') != std::string::npos
                         ? line.substr(0, line.size() - 1) + ",\n"
                         : line);
}

/// Duplicates a member of an object, with the same key.
void double_key(std::string& text, KeyedRng& rng) {
  const auto tokens = tokens_of(text);
  if (tokens.size() < 2) return;
  const Token key = tokens[rng.below(tokens.size() - 1)];
  text.insert(key.begin, text.substr(key.begin, key.size) + ":0,");
}

std::size_t any_block(const std::string& tar, KeyedRng& rng) {
  return rng.below(std::max<std::size_t>(tar.size() / kTarBlock, 1)) * kTarBlock;
}

void zero_block(std::string& tar, KeyedRng& rng) {
  tar.replace(any_block(tar, rng), kTarBlock, kTarBlock, '\0');
}

void lose_block(std::string& tar, KeyedRng& rng) { tar.erase(any_block(tar, rng), kTarBlock); }

void double_block(std::string& tar, KeyedRng& rng) {
  const std::size_t at = any_block(tar, rng);
  tar.insert(at, tar.substr(at, kTarBlock));
}

void swap_blocks(std::string& tar, KeyedRng& rng) {
  const std::size_t a = any_block(tar, rng);
  const std::size_t b = any_block(tar, rng);
  std::swap_ranges(tar.begin() + static_cast<std::ptrdiff_t>(a),
                   tar.begin() + static_cast<std::ptrdiff_t>(a + kTarBlock),
                   tar.begin() + static_cast<std::ptrdiff_t>(b));
}

void second_archive(std::string& tar, KeyedRng&) { tar += std::string(tar); }

std::vector<std::size_t> headers_of(const std::string& tar) {
  std::vector<std::size_t> headers;
  for (std::size_t at = 0; at + kTarBlock <= tar.size(); at += kTarBlock) {
    if (std::string_view(tar).substr(at + 257, 5) == "ustar") headers.push_back(at);
  }
  return headers;
}

void put_checksum(std::string& tar, std::size_t header) {
  unsigned sum = 8 * ' ';
  for (std::size_t i = 0; i < kTarBlock; ++i) {
    if (i < 148 || i >= 156) sum += static_cast<unsigned char>(tar[header + i]);
  }
  for (std::size_t i = 0; i < 6; ++i) {
    tar[header + 153 - i] = static_cast<char>('0' + (sum >> (3 * i)) % 8);
  }
  tar[header + 154] = '\0';
  tar[header + 155] = ' ';
}

/// Changes a header and corrects its checksum.
void other_header(std::string& tar, KeyedRng& rng) {
  struct Field {
    std::size_t at;
    std::size_t size;
  };
  constexpr std::array<Field, 7> kFields = {
      {{0, 100}, {100, 8}, {124, 12}, {136, 12}, {156, 1}, {157, 100}, {345, 155}}};
  const std::array<std::string, 14> values = {
      "",
      "0",
      "1",
      "77777777777",
      "00000000001",
      "-1",
      std::string(155, 'x'),
      std::string("\xff\xff\xff\xff\xff\xff\xff\xff", 8),
      std::string("\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", 12),
      "../../x.png",
      "5",
      "x",
      "L",
      "\xc3\x28.png"};
  const auto headers = headers_of(tar);
  if (headers.empty()) return;
  const std::size_t header = headers[rng.below(headers.size())];
  const Field field = kFields[rng.below(kFields.size())];
  std::string value = values[rng.below(values.size())];
  value.resize(field.size, '\0');
  tar.replace(header + field.at, field.size, value);
  put_checksum(tar, header);
}

/// RFC 8878, 3.1.2: a frame that zstd and lz4 skip, which may claim more than follows.
std::string skippable_frame(KeyedRng& rng) {
  const std::size_t size = rng.below(24);
  std::string frame("\x50\x2a\x4d\x18\0\0\0\0", 8);
  frame[0] = static_cast<char>(0x50 + rng.below(16));
  frame[4] = static_cast<char>(size);
  if (rng.below(4) == 0) frame[5 + rng.below(3)] = static_cast<char>(rng.below(256));
  return frame + std::string(rng.below(4) == 0 ? rng.below(size + 1) : size, 's');
}

void put_skippable_first(std::string& packed, KeyedRng& rng) {
  packed.insert(0, skippable_frame(rng));
}

void put_skippable_last(std::string& packed, KeyedRng& rng) { packed += skippable_frame(rng); }

void leave_skippable(std::string& packed, KeyedRng& rng) { packed = skippable_frame(rng); }

/// The start of every format that is told by its first bytes, alone or before the rest.
void other_start(std::string& packed, KeyedRng& rng) {
  const std::array<std::string, 8> starts = {"\x1f\x8b",
                                             "\x28\xb5\x2f\xfd",
                                             "BZh9",
                                             "\xfd"
                                             "7zXZ",
                                             "\x04\x22\x4d\x18",
                                             "LZIP\x01",
                                             "\x89LZO",
                                             "\x1f\x9d"};
  const std::string& start = starts[rng.below(starts.size())];
  packed = rng.below(2) == 0 ? start : start + packed;
}

std::string damaged(std::string data, std::uint64_t number, std::span<const Damage> damages) {
  KeyedRng rng({.seed = 20, .index = number});
  const std::string whole = data;
  // A mutation without effect, such as a repeated block of zeros next to zeros, is drawn again.
  for (int draw = 0; data == whole && draw < 100; ++draw) {
    damages[(number + static_cast<std::uint64_t>(draw)) % damages.size()](data, rng);
  }
  return data;
}

}  // namespace

std::string mutated_text(const std::string& text, std::uint64_t number) {
  static const std::vector<Damage> kDamages = {
      flip_bit,     cut_end,     lose_range,  double_range, zero_range,  other_number, other_number,
      other_number, other_value, other_value, swap_tokens,  double_line, double_key,   nest};
  return damaged(text, number, kDamages);
}

std::string mutated_tar(const std::string& tar, std::uint64_t number) {
  static const std::vector<Damage> kDamages = {
      flip_bit,     cut_end,      lose_range,   double_range, zero_range,
      zero_block,   lose_block,   double_block, swap_blocks,  second_archive,
      other_header, other_header, other_header};
  return damaged(tar, number, kDamages);
}

std::string mutated_pack(const std::string& packed, std::uint64_t number) {
  static const std::vector<Damage> kDamages = {flip_bit,
                                               flip_bit,
                                               cut_end,
                                               lose_range,
                                               double_range,
                                               zero_range,
                                               put_skippable_first,
                                               put_skippable_last,
                                               leave_skippable,
                                               other_start,
                                               second_archive};
  return damaged(packed, number, kDamages);
}

}  // namespace millrace::testing
