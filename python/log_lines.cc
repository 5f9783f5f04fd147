#include "python/log_lines.h"

#include <nanobind/nanobind.h>

#include <string>
#include <utility>
#include <vector>

#include "io/base/thread_annotations.h"

namespace millrace::python {
namespace {

namespace nb = nanobind;

/// The numbers of Python's logging.
int level_number(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return 10;
    case LogLevel::kInfo:
      return 20;
    case LogLevel::kWarn:
      return 30;
    case LogLevel::kError:
      return 40;
  }
  return 20;
}

using Line = std::pair<LogLevel, std::string>;

}  // namespace

struct LogLines::Kept {
  Mutex mutex;
  std::vector<Line> lines MILLRACE_GUARDED_BY(mutex);
  std::size_t lost MILLRACE_GUARDED_BY(mutex) = 0;

  void add(LogLevel level, const std::string& line) {
    MutexLock lock(mutex);
    if (lines.size() == kMostLines)
      ++lost;
    else
      lines.emplace_back(level, line);
  }

  std::vector<Line> take() {
    MutexLock lock(mutex);
    if (const std::size_t count = std::exchange(lost, 0); count > 0)
      lines.emplace_back(LogLevel::kWarn, std::to_string(count) + " more lines were not kept");
    return std::exchange(lines, {});
  }
};

LogLines::LogLines() : kept_(std::make_shared<Kept>()) {}

Log LogLines::log() const {
  return Log::to_function(
      [kept = kept_](LogLevel level, const std::string& line) { kept->add(level, line); });
}

void LogLines::pass_on() {
  const std::vector<Line> lines = kept_->take();
  if (lines.empty()) return;
  const nb::object logger = nb::module_::import_("logging").attr("getLogger")("millrace");
  for (const auto& [level, line] : lines)
    logger.attr("log")(level_number(level), "%s", nb::str(line.data(), line.size()));
}

}  // namespace millrace::python
