#include "io/detail/cache/cache_writer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <span>
#include <utility>

#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/threads.h"

namespace millrace::io::detail {

CacheWriter::CacheWriter(const CacheOptions& options)
    : options_(options), on_stop_(options.stop, [this] { stop_fills_.request_stop(); }) {
  try {
    writing_ = start_thread("to write the cache", [this] { write_pieces(); });
    completing_ = start_thread("to write the cache", [this] { run_tasks(); });
  } catch (...) {
    close();  // the first one waits for work
    throw;
  }
}

CacheWriter::~CacheWriter() { close(); }

void CacheWriter::close() {
  stop_fills_.request_stop();
  {
    MutexLock lock(mutex_);
    closing_ = true;
  }
  woken_.notify_all();
}

void CacheWriter::hand_over(std::shared_ptr<Gathering> of, std::uint64_t offset,
                            std::vector<std::byte> bytes) {
  if (bytes.empty() || !of->entry.wanted()) return;
  bool room = false;
  {
    MutexLock lock(mutex_);
    room = waiting_bytes_ + bytes.size() <= options_.queue_bytes;
    if (room) {
      waiting_bytes_ += bytes.size();
      pieces_.push_back({.of = std::move(of), .offset = offset, .bytes = std::move(bytes)});
    }
  }
  woken_.notify_all();
  if (!room)
    warn_once(said_slow_,
              "cache: " + options_.folder + " is slower than what is read, and not all is kept");
}

void CacheWriter::left(std::shared_ptr<Gathering> of) {
  {
    MutexLock lock(mutex_);
    pieces_.push_back({.of = std::move(of)});
  }
  woken_.notify_all();
}

void CacheWriter::expect_digest(const std::string& url, const std::string& sha256) {
  MutexLock lock(mutex_);
  digests_[url] = sha256;
}

void CacheWriter::write_pieces() {
  for (;;) {
    Piece piece;
    {
      MutexLock lock(mutex_);
      while (pieces_.empty() && !closing_) woken_.wait(lock);
      if (pieces_.empty()) break;
      piece = std::move(pieces_.front());
      pieces_.pop_front();
    }
    if (!options_.stop.stop_requested()) write(piece);
    MutexLock lock(mutex_);
    waiting_bytes_ -= piece.bytes.size();
  }
  {
    MutexLock lock(mutex_);
    written_ = true;
  }
  woken_.notify_all();
}

void CacheWriter::write(Piece& piece) {
  try {
    if (!piece.bytes.empty())
      settle(piece.of, piece.of->entry.write(piece.offset, piece.bytes));
    else if (piece.of->sources == 0 && piece.of->entry.wanted() && !piece.of->filled.exchange(true))
      push_task({.of = piece.of});
  } catch (const std::exception& error) {
    warn_once(said_fault_, "cache: nothing is kept: " + fault_text(error));
  }
}

void CacheWriter::settle(const std::shared_ptr<Gathering>& of, Kept kept) {
  const int why = errno;
  if (kept == Kept::kComplete) push_task({.of = of, .complete = true});
  if (kept == Kept::kFault)
    warn_once(said_fault_,
              "cache: writing to " + options_.folder + " failed: " + std::strerror(why));
  if (kept == Kept::kNoRoom)
    warn_once(said_room_, "cache: " + of->entry.object().url + " does not fit into the cache now");
}

void CacheWriter::push_task(Task task) {
  {
    MutexLock lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  woken_.notify_all();
}

void CacheWriter::run_tasks() {
  for (;;) {
    Task task;
    {
      MutexLock lock(mutex_);
      while (tasks_.empty() && !written_) woken_.wait(lock);
      if (tasks_.empty()) return;
      task = std::move(tasks_.front());
      tasks_.pop_front();
    }
    if (options_.stop.stop_requested()) continue;
    try {
      task.complete ? complete(*task.of) : fill(task.of);
    } catch (const std::exception&) {
      // What cannot be fetched now is fetched by the next reader.
    }
  }
}

void CacheWriter::complete(Gathering& of) {
  std::string sha256;
  {
    MutexLock lock(mutex_);
    const auto known = digests_.find(of.url);
    if (known != digests_.end()) sha256 = known->second;
  }
  if (!of.entry.complete(sha256))
    options_.log.warn("cache: " + of.entry.object().url +
                      " is not what its index or its first reading says, and is not kept");
}

void CacheWriter::fill(const std::shared_ptr<Gathering>& of) {
  for (const auto& [offset, length] : of->entry.holes_to_fill())
    if (of->sources > 0 || !fill_hole(of, offset, length)) return;
}

bool CacheWriter::fill_hole(const std::shared_ptr<Gathering>& of, std::uint64_t offset,
                            std::uint64_t length) {
  constexpr std::size_t kPiece = std::size_t{1} << 20U;
  if (stop_fills_.stop_requested()) return false;
  const auto source = of->fetch(offset, length, stop_fills_.get_token());
  std::vector<std::byte> buffer(std::min<std::uint64_t>(kPiece, length));
  for (std::uint64_t at = offset; at < offset + length;) {
    const auto into =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), offset + length - at));
    const std::size_t got = source->read(into);
    const bool same = source->size() == of->entry.object().size &&
                      source->version() == of->entry.object().version;
    if (got == 0 || !same) return false;
    const Kept kept = of->entry.write(at, into.first(got));
    if (kept != Kept::kYes) settle(of, kept);
    if (kept != Kept::kYes) return false;
    at += got;
  }
  return true;
}

void CacheWriter::warn_once(std::atomic<bool>& said, const std::string& line) {
  if (!said.exchange(true)) options_.log.warn(line);
}

}  // namespace millrace::io::detail
