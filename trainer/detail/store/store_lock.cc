#include "trainer/detail/store/store_lock.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "io/base/error.h"
#include "io/base/host.h"
#include "io/base/json.h"
#include "io/base/threads.h"

namespace millrace::trainer::detail {
namespace {

using SteadyClock = std::chrono::steady_clock;

constexpr std::size_t kMaxLockBytes = 4096;
// How long a run's end may wait for the store to remove the lock.
constexpr std::chrono::seconds kRemoval{5};

std::string first_line(const std::string& path) {
  std::string line;
  std::getline(std::ifstream(path), line);
  return line;
}

/// Processes whose numbers mean the same: those of one start of a machine, in one container.
std::string this_machine() {
  std::error_code ignored;
  return first_line("/proc/sys/kernel/random/boot_id") + " " +
         std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

/// When the process began, in ticks since the machine's start; empty if there is none. It tells a
/// process from a later one with its number.
std::string start_of(std::int64_t process) {
  const std::string stat = first_line(fmt::format("/proc/{}/stat", process));
  constexpr int kFieldsBehindName = 19;
  std::size_t at = stat.rfind(')');
  for (int field = 0; field <= kFieldsBehindName && at != std::string::npos; ++field)
    at = stat.find(' ', at + 1);
  return at == std::string::npos ? "" : stat.substr(at + 1, stat.find(' ', at + 1) - at - 1);
}

/// What is known of the run that has a lock.
struct Owner {
  std::string run = {};
  std::string host = {};
  std::string machine = {};
  std::string began = {};
  std::int64_t process = 0;

  static Owner parsed(const std::string& text) {
    try {
      const auto json = parse_json<nlohmann::json>(text, "a run's lock");
      return {.run = json.at("run"),
              .host = json.at("host"),
              .machine = json.at("machine"),
              .began = json.at("began"),
              .process = json.at("process")};
    } catch (const std::exception&) {  // not ours: like one of an unknown machine
      return {};
    }
  }
  std::string text(std::int64_t beat) const {
    return nlohmann::ordered_json{{"run", run},         {"host", host},   {"process", process},
                                  {"machine", machine}, {"began", began}, {"beat", beat}}
               .dump() +
           "\n";
  }
  bool is_here() const { return !machine.empty() && machine == this_machine(); }
  bool is_gone() const { return is_here() && start_of(process) != began; }
  std::string name() const {
    return host.empty() ? "" : fmt::format(" (process {} on {})", process, host);
  }
};

class StoreLock final : public RunLock::Holder {
 public:
  StoreLock(const std::string& folder, const RunLockOptions& options)
      : folder_(folder),
        url_(folder + "/.lock"),
        options_(options),
        opener_(options.opener != nullptr ? *options.opener : own_opener_.emplace()) {
    take();
    try {
      beats_ = start_thread("to keep the run's lock", [this] { beat_until_closed(); });
    } catch (...) {
      remove();
      throw;
    }
  }

  ~StoreLock() override {
    {
      std::unique_lock lock(mutex_);
      closing_ = true;
      changed_.notify_all();
      if (!changed_.wait_for(lock, kRemoval, [this] { return ended_; })) cancel_.request_stop();
    }
    beats_.join();
  }
  StoreLock(const StoreLock&) = delete;
  StoreLock& operator=(const StoreLock&) = delete;

  void check_in_place() const override {
    std::unique_lock lock(mutex_);
    std::string lost = lost_;
    const bool is_late = SteadyClock::now() - last_ > options_.expiry / 2;
    lock.unlock();
    // This process may have been suspended, and the lock taken over.
    if (lost.empty() && is_late) lost = why_lost();
    if (!lost.empty()) throw Error(ErrorCode::kIo, lost, {.url = folder_, .stage = "train"});
  }

 private:
  void take() {
    constexpr int kMostTries = 10;
    for (int left = kMostTries;; --left) {
      try {
        return write(io::Replace::kNever, options_.stop);
      } catch (const Error& error) {
        if (error.code() != ErrorCode::kInvalidArgument) throw;
        const std::optional<std::string> text = read(options_.stop);
        if (!text && left == 0) throw;  // it cannot be written here
        if (text) take_over(*text);
      }
    }
  }

  /// Removes a lock that a killed run left. Throws: InvalidArgument if the run is alive.
  void take_over(const std::string& text) {
    const Owner owner = Owner::parsed(text);
    if (owner.is_here() && !owner.is_gone()) refuse(owner);
    if (!owner.is_gone()) await_expiry(text, owner);
    options_.log.info(fmt::format("{}: a run{} was killed and left its lock, which is taken over",
                                  folder_, owner.name()));
    opener_.remove(url_, options_.stop);
  }

  void await_expiry(const std::string& text, const Owner& owner) const {
    options_.log.info(fmt::format(
        "{} is locked by a run{}: waiting up to {} s to see whether it still runs", folder_,
        owner.name(), std::chrono::ceil<std::chrono::seconds>(options_.expiry).count()));
    const auto end = SteadyClock::now() + options_.expiry;
    while (SteadyClock::now() < end) {
      if (!Clock::system().sleep_for(options_.beat / 3, options_.stop))
        throw Error(ErrorCode::kCancelled, "training was stopped");
      const auto now = read(options_.stop);
      if (!now) return;
      if (*now != text) refuse(Owner::parsed(*now));
    }
  }

  [[noreturn]] void refuse(const Owner& owner) const {
    throw Error(ErrorCode::kInvalidArgument, "another run writes to " + folder_ + owner.name());
  }

  std::optional<std::string> read(const std::stop_token& stop) const {
    try {
      return std::string(io::read_object(opener_, url_, kMaxLockBytes, stop).text());
    } catch (const Error& error) {
      if (cannot_be_seen(error)) return std::nullopt;
      throw;
    }
  }

  void write(io::Replace replace, const std::stop_token& stop) {
    const std::string text = own_.text(++beat_);
    const auto sink = opener_.open_sink(url_, {.replace = replace}, stop);
    sink->write(std::as_bytes(std::span(text)));
    sink->finish();
  }

  void beat_until_closed() {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, options_.beat, [this] { return closing_; }) && lost_.empty()) {
      lock.unlock();
      const std::string lost = beat();
      lock.lock();
      lost_ = lost;
    }
    const bool is_own = lost_.empty();
    lock.unlock();
    if (is_own) remove();
    lock.lock();
    ended_ = true;
    changed_.notify_all();
  }

  /// A sign of life; returns why the lock is another's. What fails is tried again by the next one.
  std::string beat() {
    try {
      std::string lost = why_lost();
      if (!lost.empty()) return lost;
      write(io::Replace::kAtomically, cancel_.get_token());
      const std::lock_guard lock(mutex_);
      last_ = SteadyClock::now();
    } catch (const Error&) {
    }
    return {};
  }

  /// Why the lock is not this run's; empty: it is.
  std::string why_lost() const {
    const auto text = read(cancel_.get_token());
    if (!text) return "the run's folder was deleted while it was written to";
    const Owner owner = Owner::parsed(*text);
    return owner.run == own_.run ? "" : "another run took over the folder" + owner.name();
  }

  void remove() {
    try {
      if (why_lost().empty()) opener_.remove(url_, cancel_.get_token());
    } catch (const Error& error) {
      options_.log.warn(
          fmt::format("the run's lock stays until another run takes it over: {}", error.what()));
    }
  }

  const std::string folder_;
  const std::string url_;
  const RunLockOptions options_;
  std::optional<io::UrlOpener> own_opener_;
  const io::Opener& opener_;
  const Owner own_{.run = new_run_mark(),
                   .host = host_name(),
                   .machine = this_machine(),
                   .began = start_of(::getpid()),
                   .process = ::getpid()};
  std::int64_t beat_ = 0;
  std::stop_source cancel_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  SteadyClock::time_point last_ = SteadyClock::now();  ///< of the last sign of life
  bool closing_ = false;
  bool ended_ = false;
  std::string lost_;  ///< why the lock is another run's; empty: it is this one's
  std::jthread beats_;
};

}  // namespace

// Unpredictable, so not one of KeyedRng's: two machines that train into one folder must differ.
std::string new_run_mark() {
  std::random_device device;
  return fmt::format("{:08x}{:08x}", device(), device());
}

std::unique_ptr<RunLock::Holder> lock_in_store(const std::string& folder,
                                               const RunLockOptions& options) {
  return std::make_unique<StoreLock>(folder, options);
}

}  // namespace millrace::trainer::detail
