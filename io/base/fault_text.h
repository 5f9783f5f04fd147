// One line for people about any exception; for an Error it is what(). What a library throws has a
// text that was written for programmers ("std::bad_alloc").
//
// Threads: any.
#pragma once

#include <exception>
#include <string>

namespace millrace {

std::string fault_text(const std::exception& fault);
/// Requires: `fault` holds an exception.
std::string fault_text(const std::exception_ptr& fault);

}  // namespace millrace
