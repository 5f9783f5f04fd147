#include "tools/mpirun_settings.h"

#include <fmt/format.h>

#include <charconv>
#include <fstream>
#include <string_view>

#include "tools/text_edit.h"

namespace millrace::tools {
namespace {

constexpr std::string_view kBlanks = " \t\"";

/// "name = value", a line each.
std::optional<std::string> setting_in(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::optional<std::string> found;
  for (std::string line; std::getline(file, line);) {
    const std::size_t equals = line.find('=');
    if (equals == std::string::npos) continue;
    const std::string_view text = line;
    if (trimmed(text.substr(0, equals), kBlanks) == name)
      found = trimmed(text.substr(equals + 1), kBlanks);
  }
  return found;
}

double setting_number(const Environment& environment, const std::string& name, double otherwise) {
  const std::string text = mca_setting(environment, name).value_or("");
  double value = otherwise;
  const auto end = text.data() + text.size();
  const auto [stopped, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && stopped == end ? value : otherwise;
}

}  // namespace

bool is_of_mpirun(const Environment& environment) {
  return environment("OMPI_COMM_WORLD_SIZE").has_value();
}

std::optional<std::string> mca_setting(const Environment& environment, const std::string& name) {
  if (auto given = environment("OMPI_MCA_" + name)) return given;
  const std::string home = environment("HOME").value_or("");
  if (auto own = setting_in(home + "/.openmpi/mca-params.conf", name)) return own;
  return setting_in("/etc/openmpi/openmpi-mca-params.conf", name);
}

// The defaults are those of Open MPI 4.1.
double mpirun_kill_seconds(const Environment& environment) {
  return setting_number(environment, "odls_base_sigkill_timeout", 1);
}

double mpirun_lost_host_seconds(const Environment& environment) {
  return setting_number(environment, "oob_tcp_keepalive_time", 300) +
         setting_number(environment, "oob_tcp_keepalive_intvl", 20) *
             setting_number(environment, "oob_tcp_keepalive_probes", 9);
}

}  // namespace millrace::tools
