// Log: the sink for human-readable text, made in main and passed down.
//
//   Log log = Log::to_stderr();
//   log.warn("shard x.tar: 3 members skipped");
//
// Threads: every member may be called from any thread; lines are never interleaved.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace spdlog {
class logger;
}

namespace millrace {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

/// A handle on a log; copies share it. A default-constructed Log discards everything.
class Log {
 public:
  Log() = default;

  /// Writes lines to standard error, unbuffered: "warning: MESSAGE", "error: MESSAGE", and the
  /// message alone for debug and info. Lines below `least` are discarded.
  static Log to_stderr(LogLevel least = LogLevel::kInfo);
  /// Appends to the file at `path`, with `prefix` ("host rank 3 | ") before each line. Throws: Io.
  static Log to_file(const std::string& path, const std::string& prefix = "");
  /// Passes each line as it is to `write`, which is called from one thread at a time and must not
  /// throw.
  static Log to_function(std::function<void(LogLevel, const std::string& line)> write);

  void debug(std::string_view line) const { write(LogLevel::kDebug, line); }
  void info(std::string_view line) const { write(LogLevel::kInfo, line); }
  void warn(std::string_view line) const { write(LogLevel::kWarn, line); }
  void error(std::string_view line) const { write(LogLevel::kError, line); }
  void write(LogLevel level, std::string_view line) const;

 private:
  explicit Log(std::shared_ptr<spdlog::logger> logger) : logger_(std::move(logger)) {}
  std::shared_ptr<spdlog::logger> logger_;
  bool labelled_ = true;
};

}  // namespace millrace
