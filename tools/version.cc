#include "tools/version.h"

#include <archive.h>
#include <curl/curl.h>
#include <fmt/format.h>
#include <tbb/version.h>

#include "io/base/error.h"
#include "io/base/machine.h"
#include "io/base/process_facts.h"
#include "io/base/text.h"
#include "trainer/nn/plan.h"
#ifdef MILLRACE_HAS_MPI
#include "trainer/mpi/mpi_processes.h"
#endif

namespace millrace::tools {
namespace {

constexpr const char* kNoTrainer = "not in this build: it was configured with MILLRACE_TRAINER=OFF";

std::string compiler() {
#ifdef __clang__
  return fmt::format("clang {}.{}.{}", __clang_major__, __clang_minor__, __clang_patchlevel__);
#else
  return fmt::format("GCC {}.{}.{}", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
#endif
}

std::string training() {
  const std::string library = trainer::nn::compute_library();
  if (library.empty()) return kNoTrainer;
  const bool native = trainer::nn::has_native_bfloat16();
  return library + (native ? "" : ": bf16 is float32, rounded");
}

/// "AMD EPYC 9B14, 2 cores, 23.4 GiB".
std::string machine() {
  const std::string processor = processor_name();
  return fmt::format("{}{}{}, {:.1f} GiB", printable(processor), processor.empty() ? "" : ", ",
                     counted(static_cast<std::uint64_t>(usable_cores()), "core"),
                     static_cast<double>(usable_memory()) / (1 << 30));
}

std::string processes() {
#ifdef MILLRACE_HAS_MPI
  return trainer::mpi_library();
#else
  return "one: MPI was not installed when this was built";
#endif
}

std::string tables() {
#ifdef MILLRACE_ARROW_VERSION
  return "Apache Arrow " MILLRACE_ARROW_VERSION;
#else
  return "none: Apache Arrow was not installed when this was built";
#endif
}

}  // namespace

std::string version_text() {
  return fmt::format(
      "millrace {}\n"
      "compiler:  {}\n"
      "machine:   {}\n"
      "training:  {}\n"
      "processes: {}\n"
      "threads:   oneTBB {}\n"
      "network:   {}\n"
      "archives:  {}\n"
      "tables:    {}",
      MILLRACE_VERSION, compiler(), machine(), training(), processes(), TBB_runtime_version(),
      curl_version(), archive_version_details(), tables());
}

void require_trainer() {
  if (trainer::nn::compute_library().empty())
    throw Error(ErrorCode::kUnsupported, std::string("training is ") + kNoTrainer);
}

}  // namespace millrace::tools
