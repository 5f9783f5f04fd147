// program_file: a StableHLO program in a file, and what its arguments and results are in another.
//
// Threads: pure functions.
#pragma once

#include <string>

#include "io/opener.h"
#include "trainer/hlo/program.h"

namespace millrace::tools {

/// Writes the module to `path` and its arguments and results to `path`.json, each complete or not
/// at all; files of these names are replaced. Throws: as open_output_file(); Io.
void write_program(const trainer::hlo::Program& program, const std::string& path,
                   const io::Opener& opener);

}  // namespace millrace::tools
