#include "trainer/metrics_log.h"

#include <cerrno>

#include "io/base/error.h"

namespace millrace::trainer {

MetricsLog::MetricsLog(const std::string& path) : path_(path), file_(path, std::ios::app) {
  if (!file_) throw_errno("open", path_, errno);
}

void MetricsLog::write(const std::string& line) {
  file_ << line << '\n' << std::flush;
  if (!file_) throw_errno("write", path_, errno);
}

}  // namespace millrace::trainer
