// What a command's components are, for programs: `millrace train --help components`, from which
// Python makes its classes (python/millrace/components.py).
//
// Threads: a pure function.
#pragma once

#include <span>
#include <string>

#include "io/component/choice.h"

namespace millrace::tools {

/// A JSON object on a line for each: "kind", "word", "python", "sentence", "arguments" (those of a
/// Python constructor), and "fields", each with its "name" and "sentence".
std::string component_list(std::span<const Table* const> tables);

}  // namespace millrace::tools
