#include "tools/read_options.h"

#include <fmt/format.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

#include "io/base/clock.h"
#include "io/base/error.h"
#include "io/base/text.h"
#include "io/cache.h"
#include "io/local_path.h"
#include "tools/command.h"
#include "tools/option_settings.h"
#include "tools/parse.h"
#include "tools/values.h"
#include "wds/parquet_shard.h"
#include "wds/sample_access.h"
#include "wds/shard_index.h"
#include "wds/shard_name.h"
#include "wds/shard_spec.h"
#include "wds/split.h"

namespace millrace::tools {
namespace {

bool is_missing(const std::string& url) {
  const auto path = io::local_path(wds::stored_url(url));
  return path && !std::filesystem::exists(*path);
}

CLI::Validator not_empty() {
  return {[](const std::string& text) { return text.empty() ? "needs a folder" : ""; }, ""};
}

bool may_have_index(const std::string& url) {
  const auto index = io::local_path(wds::index_url(url));
  return io::is_network_url(url) || (index && std::filesystem::exists(*index));
}

}  // namespace

/// The system's clock, which counts how often and how long it is slept by: once before each try
/// that is repeated (io::HttpOptions::clock).
class RetryClock final : public Clock {
 public:
  TimePoint now() const override { return Clock::system().now(); }
  bool sleep_for(Duration duration, const std::stop_token& stop) const override {
    ++retries_;
    const TimePoint begin = now();
    const bool whole = Clock::system().sleep_for(duration, stop);
    waited_ns_ += (now() - begin).count();
    return whole;
  }
  trainer::NetworkState state() const {
    return {.retries = retries_, .waited = 1e-9 * static_cast<double>(waited_ns_)};
  }

 private:
  mutable std::atomic<std::uint64_t> retries_ = 0;
  mutable std::atomic<std::int64_t> waited_ns_ = 0;
};

ReadOptions::ReadOptions() : retry_clock_(std::make_shared<RetryClock>()) {}

void ReadOptions::declare(CLI::App& app) {
  declare_specs(app);
  declare_policy(app);
}

void ReadOptions::declare_for_survey(CLI::App& app) {
  chosen_.on_fault = wds::OnFault::kSkip;
  declare_specs(app);
  declare_leniency(app);
}

void ReadOptions::declare_specs(CLI::App& app) {
  app.add_option(
         "SPEC", specs_,
         "Shards: braces, :: unions, folders, manifests, URLs, s3://b/f/, gs://b/*.tar or -")
      ->required();
}

void ReadOptions::declare_policy(CLI::App& app) {
  on_fault_.emplace("on-fault", table(), Choice<wds::FaultPolicy>(wds::faults::Fail()));
  on_fault_
      ->declare(
          app,
          "On a damaged sample: fail, the run; skip it, skip(10) or skip(0.01) at most so many "
          "of an epoch; stop reading there")
      ->check(may_change());
  declare_leniency(app);
}

void ReadOptions::declare_leniency(CLI::App& app) {
  app.add_flag("--lenient", lenient_,
               "Accept interleaved keys, and a missing end marker between two samples")
      ->check(may_change());
  app.add_flag("--concatenated", concatenated_,
               "Continue after an end marker if another archive follows (cat a.tar b.tar)")
      ->check(may_change());
  app.add_flag(
         "--require-index", require_index_,
         "Treat a missing or damaged index as a fault, instead of reading its shard without it")
      ->check(may_change());
  app.add_flag("--tolerate-truncated", tolerate_truncated_,
               "Decode damaged and truncated JPEGs as far as possible instead of failing")
      ->check(may_change());
  app.add_flag("--allow-pipe", allow_pipe_, "Allow pipe:COMMAND in a SPEC to run a shell")
      ->check(own_of_process());
  declare_network(app);
}

void ReadOptions::declare_network(CLI::App& app) {
  app.add_option("--retry-for", retry_for_,
                 "How long to retry a server that sends nothing: 30s, 10m; 0: never")
      ->type_name("TIME")
      ->check(own_of_process());
  auto* cache = app.add_option("--cache", cache_,
                               "Keep what is read from the network in this local folder, and read "
                               "it from there the next time; processes share it")
                    ->type_name("DIR")
                    ->check(not_empty())
                    ->check(own_of_process());
  app.add_option("--cache-size", cache_size_,
                 "Maximum size of all that is kept: 500GiB; the least recently used goes first")
      ->type_name("SIZE")
      ->capture_default_str()
      ->needs(cache)
      ->check(own_of_process());
}

void ReadOptions::declare_index(CLI::App& app) {
  app.add_flag("--no-index", no_index_,
               "Ignore the shards' indexes: samples are not checked against them")
      ->excludes(app.get_option("--require-index"))
      ->check(may_change());
  app.add_flag(
         "--no-scan", no_scan_,
         "Do not read the headers of shards without an index first: streams get whole shards, "
         "in an order that depends on the number of processes")
      ->check(may_change());
}

void ReadOptions::declare_join(CLI::App& app) {
  app.add_option("--join", joins_,
                 "Shards with further fields of the same samples, found by key: as many shards as "
                 "SPEC, in the same order; again for each further list")
      ->type_name("SPEC")
      ->allow_extra_args(false);
}

void ReadOptions::settle() {
  if (!on_fault_) return;
  on_fault_->settle();
  chosen_ = *Choice<wds::FaultPolicy>(on_fault_->component()).make();
}

void ReadOptions::check() {
  check(specs_);
  check_joins(joins_, specs_);
}

void ReadOptions::check_joins(const std::vector<std::string>& specs,
                              const std::vector<std::string>& completed) {
  for (const std::string& spec : specs) check({spec});
  if (lists_shards(specs) && lists_shards(completed)) static_cast<void>(joins(specs, completed));
}

std::vector<std::vector<std::string>> ReadOptions::joins(
    const std::vector<std::string>& specs, const std::vector<std::string>& completed) const {
  std::vector<std::vector<std::string>> lists;
  if (specs.empty()) return lists;
  const std::size_t wanted = shards(completed).size();
  for (const std::string& spec : specs) {
    lists.push_back(shards({spec}));
    require(std::ranges::all_of(lists.back(), io::can_reopen),
            "--join " + io::printable_url(spec) +
                ": fields are found by key, and a pipe cannot be searched");
    require(lists.back().size() == wanted, "--join " + io::printable_url(spec) + ": " +
                                               counted(lists.back().size(), "shard") +
                                               " cannot complete " + counted(wanted, "shard") +
                                               ": it has one for each, in the same order");
  }
  return lists;
}

void ReadOptions::check(const std::vector<std::string>& specs) {
  settle();
  static_cast<void>(policy());
  static_cast<void>(http());
  static_cast<void>(cache());
  if (!lists_shards(specs)) return;
  const std::vector<std::string> urls = shards(specs);
  const bool runs_shell =
      std::ranges::any_of(urls, [](const std::string& url) { return url.starts_with("pipe:"); });
  require(allow_pipe_ || !runs_shell, "pipe: urls run a shell: --allow-pipe allows them");
  const bool all_missing = std::all_of(urls.begin(), urls.end(), is_missing);
  if (chosen_.on_fault == wds::OnFault::kFail || all_missing) wds::check_local_shards(urls);
}

bool ReadOptions::lists_shards(const std::vector<std::string>& specs) const {
  return std::none_of(specs.begin(), specs.end(), [this](const std::string& spec) {
    return wds::expands_over_network(spec, {.opener = opener().get()});
  });
}

void ReadOptions::check_number(const std::vector<std::string>& shards,
                               const wds::SplitOptions& split, wds::Order order) const {
  if (order == wds::Order::kPermutation) return;  // it divides samples, or cannot be
  const bool all_scanned =
      scan() && !requires_index() && std::ranges::all_of(shards, io::can_reopen);
  const bool all_indexed = indexed() && std::ranges::all_of(shards, may_have_index);
  if (order == wds::Order::kMillrace && (all_scanned || all_indexed)) return;
  wds::check_enough_shards(shards.size(), split);
}

std::vector<std::string> ReadOptions::shards(const std::vector<std::string>& specs) const {
  std::vector<std::string> urls;
  for (const wds::ManifestShard& shard : listed_shards(specs)) urls.push_back(shard.url);
  return urls;
}

// Expanded once per run: a folder may change in between, and a manifest costs a round trip.
const std::vector<wds::ManifestShard>& ReadOptions::listed_shards(
    const std::vector<std::string>& specs) const {
  const auto known = expanded_.find(specs);
  if (known != expanded_.end()) return known->second;
  auto listed = wds::list_shards(specs, {.opener = opener().get(), .stop = stop_});
  listed_->add(listed);
  return expanded_.emplace(specs, std::move(listed)).first->second;
}

wds::FaultPolicy ReadOptions::policy() const {
  wds::FaultPolicy policy = chosen_;
  policy.lenient = lenient_;
  policy.concatenated = concatenated_;
  policy.require_index = require_index_;
  policy.said = said_;
  policy.samples_of = [listed = listed_, reads = opener()](const std::string& url) {
    return listed->of(url, *reads);
  };
  return policy;
}

wds::ShardOptions ReadOptions::shard_options(std::stop_token stop) const {
  wds::ShardOptions options{.lenient = lenient_, .stop = std::move(stop)};
  if (concatenated_) options.tar.behind_end = wds::BehindEnd::kRead;
  return options;
}

void ReadOptions::attach(const CommandContext& context) {
  stop_ = context.stop;
  log_ = context.log;
  attached_ = true;
  opener_.reset();
}

bool ReadOptions::reads_network(std::span<const std::string> shards) const {
  return cache_.empty() && !shards.empty() && std::ranges::all_of(shards, io::is_network_url);
}

trainer::NetworkState ReadOptions::network() const { return retry_clock_->state(); }

io::HttpOptions ReadOptions::http() const {
  io::HttpOptions http{.clock = retry_clock_.get(), .log = log_};
  http.retry.patience =
      retry_for_ == "0" ? std::chrono::seconds(0) : parse_duration("--retry-for", retry_for_);
  return http;
}

io::CacheOptions ReadOptions::cache() const {
  require(cache_.empty() || io::local_path(cache_).has_value(),
          "--cache takes a folder of this machine, not a URL");
  return {.folder = cache_.empty() ? "" : *io::local_path(cache_),
          .max_bytes = parse_bytes("--cache-size", cache_size_),
          .keep = wds::is_shard_or_index,
          .stop = stop_,
          .log = log_};
}

std::shared_ptr<const io::Opener> ReadOptions::opener() const {
  if (opener_) return opener_;
  opener_ = std::shared_ptr<const io::UrlOpener>(
      new io::UrlOpener({.http = http(), .stop = stop_, .allow_pipe = allow_pipe_}),
      [clock = retry_clock_](const io::UrlOpener* opener) { delete opener; });
  // A command that only checks its options makes no folder.
  if (attached_ && !cache_.empty()) opener_ = std::make_shared<io::CachingOpener>(opener_, cache());
  return opener_;
}

std::string ReadOptions::scan_cache() { return wds::default_scan_cache(); }

std::size_t num_indexes_of(const pipeline::PipelineOptions& options) {
  if (!options.counts) return 0;
  if (options.contents) {
    const auto indexed = [](const auto& shard) { return shard.index != nullptr; };
    return static_cast<std::size_t>(std::ranges::count_if(options.contents->shards, indexed));
  }
  if (!options.scans) return options.counts->size();
  return static_cast<std::size_t>(std::ranges::count(*options.scans, nullptr));
}

std::string printable_spec(const std::string& text) {
  std::string shown;
  std::size_t begin = 0;
  for (std::size_t scheme = text.find("://"); scheme != std::string::npos;
       scheme = text.find("://", begin)) {
    const std::size_t user = scheme + 3;
    const std::size_t path = std::min(text.find_first_of("/?#", user), text.size());
    const std::size_t at = text.rfind('@', path);
    const std::size_t host = at != std::string::npos && at >= user ? at + 1 : user;
    const std::size_t end = std::min(text.find("::", path), text.size());
    const std::size_t query = std::min(text.find_first_of("?#", path), end);
    shown += text.substr(begin, user - begin) + text.substr(host, query - host);
    begin = end;
  }
  return shown + text.substr(begin);
}

void log_balance(std::size_t num_indexes, const Log& log) {
  if (num_indexes > 0)
    log.info("samples are divided evenly among the streams, by " + counted(num_indexes, "index"));
}

}  // namespace millrace::tools
