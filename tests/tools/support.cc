#include "tests/tools/support.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

namespace millrace::testing {

ProcessResult millrace(std::vector<std::string> words, const ProcessOptions& options) {
  words.insert(words.begin(), MILLRACE_PROGRAM);
  ProcessOptions without_cache = options;  // tests leave nothing in the user's
  without_cache.environment.try_emplace("XDG_CACHE_HOME", "/dev/null");
  return run_process(words, without_cache);
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::string make_set(const TempDir& dir, int count, int per_shard,
                     const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      "create",     dir / "set-%06d.tar",      "--synthetic", "classes",
      "--count",    std::to_string(count),     "--size",      "16",
      "--maxcount", std::to_string(per_shard), "--no-index"};
  words.insert(words.end(), more.begin(), more.end());
  const ProcessResult result = millrace(words);
  EXPECT_EQ(result.status, 0) << result.err;
  const int last = (count - 1) / per_shard;
  std::string number = std::to_string(last);
  number.insert(0, 6 - number.size(), '0');
  return dir / ("set-{000000.." + number + "}.tar");
}

std::string idx_bytes(const std::vector<int>& shape, const std::string& data) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  for (const int size : shape)
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(size >> shift));
  return bytes + data;
}

std::vector<nlohmann::json> list_samples(const std::string& spec) {
  const ProcessResult result = millrace({"ls", "--json", spec});
  EXPECT_EQ(result.status, 0) << result.err;
  return json_lines(result.out);
}

std::vector<std::string> list_dir(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace millrace::testing
