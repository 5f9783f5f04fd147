#include "trainer/same_data.h"

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <vector>

#include "io/base/error.h"
#include "io/base/host.h"
#include "trainer/setting.h"

namespace millrace::trainer {
namespace {

std::string owner_text(int process, const std::string& host) {
  return fmt::format("in process {} on {}", process, host);
}

/// How this process's data differs from process 0's; empty if it does not.
std::string data_difference(const pipeline::DataIdentity& first, const std::string& first_host,
                            const pipeline::DataIdentity& own, int process) {
  const pipeline::IdentityOwners owners{.one = owner_text(0, first_host),
                                        .other = owner_text(process, host_name())};
  const std::string list = list_difference(first, own, owners);
  return list.empty() ? content_difference(first, own, owners) : list;
}

std::vector<Setting> order_settings(const std::string& what,
                                    const std::optional<pipeline::DataIdentity>& own) {
  std::vector<Setting> settings;
  if (!own) return settings;
  for (const auto& [name, value] : own->options)
    settings.push_back({.name = fmt::format("{} of the {}", name, what), .value = value});
  return settings;
}

}  // namespace

void check_same_data(Cluster& cluster, const std::string& what,
                     const std::optional<pipeline::DataIdentity>& own) {
  if (cluster.topology().processes == 1) return;
  const int process = cluster.topology().process;
  const std::string host = decide(cluster, [] { return host_name(); });
  const std::string told = decide(cluster, [&] { return own ? own->to_json() : std::string(); });
  std::string difference;
  if (own && !told.empty() && process != 0)
    difference = data_difference(pipeline::DataIdentity::from_json(told), host, *own, process);
  for (const auto& bytes : cluster.all_gather(std::as_bytes(std::span(difference)))) {
    if (bytes.empty()) continue;
    cluster.fail_alike();
    throw Error(
        ErrorCode::kCorrupt,
        fmt::format("the processes see different data as the {}: {}", what,
                    std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size())));
  }
  check_alike(cluster, order_settings(what, own));
}

}  // namespace millrace::trainer
