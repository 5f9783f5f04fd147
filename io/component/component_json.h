// Components as JSON: {"name": "erase", "p": 0.25, ...}. Threads: pure functions.
#pragma once

#include <string>
#include <string_view>

#include "io/component/component_text.h"

namespace millrace {

/// Of an object, a string of calls, or an array of either. `what` begins the message:
/// "config.json". Throws: Corrupt for what is not JSON, or too large to be a component.
Written written_json(std::string_view json, std::string_view what);
/// Every field: what a checkpoint records, since defaults change. On one line.
std::string json_text(const Component& component);

}  // namespace millrace
