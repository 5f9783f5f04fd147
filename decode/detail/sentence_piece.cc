#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>

#include "decode/detail/piece_library.h"
#include "decode/detail/token_model.h"
#include "io/base/error.h"
#include "io/base/loaded_module.h"
#include "io/base/proto_fields.h"
#include "io/base/text.h"

namespace millrace::decode::detail {
namespace {

constexpr std::size_t kMostPieces = std::size_t{1} << 24;
// The library builds its tries by recursion, a level a byte.
constexpr std::size_t kMostPieceBytes = 1024;
// For a text of so many bytes it needs a hundred times as many.
constexpr std::size_t kMostTextBytes = std::size_t{1} << 20;
constexpr std::size_t kMostRuleBytes = std::size_t{2} << 20;
constexpr std::size_t kMostReplacementBytes = 256;
// So many of those that begin at one place the library has room for, and counts on no more.
constexpr std::size_t kMostRulesAtOnce = 32;
constexpr std::size_t kMostSymbolsAtOnce = 64;

const PieceLibrary& piece_library() {
#ifdef MILLRACE_HAS_PIECES
  static const PieceLibrary* const library =
      reinterpret_cast<PieceModuleEntry*>(module_entry({.file = "libmillrace_pieces.so",
                                                        .entry = kPieceModuleEntry,
                                                        .libraries = "SentencePiece",
                                                        .remedy = "install libsentencepiece0"}))();
  return *library;
#else
  throw Error(ErrorCode::kUnsupported,
              "this build has no SentencePiece, which reads .model files: install it (Debian and "
              "Ubuntu: libsentencepiece-dev) and build again");
#endif
}

[[noreturn]] void refuse_pieces(const std::string& what) {
  throw Error(ErrorCode::kCorrupt, "not a SentencePiece model: " + what);
}

void require_pieces(bool good, const char* what) {
  if (!good) refuse_pieces(what);
}

template <typename Number>
Number number_at(std::string_view bytes, std::size_t at = 0) {
  static_assert(std::endian::native == std::endian::little);
  Number number{};
  std::memcpy(&number, bytes.data() + at, sizeof number);
  return number;
}

/// The rules of a model's normalizer: a double array, and behind it the replacements, each up to a
/// zero. The library goes through it without looking whether it leaves it.
/// Source: Yata, darts-clone.
class CharacterRules {
 public:
  explicit CharacterRules(std::string_view rules) {
    const std::size_t size = rules.size() < 4 ? 0 : number_at<std::uint32_t>(rules);
    require_pieces(rules.size() <= kMostRuleBytes && size > 0 && size % 4 == 0 &&
                       size + 4 < rules.size() && rules.back() == '\0',
                   "its normalizer's rules are damaged");
    for (std::size_t at = 4; at < size + 4; at += 4)
      units_.push_back(number_at<std::uint32_t>(rules, at));
    replacements_ = rules.substr(size + 4);
  }

  /// Visits every unit that a text may lead to.
  void check() const {
    std::vector<std::size_t> rules(units_.size());  // most on the way there, and 1
    std::vector<std::uint32_t> left = {offset(0)};
    require_pieces(left.back() < units_.size(), "its normalizer's rules lead out of them");
    rules[left.back()] = 1;
    while (!left.empty()) {
      const std::uint32_t base = left.back();
      left.pop_back();
      for (std::uint32_t byte = 0; byte < 256; ++byte) follow(base, byte, rules, left);
    }
  }

 private:
  void follow(std::uint32_t base, std::uint32_t byte, std::vector<std::size_t>& rules,
              std::vector<std::uint32_t>& left) const {
    const std::uint32_t at = base ^ byte;
    require_pieces(at < units_.size(), "its normalizer's rules lead out of them");
    if ((units_[at] & (kLeaf | 0xFFU)) != byte) return;
    const std::uint32_t next = at ^ offset(at);
    require_pieces(next < units_.size(), "its normalizer's rules lead out of them");
    const bool ends = (units_[at] >> 8U & 1U) != 0;
    if (ends) check_replacement(units_[next] & ~kLeaf);
    const std::size_t most = rules[base] + (ends ? 1 : 0);
    require_pieces(most <= kMostRulesAtOnce + 1, "too many of its normalizer's rules begin alike");
    if (most <= rules[next]) return;
    rules[next] = most;
    left.push_back(next);
  }
  void check_replacement(std::size_t place) const {
    require_pieces(place < replacements_.size(), "a rule's replacement is missing");
    require_pieces(replacements_.find('\0', place) - place <= kMostReplacementBytes,
                   "a rule's replacement is too long");
  }
  std::uint32_t offset(std::size_t unit) const {
    return units_[unit] >> 10U << ((units_[unit] & 1U << 9U) >> 6U);
  }

  static constexpr std::uint32_t kLeaf = 1U << 31U;
  std::vector<std::uint32_t> units_;
  std::string_view replacements_;
};

void check_normalizer(std::string_view message) {
  constexpr std::uint64_t kRules = 2;
  ProtoFields fields(message);
  for (ProtoFields::Field field; fields.next(field);)
    if (field.number == kRules && field.type == ProtoFields::kBytes && !field.bytes.empty())
      CharacterRules(field.bytes).check();
}

struct Piece {
  std::string_view text;
  float score = 0;
  std::uint64_t type = 1;

  static constexpr std::uint64_t kUserDefined = 4;
};

Piece piece_of(std::string_view message) {
  Piece piece;
  ProtoFields fields(message);
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.number == 1 && field.type == ProtoFields::kBytes) piece.text = field.bytes;
    if (field.number == 2 && field.type == ProtoFields::kFourBytes)
      piece.score = number_at<float>(field.bytes);
    if (field.number == 3 && field.type == ProtoFields::kVarint) piece.type = field.value;
  }
  require_pieces(piece.text.size() <= kMostPieceBytes, "a piece of more than 1024 bytes");
  require_pieces(std::isfinite(piece.score), "a piece's score is no number");
  return piece;
}

/// Symbols that are always found whole: how many of them may begin at one place.
void check_symbols(std::vector<std::string_view> symbols) {
  std::ranges::sort(symbols);
  std::vector<std::string_view> beginnings;
  for (const std::string_view symbol : symbols) {
    while (!beginnings.empty() && !symbol.starts_with(beginnings.back())) beginnings.pop_back();
    beginnings.push_back(symbol);
    require_pieces(beginnings.size() <= kMostSymbolsAtOnce,
                   "too many of its user-defined symbols begin alike");
  }
}

/// Of a ModelProto, which the library takes as it is. Returns how many pieces it has.
std::size_t checked_pieces(std::string_view model) {
  enum : std::uint64_t { kPiece = 1, kTrainer, kNormalizer, kSelfTest, kDenormalizer };
  std::size_t pieces = 0;
  bool has_trainer = false, has_normalizer = false;
  std::vector<std::string_view> symbols;
  ProtoFields fields(model);
  for (ProtoFields::Field field; fields.next(field);) {
    if (field.type != ProtoFields::kBytes) continue;
    if (field.number == kPiece) {
      const Piece piece = piece_of(field.bytes);
      if (piece.type == Piece::kUserDefined) symbols.push_back(piece.text);
      require_pieces(++pieces <= kMostPieces, "too many pieces");
    }
    has_trainer |= field.number == kTrainer;
    has_normalizer |= field.number == kNormalizer;
    if (field.number == kNormalizer || field.number == kDenormalizer) check_normalizer(field.bytes);
    if (field.number == kSelfTest)
      require_pieces(field.bytes.size() <= kMostTextBytes, "a test of itself that is too long");
  }
  require_pieces(pieces > 0, "it has no pieces");
  check_symbols(std::move(symbols));
  require_pieces(has_trainer && has_normalizer, "it ends before its settings");
  return pieces;
}

std::size_t checked_model(std::string_view model) try {
  return checked_pieces(model);
} catch (const Error& error) {
  if (error.message().starts_with("not a SentencePiece model")) throw;
  refuse_pieces(error.message());
}

class SentencePieceModel final : public TokenModel {
 public:
  explicit SentencePieceModel(std::string_view model) {
    vocabulary = static_cast<std::int64_t>(checked_model(model));
    encoder_ = piece_library().load(model);
  }

  void encode(std::string_view text, std::size_t most,
              std::vector<std::int64_t>& numbers) const override {
    if (text.size() > kMostTextBytes)
      throw Error(ErrorCode::kExhausted,
                  fmt::format("a text of {} bytes for SentencePiece: at most {}", text.size(),
                              kMostTextBytes));
    if (most == 0) return;
    const std::vector<int> pieces = encoder_->encode(text);
    numbers.insert(numbers.end(), pieces.begin(), pieces.end());
  }

 private:
  std::unique_ptr<const PieceEncoder> encoder_;
};

}  // namespace

std::unique_ptr<const TokenModel> sentence_piece_model(const io::Bytes& contents) {
  return std::make_unique<SentencePieceModel>(contents.text());
}

}  // namespace millrace::decode::detail
