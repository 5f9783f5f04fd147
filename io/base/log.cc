#include "io/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

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

void Log::write(LogLevel level, std::string_view line) const {
  if (logger_) logger_->log(spdlog_level(level), "{}{}", label(level), line);
}

}  // namespace millrace
