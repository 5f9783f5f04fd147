// PartsAhead: the requests that a reader of a distant object has in flight behind the response that
// it reads.
//
// Over a long round trip one connection brings less than the link carries: its window is bounded,
// and it starts slowly. So the object is asked for in parts, several at a time. Each of them fits
// into its transfer's buffer, and so arrives whole while the reader is busy with those before it.
//
//   while (ahead.may_grow(most)) ahead.add({begin, end}, request(begin, end));
//   if (ahead.begins_at(position)) exchange = ahead.take(range);
//
// Threads: one at a time. Buffers: PartBudget::part_bytes() for each part, taken from the budget
// that all readers of an opener share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>

#include "io/detail/http/http_exchange.h"
#include "io/detail/http/part_budget.h"

namespace millrace::io::detail {

/// Bytes [begin, end) of an object.
struct ByteRange {
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

class PartsAhead {
 public:
  /// Borrows the budget.
  explicit PartsAhead(PartBudget& budget) : budget_(budget) {}
  ~PartsAhead() { clear(); }
  PartsAhead(const PartsAhead&) = delete;
  PartsAhead& operator=(const PartsAhead&) = delete;

  bool empty() const { return parts_.empty(); }
  /// Where the next part begins, and the last one ends. Require: not empty().
  std::uint64_t begin() const { return parts_.front().range.begin; }
  std::uint64_t end() const { return parts_.back().range.end; }
  bool begins_at(std::uint64_t position) const { return !empty() && begin() == position; }

  /// Whether another part may be asked for: the budget has room, and of those there are fewer than
  /// `most`, or than have worked, are still arriving. From here on this reader has a share of the
  /// budget.
  bool may_grow(std::size_t most);
  /// Takes the part's bytes from the budget for a request to be made by `ask`; false if there are
  /// none. Requires: the range begins at end().
  template <typename Ask>
  bool add(ByteRange range, Ask ask) {
    PartBudget::Held held = budget_.take();
    if (!held) return false;
    parts_.push_back({.held = std::move(held), .range = range, .exchange = ask()});
    return true;
  }
  /// The next part, whose bytes go back to the budget: from here on it is the response that is
  /// read. Requires: not empty().
  std::unique_ptr<HttpExchange> take(ByteRange& range);
  /// Follows the redirects that have arrived.
  void advance();
  /// A request failed: half as many are in flight from here on, and one more with each part that
  /// arrives. Drops what failed as well and all behind it, so that it is asked for again.
  void failed();
  /// Aborts all of them, and leaves this reader's share to the others.
  void clear();

 private:
  struct Part {
    PartBudget::Held held;
    ByteRange range;
    std::unique_ptr<HttpExchange> exchange;
  };
  static constexpr std::size_t kMostParts = 16;

  PartBudget& budget_;
  std::deque<Part> parts_;
  bool joined_ = false;
  std::size_t width_ = kMostParts;
};

}  // namespace millrace::io::detail
