#include "wds/detail/tape.h"

#include <algorithm>
#include <string>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"

namespace millrace::wds::detail {

Tape::Tape(std::unique_ptr<io::ByteSource> source, std::uint64_t start, std::size_t buffer_bytes)
    : source_(std::move(source)), buffer_bytes_(buffer_bytes), position_(start) {}

std::span<const std::byte> Tape::peek(std::size_t size) {
  while (end_ - begin_ < size && refill(size)) {
  }
  return buffered(size);
}

void Tape::consume(std::size_t size) {
  MILLRACE_DCHECK(size <= end_ - begin_, "only what was shown can be consumed");
  begin_ += size;
  position_ += size;
}

void Tape::read(std::span<std::byte> room, std::size_t wanted) {
  end_region();
  std::size_t used = 0;
  while (used < wanted) {
    const std::size_t missing = wanted - used;
    if (begin_ < end_) {
      const std::size_t size = std::min(missing, end_ - begin_);
      std::copy_n(buffer_.get() + begin_, size, room.data() + used);
      consume(size);
      used += size;
    } else if (missing >= kDirectBytes && !ended_) {
      used += read_directly(room.subspan(used));
    } else if (!refill(missing)) {
      truncated(missing);
    }
  }
  if (used > wanted) put_back(room.subspan(wanted, used - wanted));
}

// Requires: nothing is buffered.
void Tape::put_back(std::span<const std::byte> data) {
  begin_ = end_ = 0;
  while (capacity_ < data.size()) grow();
  std::ranges::copy(data, buffer_.get());
  end_ = data.size();
  position_ -= data.size();
}

std::size_t Tape::read_some(std::span<std::byte> into) {
  end_region();
  if (begin_ == end_ && into.size() >= kDirectBytes && !ended_) return read_directly(into);
  const auto shown = peek(1).empty() ? std::span<const std::byte>() : buffered(into.size());
  std::ranges::copy(shown, into.begin());
  consume(shown.size());
  return shown.size();
}

void Tape::skip(std::uint64_t size) {
  end_region();
  if (const auto left = remaining(); left && size > *left) truncated(size - *left);
  const auto shown = static_cast<std::size_t>(std::min<std::uint64_t>(size, end_ - begin_));
  consume(shown);
  size -= shown;
  // A shorter gap is read along with what follows it.
  if (size >= buffer_bytes_ && !ended_ && source_->skip(size)) {
    position_ += size;
    return;
  }
  while (size > 0) {
    if (begin_ == end_ && !refill(1)) truncated(size);
    const auto step = static_cast<std::size_t>(std::min<std::uint64_t>(size, end_ - begin_));
    consume(step);
    size -= step;
  }
}

std::span<const std::byte> Tape::region() const {
  if (!region_) return {};
  return {buffer_.get() + *region_, begin_ - *region_};
}

std::optional<std::uint64_t> Tape::remaining() const {
  const auto size = source_->size();
  if (!size) return {};
  const std::uint64_t unread = *size - std::min(*size, source_->position());
  return unread + (end_ - begin_);
}

std::size_t Tape::read_directly(std::span<std::byte> into) {
  const std::size_t got = source_->read(into);
  ended_ = got == 0;
  position_ += got;
  return got;
}

// Reads once; returns false at the end.
bool Tape::refill(std::size_t wanted) {
  if (ended_) return false;
  make_room(wanted);
  const std::size_t got = source_->read({buffer_.get() + end_, capacity_ - end_});
  ended_ = got == 0;
  end_ += got;
  return got > 0;
}

void Tape::make_room(std::size_t wanted) {
  const std::size_t keep = region_ ? std::min(*region_, begin_) : begin_;
  // Reading into a small remainder of the buffer would waste a call: move the kept bytes to the
  // front.
  if (keep > 0 && (begin_ == end_ || capacity_ - begin_ < wanted || end_ == capacity_)) {
    std::copy(buffer_.get() + keep, buffer_.get() + end_, buffer_.get());
    begin_ -= keep;
    end_ -= keep;
    if (region_) *region_ -= keep;
  }
  if (end_ == capacity_) grow();
}

void Tape::grow() {
  const std::size_t capacity = std::max(buffer_bytes_, capacity_ * 2);
  auto larger = std::make_unique_for_overwrite<std::byte[]>(capacity);
  std::copy_n(buffer_.get(), end_, larger.get());
  buffer_ = std::move(larger);
  capacity_ = capacity;
}

void Tape::truncated(std::uint64_t missing) const {
  throw Error(ErrorCode::kTruncated, "tar ends " + std::to_string(missing) + " bytes too early",
              {.offset = position_});
}

}  // namespace millrace::wds::detail
