#include "trainer/detail/monitor.h"

#include <algorithm>
#include <limits>

#include "io/base/error.h"

namespace millrace::trainer::detail {

std::string resolve_monitor(const std::string& wanted, const std::vector<std::string>& measures,
                            bool has_validation) {
  std::vector<std::string> known;
  std::string listed;
  for (const std::string part : {"val_", "train_"}) {
    if (part == "val_" && !has_validation) continue;
    for (const std::string& measure : measures) {
      known.push_back(part + measure);
      listed += (listed.empty() ? "" : ", ") + known.back();
    }
  }
  const auto has = [&](const std::string& name) {
    return std::find(known.begin(), known.end(), name) != known.end();
  };
  if (wanted.empty()) {
    for (const char* name : {"val_top1", "val_miou", "val_loss"}) {
      if (has(name)) return name;
    }
    return "train_loss";
  }
  if (has(wanted)) return wanted;
  throw Error(ErrorCode::kInvalidArgument,
              "no measure is called '" + wanted + "'; there are " + listed);
}

double monitored_value(const std::string& monitor, const EpochEvent& event) {
  const bool val = monitor.starts_with("val_");
  const auto value = find_value(val ? event.val : event.train, monitor.substr(val ? 4 : 6));
  return value.value_or(std::numeric_limits<double>::quiet_NaN());
}

bool less_is_better(const std::string& monitor) {
  return monitor.find("loss") != std::string::npos || monitor.find("rmse") != std::string::npos ||
         monitor.find("error") != std::string::npos;
}

}  // namespace millrace::trainer::detail
