// The value of an option that names where results go, or a folder that an earlier command wrote: a
// path, whose `~` is the home folder as in shard specs, or a url.
//
//   app.add_option("-o,--output", output_, "...")->transform(output_path());
//
// Threads: a pure function.
#pragma once

#include <CLI/App.hpp>

namespace millrace::tools {

CLI::Validator output_path();

}  // namespace millrace::tools
