#include "tools/report/parts.h"

#include <fmt/format.h>

#include <algorithm>

#include "tools/report/html.h"

namespace millrace::tools {

const RecordJson& member(const RecordJson& json, const char* name) {
  static const RecordJson kNone;
  if (!json.is_object()) return kNone;
  const auto found = json.find(name);
  return found == json.end() ? kNone : *found;
}

std::string json_value_text(const RecordJson& value) {
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, RecordJson::error_handler_t::replace);
}

std::vector<const RunEvent*> some_of(const std::vector<RunEvent>& all, std::size_t most) {
  std::vector<const RunEvent*> some;
  const std::size_t count = std::min(all.size(), most);
  for (std::size_t i = 0; i < count; ++i)
    some.push_back(&all[count == 1 ? all.size() - 1 : i * (all.size() - 1) / (count - 1)]);
  return some;
}

std::string left_out_text(std::size_t all, std::size_t most) {
  if (all <= most) return {};
  return fmt::format("<p class=\"soft\">These are {} of {} epochs, evenly.</p>\n", most, all);
}

std::string epoch_name(const RunEvent& epoch) {
  const std::string name =
      fmt::format("epoch {:.0f}", number_in(epoch.values, "epoch").value_or(0));
  const double from = number_in(epoch.values, "from_step").value_or(1);
  return from > 1 ? fmt::format("{}, from step {:.0f}", name, from) : name;
}

double train_seconds(const RunRecord& run) {
  double sum = 0;
  for (const RunEvent& epoch : run.epochs)
    sum += number_in(epoch.values, "train_seconds").value_or(0);
  return sum;
}

}  // namespace millrace::tools
