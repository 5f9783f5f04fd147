#include "tools/read_options.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <filesystem>

#include "io/base/error.h"
#include "io/base/text.h"
#include "io/local_path.h"
#include "tools/option_settings.h"
#include "wds/parquet_shard.h"
#include "wds/shard_index.h"
#include "wds/shard_name.h"
#include "wds/shard_spec.h"

namespace millrace::tools {
namespace {

bool is_missing(const std::string& url) {
  const auto path = io::local_path(wds::stored_url(url));
  return path && !std::filesystem::exists(*path);
}

bool may_have_index(const std::string& url) {
  const auto index = io::local_path(wds::index_url(url));
  return io::is_network_url(url) || (index && std::filesystem::exists(*index));
}

}  // namespace

void IndexOptions::declare(CLI::App& app) {
  app.add_flag("--no-index", no_index,
               "Ignore the shards' indexes: samples are not checked against them")
      ->excludes(app.get_option("--require-index"))
      ->check(may_change());
  app.add_flag(
         "--no-scan", no_scan,
         "Do not read the headers of shards without an index first: streams get whole shards, "
         "in an order that depends on the number of processes")
      ->check(may_change());
}

void ReadOptions::declare(CLI::App& app) {
  declare_specs(app);
  faults.declare(app);
  network.declare(app);
}

void ReadOptions::declare_specs(CLI::App& app) {
  app.add_option(
         "SPEC", specs,
         "Shards: braces, :: unions, folders, manifests, URLs, s3://b/f/, gs://b/*.tar or -")
      ->required();
}

void ReadOptions::declare_join(CLI::App& app) {
  app.add_option("--join", joins,
                 "Shards with further fields of the same samples, found by key: as many shards as "
                 "SPEC, in the same order; again for each further list")
      ->type_name("SPEC")
      ->allow_extra_args(false);
}

void ReadOptions::check(const std::vector<std::string>& these,
                        const std::vector<std::string>& joined) {
  faults.settle();
  network.check();
  check_specs(these);
  for (const std::string& spec : joined) check_specs({spec});
  if (lists.are_known(these) && lists.are_known(joined))
    static_cast<void>(lists.joined(joined, these));
}

void ReadOptions::check_specs(const std::vector<std::string>& these) const {
  if (!lists.are_known(these)) return;
  const std::vector<std::string> urls = lists.urls(these);
  const bool runs_shell =
      std::ranges::any_of(urls, [](const std::string& url) { return url.starts_with("pipe:"); });
  require(network.allows_pipe() || !runs_shell, "pipe: urls run a shell: --allow-pipe allows them");
  const bool all_missing = std::all_of(urls.begin(), urls.end(), is_missing);
  if (faults.policy().on_fault == wds::OnFault::kFail || all_missing) wds::check_local_shards(urls);
}

void ReadOptions::check_number(const std::vector<std::string>& shards,
                               const wds::SplitOptions& split, wds::Order order) const {
  if (order == wds::Order::kPermutation) return;  // it divides samples, or cannot be
  const bool all_scanned =
      !index.no_scan && !faults.require_index && std::ranges::all_of(shards, io::can_reopen);
  const bool all_indexed = !index.no_index && std::ranges::all_of(shards, may_have_index);
  if (order == wds::Order::kMillrace && (all_scanned || all_indexed)) return;
  wds::check_enough_shards(shards.size(), split);
}

wds::FaultPolicy ReadOptions::policy() const {
  wds::FaultPolicy policy = faults.policy();
  policy.samples_of = lists.samples_of();
  return policy;
}

void log_balance(std::size_t num_indexes, const Log& log) {
  if (num_indexes > 0)
    log.info("samples are divided evenly among the streams, by " + counted(num_indexes, "index"));
}

}  // namespace millrace::tools
