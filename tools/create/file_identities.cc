#include "tools/create/file_identities.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <span>
#include <vector>

#include "io/base/error.h"
#include "io/base/for_each_on_threads.h"
#include "io/base/machine.h"

namespace millrace::tools {
namespace {

constexpr std::uint64_t kBlock = 256;              // files that one thread asks for in a row
constexpr std::uint64_t kFilesAtOnce = 256 * 256;  // files whose lines are in memory

using PathOf = std::function<std::string(std::uint64_t index)>;

void add_line(const std::string& path, std::string& lines) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_errno("open", path, errno);
  // To open a pipe would wait for who writes to it.
  if (!S_ISREG(status.st_mode))
    throw Error(ErrorCode::kInvalidArgument, "no regular file but a folder, pipe, socket or device",
                {.url = path});
  fmt::format_to(std::back_inserter(lines), "{}\n{} {}.{:09}\n", path, status.st_size,
                 status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

/// The lines of the files from `first` to `last`, of a block each.
std::vector<std::string> lines_of(std::uint64_t first, std::uint64_t last, const PathOf& path) {
  std::vector<std::string> blocks((last - first + kBlock - 1) / kBlock);
  for_each_on_threads(blocks.size(), static_cast<std::size_t>(usable_cores()), [&](std::size_t i) {
    const std::uint64_t start = first + i * kBlock;
    for (std::uint64_t file = start; file < std::min(start + kBlock, last); ++file)
      add_line(path(file), blocks[i]);
  });
  return blocks;
}

}  // namespace

void identify_file(const std::string& path, Sha256& into) {
  std::string line;
  add_line(path, line);
  into.update(std::as_bytes(std::span(line)));
}

void identify_files(std::uint64_t count, const PathOf& path, Sha256& into) {
  for (std::uint64_t first = 0; first < count; first += kFilesAtOnce)
    for (const std::string& lines : lines_of(first, std::min(first + kFilesAtOnce, count), path))
      into.update(std::as_bytes(std::span(lines)));
}

}  // namespace millrace::tools
