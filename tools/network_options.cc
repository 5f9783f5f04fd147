#include "tools/network_options.h"

#include <CLI/App.hpp>
#include <algorithm>
#include <atomic>
#include <cstdint>

#include "io/base/clock.h"
#include "io/base/error.h"
#include "io/cache.h"
#include "io/local_path.h"
#include "tools/command.h"
#include "tools/option_settings.h"
#include "tools/parse.h"
#include "tools/values.h"
#include "wds/shard_name.h"

namespace millrace::tools {
namespace {

CLI::Validator not_empty() {
  return {[](const std::string& text) { return text.empty() ? "needs a folder" : ""; }, ""};
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

NetworkOptions::NetworkOptions() : retry_clock_(std::make_shared<RetryClock>()) {}

void NetworkOptions::declare(CLI::App& app) {
  app.add_flag("--allow-pipe", allow_pipe_, "Allow pipe:COMMAND in a SPEC to run a shell")
      ->check(own_of_process());
  app.add_option("--retry-for", retry_for_,
                 "How long to retry a server, or wait for a pipe, that sends nothing: 30s, 10m; "
                 "0: no retries")
      ->type_name("TIME")
      ->check(own_of_process());
  auto* cache = app.add_option("--cache", cache_,
                               "Keep what is read from the network in this local folder, and read "
                               "it from there the next time; processes share it")
                    ->type_name("DIR")
                    ->transform(output_path())
                    ->check(not_empty())
                    ->check(own_of_process());
  app.add_option("--cache-size", cache_size_,
                 "Maximum size of --cache: 500GiB; what was used least recently is deleted first")
      ->type_name("SIZE")
      ->capture_default_str()
      ->needs(cache)
      ->check(own_of_process());
}

void NetworkOptions::check() const {
  static_cast<void>(http());
  static_cast<void>(cache());
}

void NetworkOptions::attach(const CommandContext& context) {
  stop_ = context.stop;
  log_ = context.log;
  attached_ = true;
  opener_.reset();
}

bool NetworkOptions::reads_network(std::span<const std::string> shards) const {
  return cache_.empty() && !shards.empty() && std::ranges::all_of(shards, io::is_network_url);
}

trainer::NetworkState NetworkOptions::state() const { return retry_clock_->state(); }

io::HttpOptions NetworkOptions::http() const {
  io::HttpOptions http{.clock = retry_clock_.get(), .log = log_};
  http.retry.patience =
      retry_for_ == "0" ? std::chrono::seconds(0) : parse_duration("--retry-for", retry_for_);
  return http;
}

io::CacheOptions NetworkOptions::cache() const {
  require(cache_.empty() || io::local_path(cache_).has_value(),
          "--cache takes a folder of this machine, not a URL");
  return {.folder = cache_.empty() ? "" : *io::local_path(cache_),
          .max_bytes = parse_bytes("--cache-size", cache_size_),
          .keep = wds::is_shard_or_index,
          .stop = stop_,
          .log = log_};
}

std::shared_ptr<const io::Opener> NetworkOptions::opener() const {
  if (opener_) return opener_;
  opener_ = std::shared_ptr<const io::UrlOpener>(
      new io::UrlOpener({.http = http(), .stop = stop_, .allow_pipe = allow_pipe_}),
      [clock = retry_clock_](const io::UrlOpener* opener) { delete opener; });
  // A command that only checks its options makes no folder.
  if (attached_ && !cache_.empty()) opener_ = std::make_shared<io::CachingOpener>(opener_, cache());
  return opener_;
}

}  // namespace millrace::tools
