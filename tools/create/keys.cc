#include "tools/create/keys.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "wds/member_name.h"

namespace millrace::tools {
namespace {

/// Bytes other than printable ASCII are escaped as \xE9.
std::string printable_ascii(const std::string& text) {
  std::string shown;
  for (const char c : text) {
    const bool plain = c >= ' ' && c <= '~';
    shown += plain ? std::string(1, c) : fmt::format("\\x{:02X}", static_cast<unsigned char>(c));
  }
  return shown;
}

void check_key(const std::string& key, const std::string& name) {
  try {
    if (!key.empty()) wds::check_member_name(key);
  } catch (const Error& error) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: {}; rename it", printable_ascii(name), error.message()));
  }
}

}  // namespace

std::string key_of_text(const std::string& text) {
  std::string_view rest = text;
  for (bool more = true; more;) {
    more = false;
    for (const std::string_view front : {"/", "./", "../"}) {
      if (!rest.starts_with(front)) continue;
      rest.remove_prefix(front.size());
      more = true;
    }
  }
  std::string key(rest);
  const std::size_t name = key.rfind('/') + 1;
  std::replace(key.begin() + static_cast<std::ptrdiff_t>(name), key.end(), '.', '_');
  return key;
}

std::string key_of_path(const std::string& path) {
  const std::filesystem::path file(path);
  return key_of_text((file.parent_path() / file.stem()).string());
}

// Compares hashes first, so that the keys of millions of samples need not be in memory at once.
void check_keys(std::uint64_t count, const std::function<std::string(std::uint64_t index)>& key,
                const std::function<std::string(std::uint64_t index)>& name) {
  std::vector<std::pair<std::size_t, std::uint64_t>> hashes;
  hashes.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string own = key(i);
    check_key(own, name(i));
    hashes.emplace_back(std::hash<std::string>{}(own), i);
  }
  std::sort(hashes.begin(), hashes.end());
  for (std::size_t i = 1; i < hashes.size(); ++i) {
    const auto [before, first] = hashes[i - 1];
    const auto [hash, second] = hashes[i];
    if (hash != before || key(first) != key(second)) continue;
    throw Error(ErrorCode::kInvalidArgument, fmt::format("{} and {} would both have the key {}",
                                                         name(first), name(second), key(first)));
  }
}

}  // namespace millrace::tools
