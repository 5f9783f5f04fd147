#include "trainer/newest_checkpoint.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "io/base/error.h"
#include "io/base/host.h"
#include "io/base/json.h"
#include "trainer/checkpoint.h"
#include "trainer/detail/collectives/processes.h"
#include "trainer/detail/store/checkpoint_folder.h"

namespace millrace::trainer {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kSentBytes = std::size_t{4} << 20;

/// A host's newest checkpoint; without a name: none.
struct Newest {
  std::string name = {};  ///< "last"
  std::string host = {};
  std::int64_t steps = -1;
  detail::CheckpointManifest manifest = {};
};

std::string to_text(const Newest& newest) {
  return Json{{"name", newest.name},
              {"host", newest.host},
              {"steps", newest.steps},
              {"manifest", newest.name.empty() ? "" : detail::to_json(newest.manifest)}}
      .dump();
}

Newest from_text(const std::string& text) {
  const auto json = parse_json<Json>(text, "another process's checkpoint");
  Newest newest{.name = json.at("name"), .host = json.at("host"), .steps = json.at("steps")};
  if (newest.name.empty()) return newest;
  const auto manifest = parse_json<Json>(json.at("manifest").get<std::string>(), "a manifest");
  for (const auto& [name, entry] : manifest.at("files").items())
    newest.manifest.files[name] = {.bytes = entry.at("bytes"), .sha256 = entry.at("sha256")};
  newest.manifest.run = manifest.value("run", "");
  return newest;
}

bool has_same_files(const std::string& path, const detail::CheckpointManifest& manifest) {
  try {
    return detail::to_json(detail::FolderReader(path, io::UrlOpener()).manifest()) ==
           detail::to_json(manifest);
  } catch (const Error&) {  // none, or none that is of use
    return false;
  }
}

Newest newest_in(const std::string& folder, const Log& log) {
  const std::string path = find_newest_checkpoint(folder, log).path;
  if (path.empty()) return {.host = host_name()};
  return {.name = std::filesystem::path(path).filename().string(),
          .host = host_name(),
          .steps = read_checkpoint_state(path).global_step,
          .manifest = detail::FolderReader(path, io::UrlOpener()).manifest()};
}

/// One process of each host looks, and not where it has what process 0 has: the hosts share it.
Newest other_newest(const std::string& folder, const Newest& first, const Topology& topology) {
  if (topology.process == 0 || topology.node_process != 0) return {};
  if (!first.name.empty() && has_same_files(folder + "/" + first.name, first.manifest)) return {};
  return newest_in(folder, Log());
}

/// A file's pieces, read by the process that has it; every process gets them.
void pass_on(Cluster& cluster, int owner, const std::string& path, std::uint64_t bytes,
             io::ByteSink* sink) {
  const bool reads = cluster.topology().process == owner;
  const auto source = reads ? io::UrlOpener().open(path) : nullptr;
  std::vector<std::byte> piece;
  for (std::uint64_t at = 0; at < bytes; at += piece.size()) {
    piece.resize(static_cast<std::size_t>(std::min<std::uint64_t>(bytes - at, kSentBytes)));
    for (std::size_t got = 0; source && got < piece.size();) {
      const std::size_t more = source->read(std::span(piece).subspan(got));
      if (more == 0)
        throw Error(ErrorCode::kTruncated, "a checkpoint's file ends early", {.url = path});
      got += more;
    }
    cluster.broadcast(piece, owner);
    if (sink != nullptr) sink->write(piece);
  }
}

void copy_to_first(Cluster& cluster, int owner, const std::string& folder, const Newest& newest) {
  const std::string path = folder + "/" + newest.name;
  const auto pass = [&](const std::string& name, io::ByteSink* sink) {
    pass_on(cluster, owner, path + "/" + name, newest.manifest.files.at(name).bytes, sink);
  };
  if (cluster.topology().process != 0) {
    for (const auto& [name, entry] : newest.manifest.files) pass(name, nullptr);
    return;
  }
  detail::CheckpointFiles files{.writers = {}, .run = newest.manifest.run};
  for (const auto& [name, entry] : newest.manifest.files)
    files.writers[name] = [&pass, file = name](io::ByteSink& sink) { pass(file, &sink); };
  detail::write_folder(folder, newest.name, files);
}

}  // namespace

void fetch_newest_checkpoint(Cluster& cluster, const std::string& folder, const Log& log) {
  const Topology topology = cluster.topology();
  if (topology.processes == 1) return;
  const Newest first = from_text(decide(cluster, [&] { return to_text(newest_in(folder, log)); }));
  detail::Processes processes(&cluster, topology.devices);
  Newest best = first;
  int owner = 0;
  int process = 0;
  for (const std::string& text : processes.gather(to_text(other_newest(folder, first, topology)))) {
    Newest one = from_text(text);
    if (one.steps > best.steps) {
      best = std::move(one);
      owner = process;
    }
    ++process;
  }
  if (owner == 0) return;
  log.info(
      fmt::format("the newest checkpoint is on {} (process {}): {}/{} at step {}; {} has {}: it is "
                  "copied there",
                  best.host, owner, folder, best.name, best.steps, first.host,
                  first.name.empty() ? "none" : fmt::format("one at step {}", first.steps)));
  copy_to_first(cluster, owner, folder, best);
}

}  // namespace millrace::trainer
