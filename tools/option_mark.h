// Marks on options. CLI11 keeps nothing of a program's own with an option but its validators: one
// that is inactive is a mark.
//
//   app.add_option("--model", ...)->check(mark("short-help"));
//   if (is_marked(option, "short-help")) ...
//
// Threads: pure functions.
#pragma once

#include <CLI/App.hpp>
#include <string>

namespace millrace::tools {

inline CLI::Validator mark(const char* name) {
  return CLI::Validator([](std::string& /*text*/) { return std::string(); }, "", name)
      .active(false);
}

inline bool is_marked(const CLI::Option& option, const char* name) {
  try {  // CLI11 looks a validator up, without changing it, in options that are not const alone
    return const_cast<CLI::Option&>(option).get_validator(name) != nullptr;
  } catch (const CLI::OptionNotFound&) {
    return false;
  }
}

}  // namespace millrace::tools
