#include "tests/support/tar_builder.h"

#include <algorithm>
#include <cstdio>

namespace millrace::testing {
namespace {

constexpr std::size_t kBlock = 512;

void put(std::string& block, std::size_t at, std::string_view text) {
  block.replace(at, text.size(), text);
}

// `width` - 1 octal digits and a NUL.
std::string octal(std::uint64_t value, std::size_t width) {
  std::string digits(width, '\0');
  for (std::size_t i = width - 1; i-- > 0; value /= 8) {
    digits[i] = static_cast<char>('0' + value % 8);
  }
  return digits;
}

std::string binary(std::uint64_t value, std::size_t width) {
  std::string digits(width, '\0');
  for (std::size_t i = width; i-- > 1; value /= 256) digits[i] = static_cast<char>(value % 256);
  digits[0] = '\x80';
  return digits;
}

void put_name(std::string& block, const TarHeader& header) {
  std::string_view name = header.name;
  if (name.size() > 100 && header.format == TarFormat::kUstar) {
    const std::size_t slash = name.find('/', name.size() - 101);
    put(block, 345, name.substr(0, std::min<std::size_t>(slash, 155)));
    name.remove_prefix(slash + 1);
  }
  put(block, 0, name.substr(0, 100));
}

}  // namespace

TarBuilder& TarBuilder::header(const TarHeader& header) {
  std::string block(kBlock, '\0');
  put_name(block, header);
  put(block, 100, octal(0444, 8));
  put(block, 108, octal(0, 8));
  put(block, 116, octal(0, 8));
  put(block, 124, header.binary_size ? binary(header.size, 12) : octal(header.size, 12));
  put(block, 136, octal(0, 12));
  block[156] = header.type;
  put(block, 157, std::string_view(header.link).substr(0, 100));
  if (header.format == TarFormat::kUstar) put(block, 257, std::string_view("ustar\00000", 8));
  if (header.format == TarFormat::kGnu) put(block, 257, std::string_view("ustar  \0", 8));
  if (header.format != TarFormat::kV7) {
    put(block, 265, "bigdata");
    put(block, 297, "bigdata");
  }
  bytes_ += block;
  fix_checksum(bytes_, bytes_.size() - kBlock);
  return *this;
}

TarBuilder& TarBuilder::payload(std::string_view data) {
  bytes_ += data;
  bytes_.append((kBlock - data.size() % kBlock) % kBlock, '\0');
  return *this;
}

TarBuilder& TarBuilder::file(std::string_view name, std::string_view data, TarFormat format) {
  return header({.name = std::string(name), .size = data.size(), .format = format}).payload(data);
}

TarBuilder& TarBuilder::gnu_file(std::string_view name, std::string_view data) {
  const std::string long_name = std::string(name) + '\0';
  header(
      {.name = "././@LongLink", .size = long_name.size(), .type = 'L', .format = TarFormat::kGnu});
  payload(long_name);
  return file(name.substr(0, 100), data, TarFormat::kGnu);
}

TarBuilder& TarBuilder::pax_file(std::string_view name, std::string_view data,
                                 const std::vector<std::pair<std::string, std::string>>& records) {
  std::string body;
  for (const auto& [key, value] : records) body += pax_record(key, value);
  header({.name = "PaxHeader/x", .size = body.size(), .type = 'x'}).payload(body);
  return file(name, data);
}

TarBuilder& TarBuilder::raw(std::string_view bytes) {
  bytes_ += bytes;
  return *this;
}

TarBuilder& TarBuilder::end(std::size_t blocking) {
  bytes_.append(2 * kBlock, '\0');
  bytes_.append((blocking - bytes_.size() % blocking) % blocking, '\0');
  return *this;
}

std::string TarBuilder::pax_record(std::string_view key, std::string_view value) {
  const std::size_t rest = key.size() + value.size() + 3;
  std::size_t length = rest;
  while (std::to_string(length).size() + rest != length) {
    length = std::to_string(length).size() + rest;
  }
  return std::to_string(length) + " " + std::string(key) + "=" + std::string(value) + "\n";
}

void fix_checksum(std::string& tar, std::size_t offset) {
  tar.replace(offset + 148, 8, "        ");
  unsigned sum = 0;
  for (std::size_t i = 0; i < kBlock; ++i) sum += static_cast<unsigned char>(tar[offset + i]);
  tar.replace(offset + 148, 8, octal(sum, 7) + " ");
}

}  // namespace millrace::testing
