#include "wds/sample.h"

#include <algorithm>

namespace millrace::wds {

const Field* Sample::find(std::string_view suffix) const {
  const auto found = std::find_if(fields.begin(), fields.end(),
                                  [&](const Field& field) { return field.suffix == suffix; });
  return found == fields.end() ? nullptr : &*found;
}

const Field* Sample::find_any(std::string_view suffixes) const {
  while (!suffixes.empty()) {
    const std::size_t end = std::min(suffixes.find(';'), suffixes.size());
    if (const Field* field = find(suffixes.substr(0, end))) return field;
    suffixes.remove_prefix(std::min(end + 1, suffixes.size()));
  }
  return nullptr;
}

std::size_t Sample::num_bytes() const {
  std::size_t total = 0;
  for (const Field& field : fields) total += field.data.size();
  return total;
}

}  // namespace millrace::wds
