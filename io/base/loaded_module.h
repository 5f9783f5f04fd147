// A loaded module: a shared library of millrace's own, for what needs large libraries that few runs
// use. It is loaded when it is first needed, and stays until the program ends.
//
//   static auto* const open = reinterpret_cast<Open*>(module_entry(
//       {.file = "libmillrace_arrow.so", .entry = "millrace_open_row_table",
//        .libraries = "Apache Arrow", .remedy = "pip install pyarrow"}));
//
// Threads: any.
#pragma once

#include <string>

namespace millrace {

struct LoadedModule {
  std::string file;       ///< Beside this code, or where libraries are installed.
  std::string entry;      ///< What it exports.
  std::string libraries;  ///< What it needs, for messages.
  std::string remedy;     ///< How that is installed.
};

/// What the module exports. Throws: Unsupported, with the remedy, if it cannot be loaded.
void* module_entry(const LoadedModule& module);

}  // namespace millrace
