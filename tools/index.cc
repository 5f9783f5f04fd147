// millrace index: writes shards' indexes next to them, and a manifest of the set.
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <unordered_map>

#include "io/base/error.h"
#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/local_path.h"
#include "tools/commands.h"
#include "tools/index/index_place.h"
#include "tools/option_settings.h"
#include "tools/output_place.h"
#include "tools/per_shard.h"
#include "tools/progress.h"
#include "tools/read_options.h"
#include "tools/run_processes.h"
#include "tools/shared_work.h"
#include "tools/values.h"
#include "wds/manifest.h"
#include "wds/shard_index.h"

namespace millrace::tools {
namespace {

namespace fs = std::filesystem;

/// The result for one shard; without `index` the fault policy skipped it.
struct Indexed {
  std::string url;
  std::string place = {};
  std::optional<wds::ManifestShard> entry = {};
  bool kept = false;
};

bool is_packed(const std::string& path) {
  const std::string ending = fs::path(path).extension().string();
  return ending != ".tar";
}

/// An index of another version of the shard would do harm.
void check_fresh(const wds::ShardIndex& index, const std::string& shard) {
  const auto path = io::local_path(shard);
  if (!path) return;
  const std::uint64_t bytes = fs::file_size(*path);
  if (bytes == index.bytes) return;
  throw Error(
      ErrorCode::kCorrupt,
      fmt::format("its index is of a shard of {} bytes, this one has {}: --force rebuilds it",
                  index.bytes, bytes),
      {.url = shard});
}

std::string file_name(const wds::ManifestShard& shard) {
  return fs::path(shard.url).filename().string();
}

/// Whether `manifest` lists all of `shards`, with the same data for each.
bool lists_all(const wds::Manifest& manifest, const wds::Manifest& shards) {
  std::unordered_map<std::string, const wds::ManifestShard*> listed;
  for (const wds::ManifestShard& shard : manifest.shards) listed.emplace(file_name(shard), &shard);
  return std::all_of(shards.shards.begin(), shards.shards.end(), [&](const auto& shard) {
    const auto found = listed.find(file_name(shard));
    return found != listed.end() && found->second->samples == shard.samples &&
           found->second->bytes == shard.bytes;
  });
}

/// `manifest`, with what `before` says of shards that are still there and not of `asked`.
wds::Manifest with_others(const wds::Manifest& before, const wds::Manifest& manifest,
                          const std::set<std::string>& asked, const io::Opener& opener) {
  std::unordered_map<std::string, const wds::ManifestShard*> own;
  for (const wds::ManifestShard& shard : manifest.shards) own.emplace(file_name(shard), &shard);
  wds::Manifest whole = manifest;
  whole.shards.clear();
  for (const wds::ManifestShard& shard : before.shards) {
    const auto found = own.find(file_name(shard));
    if (!asked.contains(file_name(shard)) && output_exists(opener, shard.url))
      whole.shards.push_back(shard);
    if (found != own.end()) whole.shards.push_back(*found->second);
    if (found != own.end()) own.erase(found);
  }
  for (const wds::ManifestShard& shard : manifest.shards)
    if (own.contains(file_name(shard))) whole.shards.push_back(shard);
  return whole;
}

class IndexCommand final : public Command {
 public:
  std::string name() const override { return "index"; }
  std::string summary() const override {
    return "Writes an index of each shard, and a manifest of the set";
  }
  std::string example() const override {
    return "  millrace index 'train-{000000..000019}.tar'\n"
           "  millrace index 'https://host/train-{000000..000019}.tar' -o indexes\n";
  }

  void declare(CLI::App& app) override {
    read_.declare(app);
    app.remove_option(app.get_option("--require-index"));  // it creates what is missing
    app.add_option("-o,--output", places_.folder,
                   "Folder for indexes and manifest; default: beside each shard")
        ->type_name("DIR")
        ->transform(output_path());
    app.add_option("--manifest", places_.manifest,
                   "The manifest's name [PREFIX-manifest.json beside the indexes]")
        ->type_name("FILE")
        ->transform(output_path());
    app.add_flag("--dali", dali_, "Write DALI's indexes (.idx, v1.2) too");
    app.add_flag(
        "--force", force_,
        "Rebuild existing indexes; the manifest keeps its other shards that are still there");
    app.add_option("--threads", threads_, "Shards read at once; 0: one per core")
        ->transform(whole_number(0, kMaxThreads))
        ->check(own_of_process());
  }

  void check() override {
    read_.check();
    for (const std::string& place : {places_.folder, places_.manifest})
      if (!place.empty()) check_output(place);
    if (read_.lists.are_known(read_.specs)) check_places();
  }

  void run(CommandContext& context) override {
    const Log log = context.log;
    processes_.emplace(context);
    processes_->guard(context, [&] { index_all(context, log); });
  }

 private:
  /// `log`: of this process's faults.
  void index_all(CommandContext& context, const Log& log) {
    read_.network.attach(context);
    if (!read_.lists.are_known(read_.specs))
      trainer::all_do(processes_->cluster(), [&] { check_places(); });
    const auto all = read_.shards();
    const auto shards = own_shards(all, processes_->topology());
    wds::FaultLedger ledger(read_.policy(), log);
    make_parent_folders(places_.index_path(all.front()));
    Progress progress(context.terminal, "shards", shards.size(), "reading the first shards");
    const auto followed = progress.follow(read_.network.opener(), shards);
    std::vector<Set> sets;
    std::vector<nlohmann::json> own;
    std::uint64_t done = 0;
    const auto take = [&](const Indexed& indexed) {
      if (!indexed.entry) return;
      set_of(indexed.url, sets).shards.push_back(*indexed.entry);
      print(indexed, context);
    };
    per_shard<Indexed>(
        {.shards = shards, .threads = threads_, .stop = context.stop},
        [&](const auto& url) { return try_index(url, *followed, ledger, context.stop); },
        [&](const Indexed& indexed) {
          progress.at(++done);
          processes_->is_alone() ? take(indexed) : own.push_back(pack(indexed));
        });
    if (!processes_->is_alone()) {
      const auto packed = in_shard_order(processes_->cluster(), own);
      if (processes_->is_first())
        for (const nlohmann::json& one : packed) take(unpack(one));
    }
    trainer::decide(processes_->cluster(), [&] {
      if (sets.empty())
        throw Error(ErrorCode::kCorrupt, "no shard could be indexed: all are damaged");
      std::set<std::string> asked;
      for (const std::string& url : all) asked.insert(file_name({.url = io::printable_url(url)}));
      for (const Set& set : sets) write_set(set.manifest, set.path, asked, context);
      return std::string();
    });
  }

  static nlohmann::json pack(const Indexed& indexed) {
    nlohmann::json packed{{"url", indexed.url}, {"place", indexed.place}, {"kept", indexed.kept}};
    if (!indexed.entry) return packed;
    packed["samples"] = *indexed.entry->samples;
    packed["bytes"] = *indexed.entry->bytes;
    packed["sha256"] = indexed.entry->sha256;
    return packed;
  }

  static Indexed unpack(const nlohmann::json& packed) {
    Indexed indexed{
        .url = packed.at("url"), .place = packed.at("place"), .kept = packed.at("kept")};
    if (packed.contains("samples"))
      indexed.entry = wds::ManifestShard{.url = indexed.url,
                                         .samples = packed.at("samples").get<std::uint64_t>(),
                                         .bytes = packed.at("bytes").get<std::uint64_t>(),
                                         .sha256 = packed.at("sha256")};
    return indexed;
  }

  void check_places() const {
    const auto shards = read_.shards();
    places_.check(shards, *read_.network.opener());
    if (const auto packed = std::find_if(shards.begin(), shards.end(), is_packed);
        dali_ && packed != shards.end())
      throw Error(ErrorCode::kInvalidArgument,
                  "--dali is for plain tars: " + io::printable_url(*packed));
    for (const std::string& path :
         {places_.index_path(shards.front()), places_.manifest_path(shards.front())})
      check_folder_of(path);
  }

  /// Shards of one name up to their number, and where their manifest goes.
  struct Set {
    std::string path;
    wds::Manifest manifest = {};
  };

  wds::Manifest& set_of(const std::string& url, std::vector<Set>& sets) const {
    const std::string path = places_.manifest_path(url);
    const auto found = std::ranges::find(sets, fs::path(path).filename(), [](const Set& set) {
      return fs::path(set.path).filename();
    });
    return found != sets.end() ? found->manifest : sets.emplace_back(Set{.path = path}).manifest;
  }

  Indexed try_index(const std::string& url, const io::Opener& opener, wds::FaultLedger& ledger,
                    const std::stop_token& stop) {
    try {
      return index(url, opener, stop);
    } catch (const Error& fault) {
      ledger.report_shard(fault, {});
      return {.url = url};
    }
  }

  Indexed index(const std::string& url, const io::Opener& opener, const std::stop_token& stop) {
    Indexed indexed{.url = io::printable_url(url), .place = places_.index_path(url)};
    indexed.kept = !force_ && output_exists(opener, indexed.place);
    wds::ShardIndex index;
    if (indexed.kept) {
      index = wds::read_index(opener, indexed.place);
      check_fresh(index, url);
    } else {
      index = wds::build_index(opener, url, read_.faults.shard_options(stop));
      wds::write_index(index, indexed.place, replace(), &opener);
    }
    if (dali_) write_dali(index, url);
    indexed.entry = wds::ManifestShard{.url = indexed.url,
                                       .samples = index.samples.size(),
                                       .bytes = index.bytes,
                                       .sha256 = index.sha256};
    return indexed;
  }

  void write_dali(const wds::ShardIndex& index, const std::string& url) const {
    const std::string path = places_.dali_path(url);
    const auto opener = read_.network.opener();
    if (!force_ && output_exists(*opener, path)) return;
    try {
      wds::write_dali_index(index, path, replace(), opener.get());
    } catch (Error& error) {
      error.annotate({.url = url});
      throw;
    }
  }

  io::Replace replace() const { return force_ ? io::Replace::kAtomically : io::Replace::kNever; }

  /// A manifest that lists these shards, and maybe more of their set, is kept; any other is
  /// replaced only with --force.
  void write_set(const wds::Manifest& manifest, const std::string& path,
                 const std::set<std::string>& asked, CommandContext& context) const {
    const auto opener = read_.network.opener();
    const bool exists = output_exists(*opener, path);
    if (exists && !force_) {
      if (lists_all(wds::read_manifest(*opener, path), manifest)) return;
      throw Error(ErrorCode::kInvalidArgument,
                  io::printable_url(path) + " exists and differs: --force replaces it");
    }
    make_parent_folders(path);
    const wds::Manifest before = exists ? earlier(path, *opener) : wds::Manifest();
    const wds::Manifest whole = with_others(before, manifest, asked, *opener);
    wds::write_manifest(whole, path, replace(), opener.get());
    context.log.info(
        fmt::format("{} in {}", counted(whole.shards.size(), "shard"), io::printable_url(path)));
  }

  /// What stands there, if it is a manifest.
  static wds::Manifest earlier(const std::string& path, const io::Opener& opener) {
    try {
      return wds::read_manifest(opener, path);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kCorrupt && error.code() != ErrorCode::kTruncated) throw;
      return {};
    }
  }

  static void print(const Indexed& indexed, CommandContext& context) {
    const wds::ManifestShard& entry = *indexed.entry;
    if (!context.json) {
      context.out.line(fmt::format("{}: {}{}", shown_name(io::printable_url(indexed.place)),
                                   counted(*entry.samples, "sample"),
                                   indexed.kept ? ", kept" : ""));
      return;
    }
    const nlohmann::ordered_json line = {{"url", indexed.url},
                                         {"samples", *entry.samples},
                                         {"bytes", *entry.bytes},
                                         {"sha256", entry.sha256},
                                         {"index", io::printable_url(indexed.place)},
                                         {"kept", indexed.kept}};
    context.out.line(json_text(line));
    context.out.flush();
  }

  std::optional<RunProcesses> processes_;  ///< until an error has been printed
  ReadOptions read_;
  IndexPlaces places_;
  bool dali_ = false;
  bool force_ = false;
  int threads_ = 0;
};

}  // namespace

std::unique_ptr<Command> make_index_command() { return std::make_unique<IndexCommand>(); }

}  // namespace millrace::tools
