#include "tools/same_samples.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <vector>

#include "io/base/error.h"
#include "tools/shared_work.h"

namespace millrace::tools {

void check_same_samples(trainer::Cluster& cluster, std::span<const trainer::Setting> own,
                        const std::string& advice) {
  if (cluster.topology().processes == 1) return;
  const auto all = of_processes(cluster, trainer::settings_to_json(own));
  const auto settings_of = [&](std::size_t process) {
    return trainer::settings_from_json(all[process].get<std::string>());
  };
  for (std::size_t process = 1; process < all.size(); ++process) {
    const auto lines =
        trainer::setting_differences(settings_of(0), "in process 0", settings_of(process),
                                     fmt::format("in process {}", process));
    if (lines.empty()) continue;
    cluster.fail_alike();
    throw Error(ErrorCode::kCorrupt, fmt::format("the processes see different samples: {}: {}",
                                                 fmt::join(lines, "; "), advice));
  }
}

std::string hash_text(const std::string& hex) {
  constexpr std::size_t kCompared = 32;
  return "SHA-256 " + hex.substr(0, kCompared) + "...";
}

}  // namespace millrace::tools
