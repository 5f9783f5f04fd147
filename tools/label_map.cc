#include "tools/label_map.h"

#include <span>
#include <string_view>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/byte_sink.h"
#include "tools/output_place.h"
#include "wds/set_file.h"

namespace millrace::tools {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{64} * 1024 * 1024;
constexpr std::size_t kMaxNameBytes = 1000;

bool has_own_place(const std::string& shard) {
  return !io::is_stream_url(shard) && shard.find(".tar") != std::string::npos;
}

}  // namespace

std::string label_map_url(const std::string& shard) { return wds::set_file(shard, "classes.txt"); }

std::vector<std::string> read_names(const io::Opener& opener, const std::string& url) {
  const io::Bytes bytes = io::read_object(opener, url, kMaxBytes);
  std::vector<std::string> names;
  std::string_view rest = bytes.text();
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find('\n'), rest.size());
    names.push_back(printable(rest.substr(0, end), kMaxNameBytes));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return names;
}

std::vector<std::string> read_label_map(const io::Opener& opener, const std::string& shard) {
  if (!has_own_place(shard)) return {};
  try {
    return read_names(opener, label_map_url(shard));
  } catch (const Error& error) {
    if (!cannot_be_seen(error)) throw;
    return {};
  }
}

void write_label_map(const io::Opener& opener, const std::vector<std::string>& names,
                     const std::string& path) {
  const auto sink = open_output_file(opener, path, io::Replace::kAtomically);
  for (const std::string& name : names) {
    const std::string line = name + "\n";
    sink->write(std::as_bytes(std::span(line)));
  }
  sink->finish();
}

}  // namespace millrace::tools
