// Arguments of Python calls: those that there are, and what help and type checkers are told of
// them.
//
// Threads: the GIL is held.
#pragma once

#include <nanobind/nanobind.h>

#include <string>
#include <vector>

namespace millrace::python {

/// Throws: type_error, with the nearest name, for a keyword that is none of `names`. `of`: the
/// class or function.
void check_names(const std::string& of, const nanobind::dict& given,
                 const std::vector<std::string>& names);

/// "def __init__(self, suffixes: str = 'cls', ...) -> None" of a function of nanobind's, `make`,
/// that has the same arguments but for self. A default that a stub cannot have is "...".
std::string init_signature(const nanobind::object& make);

}  // namespace millrace::python
