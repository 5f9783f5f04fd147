// Tokenizer: texts as token numbers, by Hugging Face's tokenizer.json, without its library.
//
//   const auto tokenizer = read_tokenizer(opener, "clip/tokenizer.json");
//   const std::vector<std::int64_t> tokens = tokenizer->encode("a photo of a cat", 77);
//
// Byte pair encoding, as GPT-2, RoBERTa and CLIP have it: the model BPE, without dropout, byte
// fallback or a prefix of continued words; the normalizers NFC, NFD, NFKC, NFKD, Lowercase, Replace
// of a text or of \s+; the pre-tokenizers ByteLevel, and Split by GPT-2's or CLIP's expression; the
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
#include <string>
#include <string_view>
#include <vector>

#include "io/bytes.h"
#include "io/opener.h"

namespace millrace::decode {

class Tokenizer {
 public:
  /// Of a tokenizer.json's contents; `url` is for messages. Throws: Corrupt, Unsupported.
  Tokenizer(const io::Bytes& contents, std::string url);
  ~Tokenizer();

  /// The numbers of the text's tokens, with those that the post-processor adds before and behind
  /// them. Of more than `most`, the text's last ones are left out. Throws: Corrupt for a text that
  /// is not UTF-8, Exhausted for one that a normalizer makes far longer.
  std::vector<std::int64_t> encode(std::string_view text, std::size_t most = kAll) const;
  /// How many tokens the post-processor adds to each text.
  std::size_t num_added() const;
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
