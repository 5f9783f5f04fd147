// TarBuilder: builds any tar, valid or not, block by block.
//
//   const std::string tar = TarBuilder().file("a.jpg", "...").file("a.cls", "3").end().bytes();
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace millrace::testing {

enum class TarFormat { kV7, kUstar, kGnu };

/// The contents of a header block, true or not.
struct TarHeader {
  std::string name;
  std::uint64_t size = 0;
  char type = '0';
  TarFormat format = TarFormat::kUstar;
  std::string link = {};
  /// Writes the size as GNU's binary number.
  bool binary_size = false;
};

class TarBuilder {
 public:
  /// A regular member; a name of over 100 bytes is split as ustar does.
  TarBuilder& file(std::string_view name, std::string_view data,
                   TarFormat format = TarFormat::kUstar);
  /// A member preceded by a GNU long name (`L`).
  TarBuilder& gnu_file(std::string_view name, std::string_view data);
  /// A member preceded by a pax header with `records`.
  TarBuilder& pax_file(std::string_view name, std::string_view data,
                       const std::vector<std::pair<std::string, std::string>>& records);
  /// One header block with a correct checksum.
  TarBuilder& header(const TarHeader& header);
  /// Bytes, padded to full blocks.
  TarBuilder& payload(std::string_view data);
  /// Bytes without padding.
  TarBuilder& raw(std::string_view bytes);
  /// The end marker, and zeros up to a multiple of `blocking` bytes.
  TarBuilder& end(std::size_t blocking = 10'240);

  const std::string& bytes() const { return bytes_; }
  std::size_t size() const { return bytes_.size(); }

  /// "LENGTH KEY=VALUE\n".
  static std::string pax_record(std::string_view key, std::string_view value);

 private:
  std::string bytes_;
};

/// Corrects the checksum of the header block at `offset`.
void fix_checksum(std::string& tar, std::size_t offset);

}  // namespace millrace::testing
