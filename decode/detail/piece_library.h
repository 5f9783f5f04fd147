// PieceEncoder: what the module libmillrace_pieces.so exports: SentencePiece.
//
// Threads: const members from many threads at once.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

namespace millrace::decode {

class PieceEncoder {
 public:
  virtual ~PieceEncoder() = default;
  /// Throws: Corrupt.
  virtual std::vector<int> encode(std::string_view text) const = 0;
};

class PieceLibrary {
 public:
  virtual ~PieceLibrary() = default;
  /// Of a serialized ModelProto. Throws: Corrupt.
  virtual std::unique_ptr<const PieceEncoder> load(std::string_view model) const = 0;
};

inline constexpr const char* kPieceModuleEntry = "millrace_piece_library";
using PieceModuleEntry = const PieceLibrary*();

}  // namespace millrace::decode
