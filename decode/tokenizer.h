// Tokenizer: texts as token numbers, by Hugging Face's tokenizer.json, without its library, or by a
// model of SentencePiece, with it.
//
//   const auto tokenizer = read_tokenizer(opener, "clip/tokenizer.json");
//   const std::vector<std::int64_t> tokens = tokenizer->encode("a photo of a cat", 77);
//
// What is named *.model is SentencePiece's (T5's, Llama's, SigLIP's): unigram, BPE, words or
// characters, with its own normalizer. It puts nothing around a text: TokenMarks do. The library is
// in a module that is loaded when it is needed. What else there is, is tokenizer.json. Byte pair
// encoding, as GPT-2, RoBERTa and CLIP have it: the model BPE, without dropout, byte fallback or a
// prefix of continued words; the normalizers NFC, NFD, NFKC, NFKD, Lowercase, Replace of a text or
// of \s+; the pre-tokenizers ByteLevel, and Split by GPT-2's or CLIP's expression; the
// post-processors ByteLevel, RobertaProcessing, BertProcessing and TemplateProcessing of one text;
// added tokens, but for those of whole words. Anything else is refused by name when the file is
// read. Its "truncation", "padding" and "decoder" are not used.
//
// Characters are classified by utf8proc's version of Unicode: of characters that are newer, the
// library that the file was made with may think otherwise.
//
// Threads: const is callable from many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/opener.h"

namespace millrace::decode {

/// Tokens to put around a text, outside of those that the file says: they count in its length.
struct TokenMarks {
  std::optional<std::int64_t> begin = {};
  std::optional<std::int64_t> end = {};
};

class Tokenizer {
 public:
  /// Of a file's contents; `url` is its name, by which it is a model of SentencePiece or a
  /// tokenizer.json. Throws: Corrupt, Unsupported.
  Tokenizer(const io::Bytes& contents, std::string url);
  ~Tokenizer();

  /// The numbers of the text's tokens, with those that the post-processor adds before and behind
  /// them, and the marks. Of more than `most`, the text's last ones are left out. Throws: Corrupt
  /// for a text that is not UTF-8, Exhausted for one that a normalizer makes far longer, or for one
  /// of more than 1 MiB that SentencePiece would get.
  std::vector<std::int64_t> encode(std::string_view text, std::size_t most = kAll,
                                   const TokenMarks& marks = {}) const;
  /// How many tokens are added to each text.
  std::size_t num_added(const TokenMarks& marks = {}) const;
  /// Numbers are below it.
  std::int64_t vocabulary() const;
  const std::string& url() const;
  /// Of the contents, in lower-case hex.
  const std::string& sha256() const;

  static constexpr std::size_t kAll = static_cast<std::size_t>(-1);

 private:
  struct State;
  std::unique_ptr<const State> state_;
};

/// Throws: as Tokenizer's constructor and io::read_object(); Exhausted above 64 MiB.
std::shared_ptr<const Tokenizer> read_tokenizer(const io::Opener& opener, const std::string& url);

}  // namespace millrace::decode
