#include "tools/train/program_file.h"

#include <span>

#include "tools/output_place.h"

namespace millrace::tools {
namespace {

void write_text(const std::string& text, const std::string& path, const io::Opener& opener) {
  const auto sink = open_output_file(opener, path, io::Replace::kAtomically);
  sink->write(std::as_bytes(std::span(text)));
  sink->finish();
}

}  // namespace

void write_program(const trainer::hlo::Program& program, const std::string& path,
                   const io::Opener& opener) {
  write_text(program.text, path, opener);
  write_text(trainer::hlo::program_json(program), path + ".json", opener);
}

}  // namespace millrace::tools
