#include "trainer/parameters.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "io/base/error.h"

namespace millrace::trainer {
namespace {

void require_new(const ParameterTable& table, const std::string& name) {
  if (table.find(name) == nullptr) return;
  throw Error(ErrorCode::kInvalidArgument, "a model has two parameters named " + name);
}

}  // namespace

std::string layer_of(std::string_view parameter) {
  return std::string(parameter.substr(0, parameter.rfind('.')));
}

std::size_t ParameterTable::add(std::string name, std::vector<std::int64_t> shape, bool decay) {
  require_new(*this, name);
  constexpr std::size_t kAlignment = 16;
  const auto size = static_cast<std::size_t>(
      std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()));
  entries_.push_back({std::move(name), std::move(shape), padded_size_, size, decay});
  padded_size_ += (size + kAlignment - 1) / kAlignment * kAlignment;
  return entries_.size() - 1;
}

void ParameterTable::add_alias(std::size_t index, std::string name) {
  require_new(*this, name);
  entries_.at(index).aliases.push_back(std::move(name));
}

std::string ParameterTable::head() const {
  if (!head_.empty() || entries_.empty()) return head_;
  return layer_of(entries_.front().name);
}

const Parameter* ParameterTable::find(std::string_view name) const {
  const auto found = std::find_if(entries_.begin(), entries_.end(), [&](const Parameter& entry) {
    return entry.name == name || std::ranges::find(entry.aliases, name) != entry.aliases.end();
  });
  return found == entries_.end() ? nullptr : &*found;
}

std::size_t ParameterTable::num_values() const {
  std::size_t total = 0;
  for (const Parameter& entry : entries_) total += entry.size;
  return total;
}

std::size_t ParameterTable::num_untied_values() const {
  std::size_t total = 0;
  for (const Parameter& entry : entries_) total += entry.size * (1 + entry.aliases.size());
  return total;
}

}  // namespace millrace::trainer
