#include "io/detail/files/environment.h"

#include <cstdlib>

#include "io/base/error.h"
#include "io/byte_source.h"
#include "io/detail/files/file_source.h"
#include "io/opener.h"

namespace millrace::io::detail {

std::optional<std::string> process_variable(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

std::string variable(const Environment& environment, std::initializer_list<const char*> names,
                     std::string otherwise) {
  if (!environment) return otherwise;
  for (const char* name : names) {
    if (const auto value = environment(name); value && !value->empty()) return *value;
  }
  return otherwise;
}

std::string in_home(const Environment& environment, std::string_view path) {
  const std::string home = variable(environment, {"HOME"});
  return home.empty() ? "" : home + "/" + std::string(path);
}

std::optional<std::string> read_small_file(const std::string& path) {
  constexpr std::size_t kMostBytes = std::size_t{1} << 20;
  if (path.empty()) return std::nullopt;
  try {
    return std::string(read_all(*open_file(path, {}), kMostBytes).text());
  } catch (const Error& error) {
    if (!cannot_be_seen(error)) throw;
    return std::nullopt;
  }
}

std::string read_token_file(const std::string& path) {
  constexpr std::string_view kBlank = " \t\r\n";
  const auto text = read_small_file(path);
  if (!text) throw Error(ErrorCode::kNotFound, "no such token file", {.url = path});
  const std::size_t first = text->find_first_not_of(kBlank);
  if (first == std::string::npos) return "";
  return text->substr(first, text->find_last_not_of(kBlank) - first + 1);
}

}  // namespace millrace::io::detail
