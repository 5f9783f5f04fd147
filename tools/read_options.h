// ReadOptions: which shards, and what to do with what is wrong in them: the options that every
// reading command shares.
//
//   ReadOptions read;
//   read.declare(app);        // SPEC... --on-fault --max-faults --lenient --concatenated
//                             // --require-index --tolerate-truncated --allow-pipe;
//                             // --no-index by its own call
//   read.check();             // no shard matches, a shard twice: before anything is opened
//   read.attach(context);     // first thing in run(): a stop ends its waits, retries are said
//   auto shards = read.shards();
//
// Threads: one at a time.
#pragma once

#include <map>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "io/opener.h"
#include "tools/listed_samples.h"
#include "wds/fault_ledger.h"
#include "wds/manifest.h"
#include "wds/sample_stream.h"
#include "wds/shard_reader.h"
#include "wds/split_options.h"

namespace CLI {
class App;
}

namespace millrace::tools {

struct Context;

class ReadOptions {
 public:
  /// Declares the positional SPEC... (one at least) and the options below.
  void declare(CLI::App& app);
  /// Declares the options alone, for commands whose specs come by other names.
  void declare_policy(CLI::App& app);
  /// Declares --no-index, for commands that use indexes where there are some; after declare() or
  /// declare_policy().
  void declare_index(CLI::App& app);
  /// Declares --order, for commands that shuffle.
  void declare_order(CLI::App& app);
  /// As declare(), for commands that go on after every fault, whatever it is.
  void declare_for_survey(CLI::App& app);

  /// Throws: as expanding `specs` does; NotFound when a local shard is missing.
  void check() const { check(specs_); }
  void check(const std::vector<std::string>& specs) const;

  /// Throws: InvalidArgument when there are fewer shards than streams, and no index that can change
  /// it: local shards without indexes, or --no-index; WebDataset's order divides whole shards.
  /// Whether shards on the network have indexes is not known before they are asked. Opens nothing.
  void check_number(const std::vector<std::string>& shards, const wds::SplitOptions& split,
                    wds::Order order) const;

  /// Whether the shards are known without the network, which a manifest may lie on.
  bool lists_shards(const std::vector<std::string>& specs) const;

  /// The shards' urls, in order. May read folders and manifests, the first time: the same specs are
  /// expanded once. One thread at a time.
  std::vector<std::string> shards() const { return shards(specs_); }
  std::vector<std::string> shards(const std::vector<std::string>& specs) const;

  /// The same with what the specs' manifests say of them.
  const std::vector<wds::ManifestShard>& listed_shards() const { return listed_shards(specs_); }
  const std::vector<wds::ManifestShard>& listed_shards(const std::vector<std::string>& specs) const;

  const std::vector<std::string>& specs() const { return specs_; }
  /// It knows how many samples the shards have, by the manifests that the specs name or that lie
  /// beside local shards.
  wds::FaultPolicy policy() const;
  /// How one shard is read, by the policy.
  wds::ShardOptions shard_options(std::stop_token stop) const;
  /// Whether indexes beside the shards are looked for.
  bool indexed() const { return !no_index_; }
  /// How shuffles are drawn.
  wds::Order order() const;
  /// Whether a shard without an index that can be used is a fault.
  bool requires_index() const { return require_index_; }
  /// Whether damaged and cut JPEGs are decoded as far as they go.
  bool tolerate_truncated() const { return tolerate_truncated_; }
  /// Makes what is opened from here on obey the context's stop, and tell its log of retries.
  void attach(const Context& context);
  /// One for the whole command: its sources share connections and the budget of retries.
  std::shared_ptr<const io::UrlOpener> opener() const;
  /// How it talks to servers.
  io::HttpOptions http() const;

 private:
  void declare_specs(CLI::App& app);
  void declare_leniency(CLI::App& app);

  std::vector<std::string> specs_;
  std::string on_fault_ = "fail";
  std::string max_faults_;
  std::string order_ = "millrace";
  bool lenient_ = false;
  bool concatenated_ = false;
  bool tolerate_truncated_ = false;
  bool allow_pipe_ = false;
  bool no_index_ = false;
  std::string retry_for_ = "60s";
  std::stop_token stop_;
  Log log_;
  mutable std::shared_ptr<const io::UrlOpener> opener_;
  bool require_index_ = false;
  mutable std::map<std::vector<std::string>, std::vector<wds::ManifestShard>> expanded_;
  std::shared_ptr<ListedSamples> listed_ = std::make_shared<ListedSamples>();
  std::shared_ptr<wds::SaidWarnings> said_ = std::make_shared<wds::SaidWarnings>();
};

/// Says for people that streams are balanced; nothing for 0 indexes.
void log_balance(std::size_t num_indexes, const Log& log);

}  // namespace millrace::tools
