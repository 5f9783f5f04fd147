// Helpers shared by the program's tests: running it, and making small inputs.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/process.h"
#include "tests/support/temp_dir.h"

namespace millrace::testing {

/// Runs the built program with `words`.
ProcessResult millrace(std::vector<std::string> words, const ProcessOptions& options = {});

/// The lines of `text`, each parsed as JSON.
std::vector<nlohmann::json> json_lines(const std::string& text);

/// `count` synthetic samples of 16 x 16 pixels in shards of `per_shard` under dir/set-%06d.tar;
/// gives the shards' spec. The shards have no indexes.
std::string make_set(const TempDir& dir, int count, int per_shard,
                     const std::vector<std::string>& more = {});

/// An IDX file of bytes.
std::string idx_bytes(const std::vector<int>& shape, const std::string& data);

/// The samples of the shards as `ls` lists them: key, fields with their offset, size and CRC-32.
std::vector<nlohmann::json> list_samples(const std::string& spec);

/// The folder's entries, sorted.
std::vector<std::string> list_dir(const std::string& path);

}  // namespace millrace::testing
