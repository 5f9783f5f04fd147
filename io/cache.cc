#include "io/cache.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/thread_annotations.h"
#include "io/detail/cache/cache_entry.h"
#include "io/detail/cache/cache_folder.h"
#include "io/detail/cache/cache_writer.h"

namespace millrace::io {

using detail::CachedObject;
using detail::Gathering;
using detail::WholeEntry;

// What the sources of an opener share; they may outlive it.
class CacheState {
 public:
  CacheState(std::shared_ptr<const Opener> the_inner, CacheOptions the_options)
      : inner(std::move(the_inner)), options(std::move(the_options)), writer(options) {}

  /// The object that `url` was when it was last read here.
  std::optional<CachedObject> known(const std::string& url) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    const auto found = known_.find(url);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }
  void remember(const std::string& url, const CachedObject& object) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    known_[url] = object;
  }
  void forget(const std::string& url) MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    known_.erase(url);
  }

  /// The entry, opened once for all its readers; null if there is none.
  std::shared_ptr<const WholeEntry> whole(const CachedObject& object) MILLRACE_EXCLUDES(mutex_) {
    {
      MutexLock lock(mutex_);
      if (auto entry = whole_[object.name()].lock()) return entry;
    }
    auto entry = WholeEntry::open(options.folder, object.name());  // waits for the disk
    MutexLock lock(mutex_);
    if (entry) whole_[object.name()] = entry;
    return entry;
  }
  /// The entry is damaged: the next reader finds none.
  void drop(const CachedObject& object, const WholeEntry& entry) MILLRACE_EXCLUDES(mutex_) {
    entry.remove();
    {
      MutexLock lock(mutex_);
      if (whole_.erase(object.name()) == 0) return;
    }
    options.log.warn("cache: " + object.url + " was damaged on " + options.folder +
                     ", and is fetched again");
  }

  void say_not_kept(const std::string& url, bool has_size) {
    if (said_not_kept_.exchange(true)) return;
    options.log.warn("cache: " + url + " is not kept, nor is what is like it: the server tells " +
                     (has_size ? "neither a strong ETag nor Last-Modified, so a change would go "
                                 "unnoticed"
                               : "no size"));
  }

  std::shared_ptr<Gathering> gather(const std::string& url, const CachedObject& object)
      MILLRACE_EXCLUDES(mutex_) {
    MutexLock lock(mutex_);
    std::weak_ptr<Gathering>& slot = gathered_[object.name()];
    std::shared_ptr<Gathering> gathering = slot.lock();
    if (!gathering) {
      const auto fetch = [from = inner, url](std::uint64_t offset, std::uint64_t length,
                                             std::stop_token stop) {
        return from->open(url, {.offset = offset, .expected = length, .stop = std::move(stop)});
      };
      gathering = std::make_shared<Gathering>(options, object, url, fetch);
      slot = gathering;
    }
    ++gathering->sources;
    return gathering;
  }

  const std::shared_ptr<const Opener> inner;
  const CacheOptions options;
  detail::CacheWriter writer;

 private:
  std::atomic<bool> said_not_kept_ = false;
  Mutex mutex_;
  std::map<std::string, CachedObject> known_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<const WholeEntry>> whole_ MILLRACE_GUARDED_BY(mutex_);
  std::map<std::string, std::weak_ptr<Gathering>> gathered_ MILLRACE_GUARDED_BY(mutex_);
};

namespace {

CachedObject object_of(const std::string& url, std::uint64_t size, std::string version) {
  return {.key = detail::cache_key(url),
          .url = printable_url(url),
          .size = size,
          .version = std::move(version)};
}

// Copies what one source reads, in pieces, for the writer.
class Copier {
 public:
  Copier(std::shared_ptr<CacheState> state, std::shared_ptr<Gathering> of)
      : state_(std::move(state)), of_(std::move(of)) {}
  ~Copier() {
    flush();
    --of_->sources;
    state_->writer.left(of_);
  }
  Copier(const Copier&) = delete;
  Copier& operator=(const Copier&) = delete;

  void add(std::uint64_t offset, std::span<const std::byte> bytes) {
    if (offset != offset_ + piece_.size()) flush();
    if (!of_->entry.wanted()) return;
    while (!bytes.empty()) {
      if (piece_.empty()) offset_ = offset;
      const auto some = bytes.first(std::min(bytes.size(), kPiece - piece_.size()));
      piece_.insert(piece_.end(), some.begin(), some.end());
      offset += some.size();
      bytes = bytes.subspan(some.size());
      if (piece_.size() == kPiece) flush();
    }
  }

 private:
  static constexpr std::size_t kPiece = std::size_t{1} << 20U;

  void flush() { state_->writer.hand_over(of_, offset_, std::exchange(piece_, {})); }

  std::shared_ptr<CacheState> state_;
  std::shared_ptr<Gathering> of_;
  std::uint64_t offset_ = 0;
  std::vector<std::byte> piece_;
};

class CachingSource final : public ByteSource {
 public:
  CachingSource(std::shared_ptr<CacheState> state, std::string url, const OpenOptions& options)
      : state_(std::move(state)),
        full_url_(std::move(url)),
        url_(printable_url(full_url_)),
        options_(options),
        position_(options.offset) {
    if (const auto known = state_->known(full_url_)) {
      object_ = *known;
      entry_ = state_->whole(object_);
      if (entry_) check_offset();
    } else if (detail::has_whole_entry(state_->options.folder, detail::cache_key(full_url_))) {
      probe_ = state_->inner->open(full_url_, {.expected = 1, .stop = options_.stop});
    }
    if (!entry_ && !probe_) open_inner();
  }

  std::size_t read(std::span<std::byte> into) override {
    try {
      if (probe_) validate();
      for (;;) {
        if (!entry_) return read_inner(into);
        if (const auto got = read_entry(into)) return *got;
        fall_back();
      }
    } catch (Error& error) {
      error.annotate({.url = url_, .offset = position_});
      throw;
    }
  }
  bool skip(std::uint64_t bytes) override {
    if (probe_) return false;
    if (entry_) {
      if (bytes > object_.size - position_) return false;
    } else if (!inner_->skip(bytes)) {
      return false;
    }
    position_ += bytes;
    return true;
  }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() const override {
    if (entry_) return object_.size;
    return inner_ ? inner_->size() : std::nullopt;
  }
  std::string version() const override {
    if (entry_) return object_.version;
    return inner_ ? inner_->version() : std::string();
  }
  const std::string& url() const override { return inner_ ? inner_->url() : url_; }

 private:
  void open_inner() {
    OpenOptions from_here = options_;
    from_here.offset = position_;
    const std::uint64_t done = position_ - options_.offset;
    if (options_.expected > 0)
      from_here.expected = options_.expected > done ? options_.expected - done : 1;
    inner_ = state_->inner->open(full_url_, from_here);
  }
  void validate();
  void check_offset() const;
  void check_stop() const;
  std::size_t read_inner(std::span<std::byte> into);
  void learn();
  std::optional<std::size_t> read_entry(std::span<std::byte> into);
  void fall_back();

  std::shared_ptr<CacheState> state_;
  const std::string full_url_;
  const std::string url_;
  const OpenOptions options_;
  std::uint64_t position_;
  CachedObject object_ = {};

  // Exactly one of these is set.
  std::unique_ptr<ByteSource> probe_;  // asks whether an entry is still the object
  std::shared_ptr<const WholeEntry> entry_;
  std::unique_ptr<ByteSource> inner_;

  bool learnt_ = false;   // the answer told what inner_ is
  bool resumes_ = false;  // inner_ continues what an entry began
  std::unique_ptr<Copier> copier_;
  std::vector<std::byte> block_;
  std::span<const std::byte> held_;  // of block_
  std::uint64_t held_index_ = 0;
};

void CachingSource::validate() {
  std::byte one;
  probe_->read({&one, 1});
  if (probe_->size() && !probe_->version().empty()) {
    object_ = object_of(full_url_, *probe_->size(), probe_->version());
    state_->remember(full_url_, object_);
    entry_ = state_->whole(object_);
  }
  probe_.reset();
  if (entry_)
    check_offset();
  else
    open_inner();
}

void CachingSource::check_offset() const {
  if (position_ > object_.size)
    throw Error(ErrorCode::kTruncated,
                "the object ends at " + std::to_string(object_.size) + ", before the offset",
                {.url = url_, .offset = position_});
}

void CachingSource::check_stop() const {
  const std::stop_token& stop =
      options_.stop.stop_possible() ? options_.stop : state_->options.stop;
  if (stop.stop_requested()) throw Error(ErrorCode::kCancelled, "reading was stopped");
}

std::size_t CachingSource::read_inner(std::span<std::byte> into) {
  const std::size_t got = inner_->read(into);
  if (!learnt_) learn();
  if (copier_ && got > 0) copier_->add(position_, into.first(got));
  position_ += got;
  return got;
}

// Until the first answer nobody knows what is read; after it, the source itself sees to it that it
// stays that.
void CachingSource::learn() {
  learnt_ = true;
  const auto size = inner_->size();
  const std::string version = inner_->version();
  if (resumes_ && (size != object_.size || version != object_.version)) {
    state_->forget(full_url_);
    throw Error(ErrorCode::kIo, "the object changed while it was read");
  }
  if (size == 0U) return;
  if (!size || version.empty()) return state_->say_not_kept(url_, size.has_value());
  object_ = object_of(full_url_, *size, version);
  state_->remember(full_url_, object_);
  copier_ = std::make_unique<Copier>(state_, state_->gather(full_url_, object_));
}

// Nothing if the block is damaged.
std::optional<std::size_t> CachingSource::read_entry(std::span<std::byte> into) {
  check_stop();
  if (position_ == object_.size) return 0;
  const std::uint64_t index = position_ / detail::kCacheBlock;
  if (held_.empty() || held_index_ != index) {
    block_.resize(detail::kCacheBlock);
    held_ = entry_->read(index, block_);
    held_index_ = index;
    if (held_.empty()) return std::nullopt;
  }
  const auto from = held_.subspan(position_ % detail::kCacheBlock);
  const auto some = from.first(std::min(from.size(), into.size()));
  std::ranges::copy(some, into.begin());
  position_ += some.size();
  return some.size();
}

void CachingSource::fall_back() {
  state_->drop(object_, *entry_);
  entry_.reset();
  resumes_ = position_ > options_.offset;
  learnt_ = false;
  open_inner();
}

}  // namespace

namespace {

// A cache is a help: where none can be made, as where its disk is full, reading goes on without it.
bool make_cache_folder(const CacheOptions& options) {
  constexpr std::array kNoPlace = {EACCES, EPERM, EROFS, ENOSPC, EDQUOT};
  if (::mkdir(options.folder.c_str(), 0700) == 0 || errno == EEXIST) return true;
  const int why = errno;
  if (std::ranges::find(kNoPlace, why) == kNoPlace.end())
    throw_errno("create", options.folder, why);
  options.log.warn("cache: nothing is kept: " + options.folder +
                   " cannot be created: " + std::strerror(why));
  return false;
}

}  // namespace

CachingOpener::CachingOpener(std::shared_ptr<const Opener> inner, CacheOptions options)
    : inner_(std::move(inner)) {
  check_local_path(options.folder);
  if (!make_cache_folder(options)) return;
  struct stat status {};
  if (::stat(options.folder.c_str(), &status) != 0) throw_errno("open", options.folder, errno);
  if (!S_ISDIR(status.st_mode)) throw_errno("open", options.folder, ENOTDIR);
  state_ = std::make_shared<CacheState>(inner_, std::move(options));
}

CachingOpener::~CachingOpener() = default;

std::unique_ptr<ByteSource> CachingOpener::open(const std::string& url,
                                                const OpenOptions& options) const {
  if (!state_ || !is_network_url(url)) return inner_->open(url, options);
  const auto& keep = state_->options.keep;
  if (keep && !keep(url)) return inner_->open(url, options);
  return std::make_unique<CachingSource>(state_, url, options);
}

bool CachingOpener::can_list(const std::string& url) const { return inner_->can_list(url); }

std::vector<ListedObject> CachingOpener::list(const std::string& prefix,
                                              const ListOptions& options) const {
  return inner_->list(prefix, options);
}

std::unique_ptr<ByteSink> CachingOpener::open_sink(const std::string& url,
                                                   const FileSinkOptions& options,
                                                   const std::stop_token& stop) const {
  if (state_) state_->forget(url);
  return inner_->open_sink(url, options, stop);
}

void CachingOpener::remove(const std::string& url, const std::stop_token& stop) const {
  if (state_) state_->forget(url);
  inner_->remove(url, stop);
}

void CachingOpener::expect_digest(const std::string& url, const std::string& sha256) const {
  if (state_) state_->writer.expect_digest(url, sha256);
}

}  // namespace millrace::io
