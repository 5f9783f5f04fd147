// ReadOptions: which shards to read, and how to treat faults in them: the options that all reading
// commands share.
//
//   ReadOptions read;
//   read.declare(app);        // SPEC... --on-fault --lenient --concatenated
//                             // --require-index --tolerate-truncated --allow-pipe --retry-for
//                             // --cache --cache-size;
//                             // --no-index --no-scan by their own call
//   read.check();             // no shard matches, a shard twice: before anything is opened
//   read.attach(context);     // first thing in run(): stops end its waits, retries are logged
//   auto shards = read.shards();
//
// Threads: one at a time.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"
#include "pipeline/options.h"
#include "tools/component_option.h"
#include "tools/manifest_facts.h"
#include "trainer/prometheus_metrics.h"
#include "wds/fault_policies.h"
#include "wds/manifest.h"
#include "wds/sample_stream.h"
#include "wds/shard_reader.h"
#include "wds/split.h"

namespace CLI {
class App;
}

namespace millrace::io {
struct CacheOptions;
}

namespace millrace::tools {

class RetryClock;
struct CommandContext;

class ReadOptions {
 public:
  ReadOptions();

  /// Declares the positional SPEC... (at least one) and the options below.
  void declare(CLI::App& app);
  /// Declares only the options, for commands whose specs have other names.
  void declare_policy(CLI::App& app);
  /// Declares --no-index and --no-scan, for commands that divide an epoch into streams; after
  /// declare() or declare_policy().
  void declare_index(CLI::App& app);
  /// Declares --join, for commands that make batches or pictures of samples; after declare().
  void declare_join(CLI::App& app);
  /// As declare(), for commands that continue after every fault.
  void declare_for_survey(CLI::App& app);

  static const millrace::Table& table() { return wds::standard_fault_policies(); }

  /// Once the words are parsed. Throws: as expanding `specs` does; NotFound if a local shard is
  /// missing.
  void check();
  void check(const std::vector<std::string>& specs);
  /// The same of specs that complete `completed`; also as joins().
  void check_joins(const std::vector<std::string>& specs,
                   const std::vector<std::string>& completed);

  /// Throws: InvalidArgument if there are fewer shards than streams and neither an index nor a scan
  /// can help: pipes, --no-scan beside local shards without indexes, or WebDataset's order, which
  /// divides whole shards. For shards on the network it is not known yet whether they have indexes.
  /// Opens nothing.
  void check_number(const std::vector<std::string>& shards, const wds::SplitOptions& split,
                    wds::Order order) const;

  /// Whether the shards are known without reading a manifest or a listing from the network.
  bool lists_shards(const std::vector<std::string>& specs) const;

  /// The shards' urls, in order. The first call may read folders and manifests: the same specs are
  /// expanded only once. Threads: one at a time.
  std::vector<std::string> shards() const { return shards(specs_); }
  std::vector<std::string> shards(const std::vector<std::string>& specs) const;

  /// Of each --join, the shards that complete those of shards(). Throws: InvalidArgument if there
  /// are not as many.
  std::vector<std::vector<std::string>> joins() const { return joins(joins_, specs_); }
  /// The same of `specs`, which complete those of the specs `completed`.
  std::vector<std::vector<std::string>> joins(const std::vector<std::string>& specs,
                                              const std::vector<std::string>& completed) const;

  /// The same with what the specs' manifests say about them.
  const std::vector<wds::ManifestShard>& listed_shards() const { return listed_shards(specs_); }
  const std::vector<wds::ManifestShard>& listed_shards(const std::vector<std::string>& specs) const;

  const std::vector<std::string>& specs() const { return specs_; }
  /// In place of those given: of a mix, the words without their weights.
  void set_specs(std::vector<std::string> specs) { specs_ = std::move(specs); }
  /// The fault policy. It knows how many samples the shards have, from the manifests that the specs
  /// name or that are next to local shards.
  wds::FaultPolicy policy() const;
  /// How one shard is read under the policy.
  wds::ShardOptions shard_options(std::stop_token stop) const;
  /// Whether the shards' indexes are used.
  bool indexed() const { return !no_index_; }
  /// Whether shards without an index are scanned, and where scans are kept.
  bool scan() const { return !no_scan_; }
  static std::string scan_cache();
  /// Whether a shard without a usable index is a fault.
  bool requires_index() const { return require_index_; }
  /// Whether damaged and truncated JPEGs are decoded as far as possible.
  bool tolerate_truncated() const { return tolerate_truncated_; }
  /// Makes everything opened from here on obey the context's stop and log retries to its log.
  void attach(const CommandContext& context);
  /// One opener for the whole command: its sources share connections, the retry budget and, from
  /// attach() on, the cache.
  std::shared_ptr<const io::Opener> opener() const;
  /// The opener's HTTP options.
  io::HttpOptions http() const;
  /// Whether all of these come over the network whenever they are read: --cache keeps them.
  bool reads_network(std::span<const std::string> shards) const;
  /// What the openers' readers had to repeat so far. Threads: any.
  trainer::NetworkState network() const;

 private:
  void settle();
  void declare_specs(CLI::App& app);
  void declare_leniency(CLI::App& app);
  void declare_network(CLI::App& app);
  io::CacheOptions cache() const;

  std::vector<std::string> specs_;
  std::vector<std::string> joins_;
  std::optional<ComponentOption> on_fault_;  // where it is declared
  wds::FaultPolicy chosen_;
  bool lenient_ = false;
  bool concatenated_ = false;
  bool tolerate_truncated_ = false;
  bool allow_pipe_ = false;
  bool no_index_ = false;
  bool no_scan_ = false;
  std::string retry_for_ = "60s";
  std::string cache_;
  std::string cache_size_ = "100GiB";
  bool attached_ = false;
  std::stop_token stop_;
  Log log_;
  std::shared_ptr<RetryClock> retry_clock_;  ///< of the waits between tries
  mutable std::shared_ptr<const io::Opener> opener_;
  bool require_index_ = false;
  mutable std::map<std::vector<std::string>, std::vector<wds::ManifestShard>> expanded_;
  std::shared_ptr<ListedSamples> listed_ = std::make_shared<ListedSamples>();
  std::shared_ptr<wds::SaidWarnings> said_ = std::make_shared<wds::SaidWarnings>();
};

/// The number of shards whose indexes say how samples are divided; 0 if whole shards are divided.
std::size_t num_indexes_of(const pipeline::PipelineOptions& options);
/// `text` without the users, passwords, queries and fragments of the urls in it: a SPEC of several
/// parts, one with a weight, a command.
std::string printable_spec(const std::string& text);
/// Logs that streams are balanced; nothing for 0 indexes.
void log_balance(std::size_t num_indexes, const Log& log);

}  // namespace millrace::tools
