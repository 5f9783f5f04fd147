// millrace cache: what a folder of --cache holds, whether it is intact, and room in it.
#include "io/cache.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>

#include "io/base/error.h"
#include "io/base/text.h"
#include "tools/commands.h"
#include "tools/parse.h"
#include "tools/progress.h"
#include "tools/values.h"

namespace millrace::tools {
namespace {

using io::CacheEntry;

std::string time_text(const CacheEntry& entry) {
  const auto seconds = std::chrono::time_point_cast<std::chrono::seconds>(entry.last_used);
  return fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(seconds.time_since_epoch().count()));
}

std::string state_of(const CacheEntry& entry) {
  switch (entry.state) {
    case io::CacheEntryState::kWhole:
      return "whole";
    case io::CacheEntryState::kPart:
      return "part";
    case io::CacheEntryState::kLeftover:
      return "leftover";
    case io::CacheEntryState::kDamaged:
      return "damaged";
  }
  return "unknown";
}

std::string entry_name(const CacheEntry& entry) {
  return printable(entry.url.empty() ? entry.path : entry.url, 1000);
}

std::string line_of(const CacheEntry& entry, const std::string& state, bool json) {
  if (!json)
    return fmt::format("{:8} {:>14} of {:>14}  {}  {}", state, entry.present_bytes, entry.bytes,
                       time_text(entry), entry_name(entry));
  return nlohmann::ordered_json{{"state", state},
                                {"url", printable(entry.url, 1000)},
                                {"bytes", entry.bytes},
                                {"present_bytes", entry.present_bytes},
                                {"last_used", time_text(entry)},
                                {"path", printable(entry.path, 4096)}}
      .dump();
}

class CacheCommand final : public Command {
 public:
  std::string name() const override { return "cache"; }
  std::string summary() const override {
    return "Lists, checks or shrinks a folder of --cache: ls, verify, prune";
  }
  std::string example() const override {
    return "  millrace cache ls /scratch/cache\n"
           "  millrace cache verify /scratch/cache\n"
           "  millrace cache prune /scratch/cache --cache-size 20GiB\n";
  }
  void declare(CLI::App& app) override {
    app.add_option("ACTION", action_,
                   "ls: its entries, the least recently used first; verify: reads them all and "
                   "removes damaged ones; prune: makes it smaller, and removes leftovers")
        ->required()
        ->transform(one_of({"ls", "verify", "prune"}));
    app.add_option("DIR", folder_, "The folder that --cache named")
        ->required()
        ->transform(existing_folder());
    app.add_option("--cache-size", size_,
                   "prune: how much may stay; 0: nothing. Default: all that is intact")
        ->type_name("SIZE");
  }
  void check() override {
    require(size_.empty() || action_ == "prune", "--cache-size belongs to prune");
    static_cast<void>(max_bytes());
  }

  void run(CommandContext& context) override {
    if (action_ == "ls") return list(context);
    if (action_ == "prune") return prune(context);
    verify(context);
  }

 private:
  std::uint64_t max_bytes() const {
    if (size_.empty()) return std::numeric_limits<std::uint64_t>::max();
    return size_ == "0" ? 0 : parse_bytes("--cache-size", size_);
  }

  void list(CommandContext& context) const {
    std::uint64_t sum = 0;
    const auto entries = io::list_cache(folder_);
    for (const CacheEntry& entry : entries) {
      context.out.line(line_of(entry, state_of(entry), context.json));
      sum += entry.cost_bytes;
    }
    if (!context.json) context.out.line(fmt::format("{} entries, {} bytes", entries.size(), sum));
  }

  void verify(CommandContext& context) const {
    std::size_t damaged = 0;
    const auto entries = io::list_cache(folder_);
    Progress progress(context.terminal, "entries", entries.size(), "reading the first entries");
    std::uint64_t done = 0;
    for (const CacheEntry& entry : entries) {
      progress.at(done++);
      if (io::verify_cache_entry(entry, context.stop)) continue;
      ++damaged;
      context.out.line(line_of(entry, "removed", context.json));
    }
    if (!context.json)
      context.out.line(
          fmt::format("{} entries verified, {} damaged and removed", entries.size(), damaged));
    context.out.flush();
    if (damaged > 0)
      throw Error(ErrorCode::kCorrupt, counted(damaged, "entry") + " damaged", {.url = folder_});
  }

  void prune(CommandContext& context) const {
    const auto removed = io::prune_cache(folder_, max_bytes());
    for (const CacheEntry& entry : removed)
      context.out.line(line_of(entry, "removed", context.json));
    if (!context.json) context.out.line(fmt::format("{} entries removed", removed.size()));
  }

  std::string action_;
  std::string folder_;
  std::string size_;
};

}  // namespace

std::unique_ptr<Command> make_cache_command() { return std::make_unique<CacheCommand>(); }

}  // namespace millrace::tools
