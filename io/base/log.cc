#include "io/base/log.h"

#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <mutex>
#include <utility>

#include "io/base/error.h"

namespace millrace {
namespace {

spdlog::level::level_enum spdlog_level(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarn:
      return spdlog::level::warn;
    case LogLevel::kError:
      return spdlog::level::err;
  }
  return spdlog::level::info;
}

std::string_view label(LogLevel level) {
  switch (level) {
    case LogLevel::kWarn:
      return "warning: ";
    case LogLevel::kError:
      return "error: ";
    default:
      return "";
  }
}

LogLevel level_of(spdlog::level::level_enum level) {
  if (level >= spdlog::level::err) return LogLevel::kError;
  if (level == spdlog::level::warn) return LogLevel::kWarn;
  return level == spdlog::level::info ? LogLevel::kInfo : LogLevel::kDebug;
}

class FunctionSink final : public spdlog::sinks::base_sink<std::mutex> {
 public:
  using Write = std::function<void(LogLevel, const std::string&)>;
  explicit FunctionSink(Write write) : write_(std::move(write)) {}

 private:
  void sink_it_(const spdlog::details::log_msg& line) override {
    write_(level_of(line.level), std::string(line.payload.data(), line.payload.size()));
  }
  void flush_() override {}

  Write write_;
};

}  // namespace

Log Log::to_stderr(LogLevel least) {
  auto sink = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  auto logger = std::make_shared<spdlog::logger>("millrace", std::move(sink));
  logger->set_pattern("%v");
  logger->set_level(spdlog_level(least));
  logger->flush_on(spdlog::level::trace);
  return Log(std::move(logger));
}

Log Log::to_file(const std::string& path, const std::string& prefix) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(path);
    auto logger = std::make_shared<spdlog::logger>("millrace", std::move(sink));
    logger->set_pattern(prefix + "%v");
    logger->flush_on(spdlog::level::trace);
    return Log(std::move(logger));
  } catch (const spdlog::spdlog_ex& problem) {
    throw Error(ErrorCode::kIo, problem.what(), {.url = path});
  }
}

Log Log::to_function(std::function<void(LogLevel, const std::string&)> write) {
  auto sink = std::make_shared<FunctionSink>(std::move(write));
  auto logger = std::make_shared<spdlog::logger>("millrace", std::move(sink));
  logger->set_level(spdlog::level::trace);
  Log log(std::move(logger));
  log.labelled_ = false;
  return log;
}

void Log::write(LogLevel level, std::string_view line) const {
  if (logger_) logger_->log(spdlog_level(level), "{}{}", labelled_ ? label(level) : "", line);
}

}  // namespace millrace
