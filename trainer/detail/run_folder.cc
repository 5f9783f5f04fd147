#include "trainer/detail/run_folder.h"

#include <unistd.h>

#include <array>
#include <filesystem>
#include <span>
#include <system_error>

#include "io/base/error.h"
#include "io/byte_sink.h"

namespace millrace::trainer::detail {
namespace {

std::string host_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "localhost";
}

void write_config(const std::string& path, const std::string& json) {
  const auto sink = io::open_file_sink(path, {.replace = io::Replace::kAtomically});
  sink->write(std::as_bytes(std::span(json)));
  sink->finish();
}

}  // namespace

RunFolder::RunFolder(const std::string& path, const std::string& config_json, int world) {
  if (path.empty()) return;
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (error) throw_errno("create folder", path, error.value());
  if (!config_json.empty()) write_config(path + "/config.json", config_json);
  metrics_ = std::make_unique<MetricsLog>(path + "/metrics.jsonl");
  const std::string host = host_name();
  for (int rank = 0; rank < world; ++rank) {
    const std::string number = std::to_string(rank);
    rank_logs_.push_back(
        Log::to_file(path + "/rank-" + number + ".log", host + " rank " + number + " | "));
  }
}

void RunFolder::line(int rank, const std::string& text) const {
  if (!rank_logs_.empty()) rank_logs_[static_cast<std::size_t>(rank)].info(text);
}

}  // namespace millrace::trainer::detail
