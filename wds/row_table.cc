#include "wds/row_table.h"

#include <utility>

#include "io/base/error.h"
#include "io/base/loaded_module.h"

namespace millrace::wds {
namespace {

#ifdef MILLRACE_ARROW_VERSION
ArrowModuleEntry* arrow_module() {
  return reinterpret_cast<ArrowModuleEntry*>(
      module_entry({.file = "libmillrace_arrow.so",
                    .entry = kArrowModuleEntry,
                    .libraries = "Apache Arrow " MILLRACE_ARROW_VERSION,
                    .remedy = "pip install pyarrow==" MILLRACE_ARROW_VERSION}));
}

std::unique_ptr<RowTable> open_table(std::shared_ptr<const RowRanges> ranges,
                                     const std::string& path) {
  static ArrowModuleEntry* const entry = arrow_module();
  return std::unique_ptr<RowTable>(entry(std::move(ranges), path));
}
#else
std::unique_ptr<RowTable> open_table(const std::shared_ptr<const RowRanges>& /*ranges*/,
                                     const std::string& /*path*/) {
  throw Error(ErrorCode::kUnsupported,
              "this build has no Apache Arrow, which reads such files: install it (pip install "
              "pyarrow, or libarrow-dev and libparquet-dev) and build again");
}
#endif

}  // namespace

std::unique_ptr<RowTable> open_parquet_table(std::shared_ptr<const RowRanges> ranges) {
  return open_table(std::move(ranges), "");
}

std::unique_ptr<RowTable> open_arrow_stream(const std::string& path) {
  return open_table(nullptr, path);
}

}  // namespace millrace::wds
