#include "tools/process_table.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <set>

namespace millrace::tools {
namespace {

constexpr std::size_t kMostHosts = 64;

using Row = std::array<std::string, 4>;

/// "0-3,8".
std::string ranges_of(const std::vector<int>& numbers) {
  std::string text;
  for (std::size_t i = 0; i < numbers.size();) {
    std::size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    text += (text.empty() ? "" : ",") + std::to_string(numbers[i]);
    if (last > i) text += fmt::format("-{}", numbers[last]);
    i = last + 1;
  }
  return text;
}

Row row_of(const std::string& host, const std::vector<ProcessPlace>& places, int devices) {
  std::vector<int> processes;
  std::vector<int> ranks;
  std::set<int> threads;
  for (int process = 0; process < static_cast<int>(places.size()); ++process) {
    const ProcessPlace& place = places[static_cast<std::size_t>(process)];
    if (place.host != host) continue;
    processes.push_back(process);
    for (int device = 0; device < devices; ++device) ranks.push_back(process * devices + device);
    threads.insert(place.threads);
  }
  return {host, ranges_of(processes), ranges_of(ranks),
          ranges_of({threads.begin(), threads.end()})};
}

std::string table_text(const std::vector<Row>& rows) {
  std::array<std::size_t, 4> widths{};
  for (const Row& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  std::string text;
  for (const Row& row : rows)
    text += fmt::format("{}{:{}}  {:{}}  {:{}}  {}", text.empty() ? "" : "\n", row[0], widths[0],
                        row[1], widths[1], row[2], widths[2], row[3]);
  return text;
}

}  // namespace

std::string process_table(const std::vector<ProcessPlace>& places, int devices) {
  std::vector<std::string> hosts;
  for (const ProcessPlace& place : places)
    if (std::ranges::find(hosts, place.host) == hosts.end()) hosts.push_back(place.host);
  std::vector<Row> rows{{"host", "processes", "ranks", "threads per device"}};
  for (std::size_t i = 0; i < std::min(hosts.size(), kMostHosts); ++i)
    rows.push_back(row_of(hosts[i], places, devices));
  std::string text = table_text(rows);
  if (hosts.size() > kMostHosts)
    text += fmt::format("\nand {} hosts more", hosts.size() - kMostHosts);
  return text;
}

}  // namespace millrace::tools
