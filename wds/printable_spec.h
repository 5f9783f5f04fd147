// printable_spec: a SPEC without what may be secret, for messages.
//
// Threads: a pure function.
#pragma once

#include <string>

namespace millrace::wds {

/// `text` without the users, passwords, queries and fragments of the urls in it: a SPEC of several
/// parts, between braces too, one with a weight, a command.
std::string printable_spec(const std::string& text);

}  // namespace millrace::wds
