// A shard's report on its way to another process of the run.
//
// Threads: pure functions.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/verify/shard_check.h"

namespace millrace::tools {

nlohmann::json pack(const ShardReport& report);
ShardReport unpack_report(const nlohmann::json& packed);

}  // namespace millrace::tools
