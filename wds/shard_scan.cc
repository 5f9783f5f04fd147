#include "wds/shard_scan.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <exception>
#include <filesystem>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "io/base/machine.h"
#include "io/base/text.h"
#include "io/base/thread_annotations.h"
#include "io/base/threads.h"
#include "io/local_path.h"
#include "wds/detail/sample_assembler.h"
#include "wds/detail/scan_cache.h"
#include "wds/detail/scan_mark.h"
#include "wds/parquet_shard.h"

namespace millrace::wds {
namespace {

using Seconds = std::chrono::duration<double>;

// Holds the headers and small fields of a few members; larger gaps are sought over.
constexpr std::size_t kScanBytes = std::size_t{16} * 1024;
// What takes less to read again is not worth a file.
constexpr std::uint64_t kWorthKeeping = std::uint64_t{4} * 1024 * 1024;
constexpr std::size_t kThreads = 16;
constexpr std::uint64_t kBlock = 512;
constexpr std::uint64_t kMaxOffset = kBlock << 32U;

/// Counts the bytes that are read, and knows what was opened.
class CountingOpener final : public io::Opener {
 public:
  explicit CountingOpener(const io::Opener& opener) : opener_(opener) {}

  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& options) const override {
    return std::make_unique<Source>(opener_.open(url, options), *this);
  }
  std::uint64_t bytes() const { return bytes_; }
  /// Size and version of the object, once it was read to its end or closed.
  const detail::ScannedObject& object() const { return object_; }

 private:
  class Source final : public io::ByteSource {
   public:
    Source(std::unique_ptr<io::ByteSource> source, const CountingOpener& owner)
        : source_(std::move(source)), owner_(owner) {}
    ~Source() override { owner_.object_ = {source_->size().value_or(0), source_->version()}; }
    Source(const Source&) = delete;
    Source& operator=(const Source&) = delete;

    std::size_t read(std::span<std::byte> into) override {
      const std::size_t got = source_->read(into);
      owner_.bytes_ += got;
      return got;
    }
    bool skip(std::uint64_t bytes) override { return source_->skip(bytes); }
    std::uint64_t position() const override { return source_->position(); }
    std::optional<std::uint64_t> size() const override { return source_->size(); }
    std::string version() const override { return source_->version(); }
    const std::string& url() const override { return source_->url(); }

   private:
    std::unique_ptr<io::ByteSource> source_;
    const CountingOpener& owner_;
  };

  const io::Opener& opener_;
  mutable std::uint64_t bytes_ = 0;
  mutable detail::ScannedObject object_;
};

ShardOptions for_headers(ShardOptions options) {
  options.suffixes = {"/"};  // no suffix has a slash, so every payload is skipped
  options.index = nullptr;
  options.offset = 0;
  options.expected_bytes = kScanBytes;
  options.tar.buffer_bytes = kScanBytes;
  return options;
}

/// Reads the headers of a shard, sample by sample.
class HeaderScan {
 public:
  HeaderScan(const io::Opener& opener, const std::string& url, const ShardOptions& options)
      : group_(opener, std::make_shared<const std::string>(url), for_headers(options)) {}

  bool next(Sample& sample) { return group_.next(sample); }
  detail::SampleAssembler& group() { return group_; }

 private:
  detail::SampleAssembler group_;
};

IndexedSample entry_of(const Sample& sample, const std::vector<detail::PassedMember>& members) {
  IndexedSample entry{.key = sample.key, .offset = sample.offset, .members = {}};
  for (const detail::PassedMember& one : members) entry.members.push_back(one.member);
  return entry;
}

bool ends_scan(const Error& error, const ScanOptions& options) {
  return error.code() == ErrorCode::kCancelled || (options.fail && error.code() == ErrorCode::kIo);
}

/// One shard's scan, whatever its damage.
class Scanner {
 public:
  Scanner(const io::Opener& opener, const std::string& url, const ScanOptions& options,
          const std::function<void()>& on_sample)
      : opener_(opener), url_(url), options_(options), on_sample_(on_sample) {}

  ShardScan run() {
    if (is_parquet(url_)) return footer();
    try {
      ShardOptions reading{.lenient = options_.lenient, .stop = options_.stop};
      if (options_.concatenated) reading.tar.behind_end = BehindEnd::kRead;
      headers_.emplace(opener_, url_, reading);
    } catch (const Error& error) {
      damaged(error);
    }
    while (headers_ && step()) continue;
    if (headers_ && !scan_.damage) scan_.end = headers_->group().tar().end_offset();
    if (headers_) scan_.compressed = headers_->group().tar().compressed();
    if (scan_.damage) scan_.blocks.clear();
    return std::move(scan_);
  }

 private:
  /// A Parquet file's, whose samples are found by their numbers.
  ShardScan footer() {
    try {
      scan_.count = count_rows(opener_, url_, options_.stop);
    } catch (const Error& error) {
      damaged(error);
    }
    return std::move(scan_);
  }

  bool step() {
    Sample sample;
    try {
      if (!headers_->next(sample)) return false;
      add(sample);
      if (on_sample_) on_sample_();
    } catch (const Error& error) {
      damaged(error);
      return headers_->group().can_continue();
    }
    return true;
  }

  void add(const Sample& sample) {
    if (sample.offset >= kMaxOffset)
      throw Error(ErrorCode::kUnsupported, "a shard above 2 TiB", {.offset = sample.offset});
    ++scan_.count;
    scan_.blocks.push_back(static_cast<std::uint32_t>(sample.offset / kBlock));
  }

  void damaged(Error error) {
    error.annotate({.url = url_});
    if (ends_scan(error, options_)) throw Error(std::move(error));
    ++scan_.count;
    if (!scan_.damage) scan_.damage = std::move(error);
  }

  const io::Opener& opener_;
  const std::string& url_;
  const ScanOptions& options_;
  const std::function<void()>& on_sample_;
  std::optional<HeaderScan> headers_;
  ShardScan scan_;
};

/// What the shard is now; nullopt if it cannot be asked.
std::optional<detail::ScannedObject> object_at(const io::Opener& opener, const std::string& url,
                                               const ScanOptions& options) {
  try {
    const auto source = opener.open(url, {.expected = 1, .stop = options.stop});
    std::array<std::byte, 1> first{};
    if (io::is_network_url(url)) static_cast<void>(source->read(first));
    return detail::ScannedObject{source->size().value_or(0), source->version()};
  } catch (const Error& error) {
    if (ends_scan(error, options)) throw;
    return {};
  }
}

struct Scanned {
  ShardScan scan;
  std::uint64_t bytes = 0;
  bool kept = false;  // it was in the cache
};

std::optional<Scanned> recall(const io::Opener& opener, const std::string& url,
                              const std::string& path, const ScanOptions& options) {
  auto cached = detail::read_scan(path);
  if (!cached || object_at(opener, url, options) != cached->object) return {};
  return Scanned{.scan = std::move(cached->scan), .kept = true};
}

bool may_be_worth(const std::string& url) {
  const auto path = io::local_path(url);
  std::error_code ignored;
  return !path || std::filesystem::file_size(*path, ignored) >= kWorthKeeping;
}

/// `on_sample`: after each; may be empty.
Scanned scan(const io::Opener& opener, const std::string& url, const std::string& path,
             const ScanOptions& options, const std::function<void()>& on_sample = {}) {
  const CountingOpener counting(opener);
  Scanned scanned{.scan = Scanner(counting, url, options, on_sample).run()};
  scanned.bytes = counting.bytes();
  const detail::ScannedObject& object = counting.object();
  const bool worth = io::is_network_url(url) || scanned.bytes >= kWorthKeeping;
  if (!path.empty() && worth && !scanned.scan.damage && !object.version.empty() && object.bytes > 0)
    detail::write_scan(path, url, {object, scanned.scan});
  return scanned;
}

/// Nullopt if another process scans the shard, and that is to be done later.
std::optional<Scanned> scan_or_recall(const io::Opener& opener, const std::string& url,
                                      const ScanOptions& options, detail::IfTaken if_taken) {
  if (options.cache.empty() || io::is_stream_url(url) || is_parquet(url))
    return scan(opener, url, "", options);
  const std::string path = detail::scan_path(url, options);
  if (auto known = recall(opener, url, path, options)) return known;
  if (!may_be_worth(url)) return scan(opener, url, path, options);
  detail::ScanMark mark(path, url, options, if_taken);
  if (mark.is_postponed()) return {};
  if (auto known = recall(opener, url, path, options)) return known;  // scanned meanwhile
  return scan(opener, url, path, options, [&mark] { mark.sign_of_life(); });
}

/// The shards of a list, on several threads.
class SetScanner {
 public:
  SetScanner(const io::Opener& opener, std::span<const std::string> shards,
             const std::vector<bool>& wanted, const ScanOptions& options)
      : opener_(opener), shards_(shards), options_(options), scans_(shards.size()) {
    for (std::size_t i = 0; i < shards.size(); ++i)
      if (wanted[i]) places_.push_back(i);
  }

  std::shared_ptr<const ShardScans> run() {
    run_on_threads(std::min(kThreads, places_.size()), [this] { work(); });
    if (fault_) std::rethrow_exception(fault_);
    report();
    return std::make_shared<const ShardScans>(std::move(scans_));
  }

 private:
  void work() {
    std::vector<std::size_t> postponed;
    for (std::size_t i = next_++; i < places_.size() && !failed_; i = next_++)
      if (!scan_at(places_[i], detail::IfTaken::kPostpone)) postponed.push_back(places_[i]);
    for (const std::size_t place : postponed)
      if (!failed_) scan_at(place, detail::IfTaken::kWait);
  }

  bool scan_at(std::size_t place, detail::IfTaken if_taken) MILLRACE_EXCLUDES(mutex_) {
    try {
      auto scanned = scan_or_recall(opener_, shards_[place], options_, if_taken);
      if (!scanned) return false;
      take(place, *std::move(scanned));
      return true;
    } catch (...) {
      MutexLock lock(mutex_);
      if (!fault_) fault_ = std::current_exception();
      failed_ = true;
      return true;
    }
  }

  void take(std::size_t place, Scanned scanned) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    ++done_;
    bytes_ += scanned.bytes;
    kept_ += scanned.kept ? 1 : 0;
    samples_ += scanned.scan.count;
    scans_[place] = std::make_shared<const ShardScan>(std::move(scanned.scan));
    const auto now = std::chrono::steady_clock::now();
    if (now - said_ < std::chrono::seconds(5)) return;
    said_ = now;
    options_.log.info(fmt::format("scanning headers: {} of {}, {}, {:.1f} MB read", done_,
                                  counted(places_.size(), "shard"), counted(samples_, "sample"),
                                  static_cast<double>(bytes_) / 1e6));
  }

  void report() MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const double seconds = Seconds(std::chrono::steady_clock::now() - start_).count();
    options_.log.info(
        fmt::format("scanned the headers of {} without an index: {}, {:.1f} MB read in {:.1f} s{}",
                    counted(places_.size(), "shard"), counted(samples_, "sample"),
                    static_cast<double>(bytes_) / 1e6, seconds,
                    kept_ == 0 ? "" : fmt::format("; {} known from an earlier scan", kept_)));
    const auto damaged = std::ranges::find_if(
        scans_, [](const auto& scan) { return scan && scan->damage.has_value(); });
    if (damaged != scans_.end() && options_.fail)
      options_.log.warn(
          fmt::format("a damaged shard will end the run: {}", (*damaged)->damage->what()));
  }

  const io::Opener& opener_;
  const std::span<const std::string> shards_;
  const ScanOptions& options_;
  std::vector<std::size_t> places_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> failed_{false};
  Mutex mutex_;
  ShardScans scans_;  // each place is one worker's
  std::chrono::steady_clock::time_point said_ MILLRACE_GUARDED_BY(mutex_) = start_;
  std::size_t done_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::size_t kept_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t samples_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::uint64_t bytes_ MILLRACE_GUARDED_BY(mutex_) = 0;
  std::exception_ptr fault_;
};

}  // namespace

std::size_t ShardScan::sample_at(std::uint64_t offset) const {
  const auto found = std::lower_bound(
      blocks.begin(), blocks.end(), offset,
      [](std::uint32_t block, std::uint64_t wanted) { return block * kBlock < wanted; });
  return static_cast<std::size_t>(found - blocks.begin());
}

std::string default_scan_cache() { return cache_folder("scans"); }

ShardIndex scan_contents(const io::Opener& opener, const std::string& url,
                         const ShardOptions& options) {
  try {
    if (is_parquet(url))
      throw Error(ErrorCode::kUnsupported, "rows of a Parquet file cannot be found by their keys");
    HeaderScan headers(opener, url, options);
    ShardIndex contents;
    for (Sample sample; headers.next(sample);)
      contents.samples.push_back(entry_of(sample, headers.group().passed()));
    contents.end = headers.group().tar().end_offset();
    return contents;
  } catch (Error& error) {
    error.annotate({.url = url});
    throw;
  }
}

ShardScan scan_shard(const io::Opener& opener, const std::string& url, const ScanOptions& options) {
  return scan_or_recall(opener, url, options, detail::IfTaken::kWait)->scan;
}

std::shared_ptr<const ShardScans> scan_shards(const io::Opener& opener,
                                              std::span<const std::string> shards,
                                              const std::vector<bool>& wanted,
                                              const ScanOptions& options) {
  for (std::size_t i = 0; i < shards.size(); ++i)
    if (wanted[i] && !io::can_reopen(shards[i])) return nullptr;
  return SetScanner(opener, shards, wanted, options).run();
}

}  // namespace millrace::wds
