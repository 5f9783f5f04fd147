// ProgramStore: compiled programs in a folder, for the next run of the same one.
//
// A file is a program of one plugin's version, kind of device and processor; one that is damaged,
// or cannot be written, is as good as none. The oldest go when all are larger than `kMostBytes`.
//
// Threads: from any, also of other processes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "device/pjrt/client.h"

namespace millrace::trainer {

class ProgramStore {
 public:
  static constexpr std::uint64_t kMostBytes = std::uint64_t{2} << 30;

  /// Of the client's programs. An empty folder: nothing is kept.
  ProgramStore(std::string folder, const device::pjrt::Client& client);

  /// The program that was kept; nullopt: none.
  std::optional<device::pjrt::Program> find(std::string_view stablehlo,
                                            const device::pjrt::CompileOptions& options) const;
  void keep(const device::pjrt::Program& program, std::string_view stablehlo,
            const device::pjrt::CompileOptions& options) const;

 private:
  std::string path_of(std::string_view stablehlo,
                      const device::pjrt::CompileOptions& options) const;

  std::string folder_;
  const device::pjrt::Client& client_;
};

/// $XDG_CACHE_HOME/millrace/programs, or below ~/.cache; empty if neither variable is set.
std::string default_program_store();

}  // namespace millrace::trainer
