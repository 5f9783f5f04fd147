#include "trainer/pjrt/program_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/base/machine.h"
#include "io/byte_sink.h"

namespace millrace::trainer {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kDigest = 64;  // hexadecimal digits, before the program

void add(Sha256& hash, std::string_view text) {
  const std::uint64_t size = text.size();
  hash.update(std::as_bytes(std::span(&size, 1)));
  hash.update(std::as_bytes(std::span(text)));
}

std::string digest_of(std::string_view bytes) {
  Sha256 hash;
  hash.update(std::as_bytes(std::span(bytes)));
  return hash.hex();
}

/// Programs for the CPU have instructions that another one may lack.
std::string processor_flags() {
  std::ifstream lines("/proc/cpuinfo");
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("flags") || line.starts_with("Features")) return line;
  return {};
}

struct KeptFile {
  fs::file_time_type used;
  std::uint64_t bytes = 0;
  fs::path path;
};

std::vector<KeptFile> files_in(const std::string& folder) {
  std::vector<KeptFile> files;
  std::error_code fault;
  for (fs::directory_iterator at(folder, fault), end; !fault && at != end; at.increment(fault)) {
    std::error_code gone;
    const auto used = at->last_write_time(gone);
    const auto bytes = gone ? 0 : at->file_size(gone);
    if (!gone) files.push_back({used, bytes, at->path()});
  }
  std::ranges::sort(files, {}, &KeptFile::used);
  return files;
}

void remove_oldest(const std::string& folder) {
  const std::vector<KeptFile> files = files_in(folder);
  std::uint64_t all = 0;
  for (const KeptFile& file : files) all += file.bytes;
  for (const KeptFile& file : files) {
    if (all <= ProgramStore::kMostBytes) return;
    std::error_code gone;
    fs::remove(file.path, gone);
    all -= file.bytes;
  }
}

}  // namespace

ProgramStore::ProgramStore(std::string folder, const device::pjrt::Client& client)
    : folder_(std::move(folder)), client_(client) {}

std::string ProgramStore::path_of(std::string_view stablehlo,
                                  const device::pjrt::CompileOptions& options) const {
  Sha256 hash;
  add(hash, stablehlo);
  add(hash, fmt::format("{} {}", options.replicas, options.portable));
  for (const std::int64_t id : options.assignment) add(hash, std::to_string(id));
  for (const auto& [name, value] : options.flags) add(hash, fmt::format("{}={}", name, value));
  add(hash, client_.platform());
  add(hash, client_.platform_version());
  for (const auto& device : client_.devices()) {
    if (options.portable) {
      add(hash, device.kind);
      break;
    }
    add(hash, fmt::format("{} {}", device.id, device.kind));
  }
  const char* const flags = std::getenv("XLA_FLAGS");  // NOLINT(concurrency-mt-unsafe)
  add(hash, flags == nullptr ? "" : flags);            // which plugins read when they compile
  if (client_.platform() == "cpu") add(hash, processor_flags());
  return folder_ + "/" + hash.hex();
}

std::optional<device::pjrt::Program> ProgramStore::find(
    std::string_view stablehlo, const device::pjrt::CompileOptions& options) const {
  if (folder_.empty()) return std::nullopt;
  const std::string path = path_of(stablehlo, options);
  std::ifstream file(path, std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  if (all.size() <= kDigest) return std::nullopt;
  const std::string_view program = std::string_view(all).substr(kDigest);
  if (digest_of(program) != std::string_view(all).substr(0, kDigest)) return std::nullopt;
  try {
    auto loaded = client_.load(program, options);
    std::error_code ignored;
    fs::last_write_time(path, fs::file_time_type::clock::now(), ignored);
    return loaded;
  } catch (const Error&) {
    return std::nullopt;
  }
}

void ProgramStore::keep(const device::pjrt::Program& program, std::string_view stablehlo,
                        const device::pjrt::CompileOptions& options) const {
  if (folder_.empty()) return;
  try {
    const std::optional<std::string> bytes = program.serialised();
    if (!bytes) return;
    fs::create_directories(folder_);
    const auto sink =
        io::open_file_sink(path_of(stablehlo, options), {.replace = io::Replace::kAtomically});
    const std::string digest = digest_of(*bytes);
    sink->write(std::as_bytes(std::span(digest)));
    sink->write(std::as_bytes(std::span(*bytes)));
    sink->finish();
    remove_oldest(folder_);
  } catch (const std::exception&) {  // a full disk, no memory: the next run compiles again
  }
}

std::string default_program_store() { return cache_folder("programs"); }

}  // namespace millrace::trainer
