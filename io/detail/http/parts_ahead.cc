#include "io/detail/http/parts_ahead.h"

#include <algorithm>
#include <utility>

namespace millrace::io::detail {

bool PartsAhead::may_grow(std::size_t most) {
  if (!std::exchange(joined_, true)) budget_.join();
  const auto in_flight = std::count_if(parts_.begin(), parts_.end(), [](const Part& part) {
    return !part.exchange->transfer().settled();
  });
  return static_cast<std::size_t>(in_flight) < std::min(most, width_) &&
         budget_.has_room(parts_.size());
}

std::unique_ptr<HttpExchange> PartsAhead::take(ByteRange& range) {
  Part part = std::move(parts_.front());
  parts_.pop_front();
  width_ = std::min(kMostParts, width_ + 1);
  range = part.range;
  return std::move(part.exchange);
}

void PartsAhead::advance() {
  for (Part& part : parts_) part.exchange->advance();
}

void PartsAhead::failed() {
  width_ = std::max<std::size_t>(1, std::min(width_, parts_.size() + 1) / 2);
  const auto broken = std::find_if(parts_.begin(), parts_.end(), [](const Part& part) {
    return part.exchange->transfer().has_failed();
  });
  parts_.erase(broken, parts_.end());
}

void PartsAhead::clear() {
  parts_.clear();
  if (std::exchange(joined_, false)) budget_.leave();
}

}  // namespace millrace::io::detail
