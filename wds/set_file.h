// The files beside a set's shards that are of all of them: its manifest, its class names.
//
//   set_file("out/train-000000.tar", "manifest.json")   // "out/train-manifest.json"
//
// Threads: a pure function.
#pragma once

#include <string>
#include <string_view>

namespace millrace::wds {

/// The path or url of the file `name` of the set that `shard` is one of.
std::string set_file(const std::string& shard, std::string_view name);

}  // namespace millrace::wds
