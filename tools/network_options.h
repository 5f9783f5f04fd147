// NetworkOptions: how what the user names is opened: pipes, a server's pauses, a local cache.
//
//   NetworkOptions network;
//   network.declare(app);      // --allow-pipe --retry-for --cache --cache-size
//   network.check();           // once the words are parsed
//   network.attach(context);   // first thing in run(): stops end its waits, retries are logged
//   const auto opener = network.opener();
//
// Threads: one at a time.
#pragma once

#include <memory>
#include <span>
#include <stop_token>
#include <string>

#include "io/base/log.h"
#include "io/opener.h"
#include "trainer/prometheus_metrics.h"

namespace CLI {
class App;
}

namespace millrace::io {
struct CacheOptions;
}

namespace millrace::tools {

class RetryClock;
struct CommandContext;

class NetworkOptions {
 public:
  NetworkOptions();

  void declare(CLI::App& app);
  /// Throws: InvalidArgument for a time, a size or a folder that is none.
  void check() const;
  /// Makes everything opened from here on obey the context's stop and log retries to its log.
  void attach(const CommandContext& context);

  bool allows_pipe() const { return allow_pipe_; }
  const std::stop_token& stop() const { return stop_; }
  /// One opener for the whole command: its sources share connections, the retry budget and, from
  /// attach() on, the cache.
  std::shared_ptr<const io::Opener> opener() const;
  /// The opener's HTTP options.
  io::HttpOptions http() const;
  /// Whether all of these come over the network whenever they are read: --cache keeps them.
  bool reads_network(std::span<const std::string> shards) const;
  /// What the openers' readers had to repeat so far. Threads: any.
  trainer::NetworkState state() const;

 private:
  io::CacheOptions cache() const;

  bool allow_pipe_ = false;
  std::string retry_for_ = "60s";
  std::string cache_;
  std::string cache_size_ = "100GiB";
  bool attached_ = false;
  std::stop_token stop_;
  Log log_;
  std::shared_ptr<RetryClock> retry_clock_;  ///< of the waits between tries
  mutable std::shared_ptr<const io::Opener> opener_;
};

}  // namespace millrace::tools
