#include "wds/member_name.h"

#include <algorithm>

#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::wds {
namespace {

constexpr std::size_t kMaxNameBytes = 4096;

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

}  // namespace

// Equivalent to `^((?:.*/|)[^.]+)[.]([^/]*)$`, where `.` does not match a newline. The suffix has
// no slash, so its dot is the first of the base name. Before the dot comes a prefix that is empty
// or ends in a slash (and has no newline), then at least one character and no further dot.
std::optional<MemberName> split_member_name(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  const std::size_t dot = path.find('.', slash == std::string_view::npos ? 0 : slash + 1);
  if (dot == std::string_view::npos || dot == 0) return {};
  const std::size_t prefix_end = path.substr(0, std::min(path.find('\n'), dot - 1)).rfind('/');
  const std::size_t run = prefix_end == std::string_view::npos ? 0 : prefix_end + 1;
  if (path.substr(run, dot - run).find('.') != std::string_view::npos) return {};
  MemberName name{path.substr(0, dot), std::string(path.substr(dot + 1))};
  std::transform(name.suffix.begin(), name.suffix.end(), name.suffix.begin(), lower);
  return name;
}

// Either `__[^/]*__($|/)` matches at the beginning of the name; or the name has no slash and begins
// and ends with `__`, where the two may overlap ("__" and "___").
bool is_metadata_member(std::string_view path) {
  const std::string_view part = path.substr(0, path.find('/'));
  const std::size_t least = part.size() == path.size() ? 2 : 4;
  return part.size() >= least && part.starts_with("__") && part.ends_with("__");
}

std::string suffix_part(std::string_view column) {
  std::string name;
  for (const char c : column) {
    const bool capital = c >= 'A' && c <= 'Z';
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '_' || c == '-';
    name += capital ? static_cast<char>(c - 'A' + 'a') : plain ? c : '_';
  }
  return name;
}

void check_member_name(std::string_view path) {
  const char* reason = nullptr;
  if (path.empty()) reason = "member has no name";
  if (path.size() > kMaxNameBytes) reason = "member's name is longer than 4096 bytes";
  if (path.find('\0') != std::string_view::npos) reason = "member's name holds a NUL";
  if (!reason && !is_utf8(path)) reason = "member's name is not UTF-8";
  if (reason) throw Error(ErrorCode::kCorrupt, reason);
}

}  // namespace millrace::wds
