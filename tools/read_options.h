// ReadOptions: the options that all reading commands share, in the parts that they are: which
// shards, what a fault in them is, how they are opened, what is known of them before they are read.
//
//   ReadOptions read;
//   read.declare(app);                // SPEC... and the faults' and the network's options
//   read.index.declare(app);          // --no-index --no-scan
//   read.check();                     // no shard matches, a shard twice: before anything is opened
//   read.network.attach(context);     // first thing in run()
//   auto shards = read.shards();
//
// Threads: one at a time.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "io/base/log.h"
#include "tools/fault_options.h"
#include "tools/network_options.h"
#include "tools/shard_lists.h"
#include "wds/sample_stream.h"
#include "wds/split.h"

namespace CLI {
class App;
}

namespace millrace::tools {

/// Of commands that divide an epoch into streams.
struct IndexOptions {
  /// Ignores the shards' indexes.
  bool no_index = false;
  /// Shards without an index are not scanned.
  bool no_scan = false;

  /// After FaultOptions::declare().
  void declare(CLI::App& app);
};

class ReadOptions {
 public:
  /// SPEC..., and what --join says of them; commands whose specs have other names leave them empty.
  std::vector<std::string> specs;
  std::vector<std::string> joins;
  FaultOptions faults;
  NetworkOptions network;
  IndexOptions index;
  const ShardLists lists{network};

  ReadOptions() = default;
  ReadOptions(const ReadOptions&) = delete;
  ReadOptions& operator=(const ReadOptions&) = delete;

  /// Declares SPEC... and the options of `faults` and `network`.
  void declare(CLI::App& app);
  /// Declares the positional SPEC..., at least one.
  void declare_specs(CLI::App& app);
  /// Declares --join, for commands that make batches or pictures of samples.
  void declare_join(CLI::App& app);

  /// Once the words are parsed. Throws: as expanding the specs does; NotFound if a local shard is
  /// missing.
  void check() { check(specs, joins); }
  /// The same of other specs, and of those that complete them.
  void check(const std::vector<std::string>& these, const std::vector<std::string>& joined = {});

  /// Throws: InvalidArgument if there are fewer shards than streams and neither an index nor a scan
  /// can help: pipes, --no-scan beside local shards without indexes, or WebDataset's order, which
  /// divides whole shards. For shards on the network it is not known yet whether they have indexes.
  /// Opens nothing.
  void check_number(const std::vector<std::string>& shards, const wds::SplitOptions& split,
                    wds::Order order) const;

  /// The fault policy, which knows how many samples the shards have, as far as manifests say.
  wds::FaultPolicy policy() const;
  /// Those of `specs`.
  std::vector<std::string> shards() const { return lists.urls(specs); }
  /// Those of each of `joins`.
  std::vector<std::vector<std::string>> joined() const { return lists.joined(joins, specs); }

 private:
  void check_specs(const std::vector<std::string>& these) const;
};

/// Logs that streams are balanced; nothing for 0 indexes.
void log_balance(std::size_t num_indexes, const Log& log);

}  // namespace millrace::tools
