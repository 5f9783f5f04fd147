#include "tools/create/file_identities.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <exception>
#include <iterator>
#include <span>
#include <vector>

#include "io/base/error.h"
#include "io/base/machine.h"
#include "io/base/threads.h"

namespace millrace::tools {
namespace {

constexpr std::uint64_t kBlock = 256;              // files that one thread asks for in a row
constexpr std::uint64_t kFilesAtOnce = 256 * 256;  // files whose lines are in memory

using PathOf = std::function<std::string(std::uint64_t index)>;

/// Lines of consecutive files, or why there are none.
struct Block {
  std::string lines;
  std::exception_ptr fault;
};

void add_line(const std::string& path, std::string& lines) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw_errno("open", path, errno);
  fmt::format_to(std::back_inserter(lines), "{}\n{} {}.{:09}\n", path, status.st_size,
                 status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
}

void fill(Block& block, std::uint64_t first, std::uint64_t last, const PathOf& path) {
  try {
    for (std::uint64_t i = first; i < last; ++i) add_line(path(i), block.lines);
  } catch (...) {
    block.fault = std::current_exception();
  }
}

std::vector<Block> blocks_of(std::uint64_t first, std::uint64_t last, const PathOf& path) {
  std::vector<Block> blocks((last - first + kBlock - 1) / kBlock);
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < blocks.size(); i = next++) {
      const std::uint64_t start = first + i * kBlock;
      fill(blocks[i], start, std::min(start + kBlock, last), path);
    }
  };
  run_on_threads(std::min(blocks.size(), static_cast<std::size_t>(usable_cores())), work);
  return blocks;
}

}  // namespace

void identify_file(const std::string& path, Sha256& into) {
  std::string line;
  add_line(path, line);
  into.update(std::as_bytes(std::span(line)));
}

void identify_files(std::uint64_t count, const PathOf& path, Sha256& into) {
  for (std::uint64_t first = 0; first < count; first += kFilesAtOnce) {
    for (const Block& block : blocks_of(first, std::min(first + kFilesAtOnce, count), path)) {
      if (block.fault) std::rethrow_exception(block.fault);
      into.update(std::as_bytes(std::span(block.lines)));
    }
  }
}

}  // namespace millrace::tools
