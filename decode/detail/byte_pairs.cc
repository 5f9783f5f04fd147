#include "decode/detail/byte_pairs.h"

#include <fmt/format.h>

#include <queue>

#include "decode/detail/unicode.h"
#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::decode::detail {
namespace {

constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

std::uint64_t pair_key(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

std::uint32_t number_in(const TextMap<std::uint32_t>& vocabulary, std::string_view piece) {
  if (const auto found = vocabulary.find(piece); found != vocabulary.end()) return found->second;
  throw Error(ErrorCode::kCorrupt,
              fmt::format("the vocabulary lacks \"{}\", which a merge or unk_token names",
                          printable(piece)));
}

}  // namespace

// A word's pieces, a list in an array: where two were merged, the left one's place has both.
class BytePairs::Word {
 public:
  Word(const BytePairs& pairs, const std::vector<std::uint32_t>& numbers) : pairs_(pairs) {
    for (std::size_t i = 0; i < numbers.size(); ++i)
      pieces_.push_back(
          {numbers[i], i == 0 ? kNowhere : i - 1, i + 1 == numbers.size() ? kNowhere : i + 1});
    for (std::size_t i = 0; i < pieces_.size(); ++i) add_candidate(i);
  }

  void merge_all() {
    while (!candidates_.empty()) {
      const Candidate next = candidates_.top();
      candidates_.pop();
      const Merge* merge = merge_at(next.place);
      if (merge != nullptr && merge->number == next.number) apply(next.place, merge->number);
    }
  }
  void append_to(std::vector<std::int64_t>& numbers) const {
    for (std::size_t at = pieces_.empty() ? kNowhere : 0; at != kNowhere; at = pieces_[at].next)
      numbers.push_back(pieces_[at].number);
  }

 private:
  struct Piece {
    std::uint32_t number;
    std::size_t before, next;
    bool is_merged = false;  ///< into the one before
  };
  struct Candidate {
    std::size_t rank, place;
    std::uint32_t number;
    bool operator>(const Candidate& other) const {
      return std::pair(rank, place) > std::pair(other.rank, other.place);
    }
  };

  const Merge* merge_at(std::size_t place) const {
    const Piece& left = pieces_[place];
    if (left.is_merged || left.next == kNowhere) return nullptr;
    return pairs_.merge_of(left.number, pieces_[left.next].number);
  }
  void add_candidate(std::size_t place) {
    if (const Merge* merge = merge_at(place)) candidates_.push({merge->rank, place, merge->number});
  }
  void apply(std::size_t place, std::uint32_t number) {
    Piece& left = pieces_[place];
    Piece& right = pieces_[left.next];
    left.number = number;
    left.next = right.next;
    right.is_merged = true;
    if (left.next != kNowhere) pieces_[left.next].before = place;
    if (left.before != kNowhere) add_candidate(left.before);
    add_candidate(place);
  }

  const BytePairs& pairs_;
  std::vector<Piece> pieces_;
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates_;
};

BytePairs::BytePairs(BytePairOptions options) : options_(std::move(options)) {
  const TextMap<std::uint32_t>& vocabulary = options_.vocabulary;
  if (options_.unknown) unknown_ = number_in(vocabulary, *options_.unknown);
  for (std::size_t rank = 0; rank < options_.merges.size(); ++rank) {
    const auto& [left, right] = options_.merges[rank];
    const std::uint32_t first = number_in(vocabulary, left);
    const std::uint32_t second = number_in(vocabulary, right);
    merges_.insert_or_assign(pair_key(first, second),
                             Merge{rank, number_in(vocabulary, left + right)});
  }
  options_.merges.clear();
}

std::optional<std::uint32_t> BytePairs::number_of(std::string_view piece) const {
  const auto found = options_.vocabulary.find(piece);
  if (found == options_.vocabulary.end()) return {};
  return found->second;
}

void BytePairs::encode(std::string_view word, std::vector<std::int64_t>& numbers) const {
  if (const auto whole = options_.ignores_merges ? number_of(word) : std::nullopt)
    return numbers.push_back(*whole);
  Word pieces(*this, characters(word));
  pieces.merge_all();
  pieces.append_to(numbers);
}

const BytePairs::Merge* BytePairs::merge_of(std::uint32_t left, std::uint32_t right) const {
  const auto found = merges_.find(pair_key(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

std::vector<std::uint32_t> BytePairs::characters(std::string_view word) const {
  std::vector<std::uint32_t> numbers;
  bool was_unknown = false;
  for (std::size_t at = 0; at < word.size();) {
    std::string piece(word.substr(at, char_at(word, at).bytes));
    at += piece.size();
    if (at == word.size()) piece += options_.end_of_word;
    const auto known = number_of(piece);
    const auto number = known ? known : unknown_;
    if (number && !(options_.fuses_unknown && was_unknown && !known)) numbers.push_back(*number);
    was_unknown = !known;
  }
  return numbers;
}

}  // namespace millrace::decode::detail
