// Where text for people goes: one sink, made in main and handed down.
//
//   Log log = Log::to_stderr();
//   log.warn("shard x.tar: 3 members skipped");
//
// Threads: every member may be called from any thread; a line is never torn.
#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace millrace {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// A handle on a log; copies share it. A default-made Log swallows everything.
class Log {
 public:
  Log() = default;

  /// Plain lines to standard error: "W message" for warnings and errors, the message alone for
  /// info.
  static Log to_stderr(LogLevel least = LogLevel::kInfo);
  /// Appends to the file at `path`, each line after `prefix` (a rank's "host rank 3 | ").
  static Log to_file(const std::string& path, const std::string& prefix = "");

  void debug(std::string_view line) const { write(LogLevel::kDebug, line); }
  void info(std::string_view line) const { write(LogLevel::kInfo, line); }
  void warn(std::string_view line) const { write(LogLevel::kWarn, line); }
  void error(std::string_view line) const { write(LogLevel::kError, line); }
  void write(LogLevel level, std::string_view line) const;

 private:
  explicit Log(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}
  std::shared_ptr<spdlog::logger> logger_;
};

}  // namespace millrace
