#include "trainer/parameters.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "io/base/error.h"

namespace millrace::trainer {

std::size_t ParameterTable::add(std::string name, std::vector<std::int64_t> shape, bool decay) {
  if (find(name) != nullptr) {
    throw Error(ErrorCode::kInvalidArgument, "a model has two parameters named " + name);
  }
  constexpr std::size_t kAlignment = 16;
  const auto size = static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  entries_.push_back({std::move(name), std::move(shape), padded_size_, size, decay});
  padded_size_ += (size + kAlignment - 1) / kAlignment * kAlignment;
  return entries_.size() - 1;
}

const Parameter* ParameterTable::find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Parameter& entry) { return entry.name == name; });
  return found == entries_.end() ? nullptr : &*found;
}

std::size_t ParameterTable::num_values() const {
  std::size_t total = 0;
  for (const Parameter& entry : entries_) total += entry.size;
  return total;
}

}  // namespace millrace::trainer
