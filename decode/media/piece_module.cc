// The module libmillrace_pieces.so: texts as tokens, by SentencePiece.
#include <sentencepiece_processor.h>

#include <exception>
#include <new>
#include <string>

#include "decode/detail/piece_library.h"
#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::decode {
namespace {

[[noreturn]] void refuse_model(const std::string& why) {
  throw Error(ErrorCode::kCorrupt, "SentencePiece refuses the model: " + printable(why, 200));
}

class Pieces final : public PieceEncoder {
 public:
  explicit Pieces(std::string_view model) {
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok()) refuse_model(status.error_message());
  }

  std::vector<int> encode(std::string_view text) const override {
    std::vector<int> numbers;
    const auto status = processor_.Encode(text, &numbers);
    if (!status.ok())
      throw Error(ErrorCode::kCorrupt, "SentencePiece: " + printable(status.error_message(), 200));
    return numbers;
  }

 private:
  sentencepiece::SentencePieceProcessor processor_;
};

class SentencePiece final : public PieceLibrary {
 public:
  std::unique_ptr<const PieceEncoder> load(std::string_view model) const override try {
    return std::make_unique<Pieces>(model);
  } catch (const Error&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {  // its tries'
    refuse_model(error.what());
  }
};

}  // namespace
}  // namespace millrace::decode

extern "C" __attribute__((visibility("default"))) const millrace::decode::PieceLibrary*
millrace_piece_library() {
  static const millrace::decode::SentencePiece library;
  return &library;
}
