// TokenModel: what a tokenizer's file makes of texts, whichever kind of file it is.
//
// Threads: const is callable from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "io/bytes.h"

namespace millrace::decode::detail {

class TokenModel {
 public:
  virtual ~TokenModel() = default;
  /// Appends the numbers of the text's tokens; behind the first `most`, some or none. Requires:
  /// UTF-8. Throws: Exhausted.
  virtual void encode(std::string_view text, std::size_t most,
                      std::vector<std::int64_t>& numbers) const = 0;

  std::vector<std::int64_t> before, behind;  ///< what the file puts around every text
  std::int64_t vocabulary = 0;               ///< numbers are below it
};

/// Of a serialized ModelProto, which is checked before SentencePiece's library sees it. Throws:
/// Corrupt, Unsupported.
std::unique_ptr<const TokenModel> sentence_piece_model(const io::Bytes& contents);

}  // namespace millrace::decode::detail
