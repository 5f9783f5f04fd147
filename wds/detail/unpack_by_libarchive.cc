#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <new>
#include <string_view>
#include <utility>

#include "io/base/error.h"
#include "wds/detail/archive_handles.h"
#include "wds/detail/unpacked.h"
#include "wds/detail/zstd_frames.h"

namespace millrace::wds::detail {
namespace {

// The .xz format, 2.1.1: six bytes of magic, a zero, and the check type, where 0 means none. The
// first stream is taken to represent all.
bool is_unchecked_xz(std::span<const std::byte> packed) {
  constexpr std::string_view kMagic(
      "\xFD"
      "7zXZ\0",
      6);
  if (packed.size() < 8) return false;
  const std::string_view start(reinterpret_cast<const char*>(packed.data()), kMagic.size());
  return start == kMagic && (packed[7] & std::byte{0x0F}) == std::byte{0};
}

class Filtered final : public Unpacked {
 public:
  Filtered(std::unique_ptr<Tape> packed, const UnpackLimits& given)
      : Unpacked(std::move(packed), given), frames_(given.max_window) {
    archive_read_support_filter_bzip2(handle_.get());
    archive_read_support_filter_xz(handle_.get());
    archive_read_support_filter_zstd(handle_.get());
    archive_read_support_format_raw(handle_.get());
    archive_read_set_read_callback(handle_.get(), read_packed);
    archive_read_set_callback_data(handle_.get(), this);
  }

  std::uint64_t unguarded_frames() const override {
    return frames_.unguarded() + (unguarded_xz_ ? 1 : 0);
  }

 private:
  std::size_t unpack(std::span<std::byte> into) override {
    if (!std::exchange(opened_, true)) has_content_ = open();
    const la_ssize_t got =
        has_content_ ? archive_read_data(handle_.get(), into.data(), into.size()) : 0;
    check(got < 0 ? ARCHIVE_FATAL : ARCHIVE_OK);
    if (got == 0) check_end();
    return static_cast<std::size_t>(got);
  }

  /// libarchive ends at what does not begin as another bzip2 stream, and says nothing. Zeros may
  /// follow, as tapes leave them.
  void check_end() {
    const std::size_t unused = num_unused();
    bool behind = unused > fed_last_.size();
    for (auto left = fed_last_.last(std::min(unused, fed_last_.size())); !left.empty() && !behind;
         left = next_packed())
      behind = std::ranges::any_of(left, [](std::byte byte) { return byte != std::byte{0}; });
    if (behind) fail(ErrorCode::kCorrupt, "data after the last packed stream");
  }

  /// Of what libarchive was given, the bytes that its filter has not taken.
  std::size_t num_unused() const {
    const auto used = std::max<la_int64_t>(0, archive_filter_bytes(handle_.get(), -1));
    return static_cast<std::size_t>(fed_ - static_cast<std::uint64_t>(used));
  }

  std::span<const std::byte> next_packed() {
    const auto chunk = peek_packed();
    consume_packed(chunk.size());
    fed_ += chunk.size();
    fed_last_ = chunk;
    return chunk;
  }

  static la_ssize_t read_packed(archive* handle, void* self, const void** data) {
    auto& filtered = *static_cast<Filtered*>(self);
    try {
      const auto chunk = filtered.next_packed();
      filtered.frames_.watch(chunk);
      filtered.asked_beyond_ = chunk.empty();
      *data = chunk.data();
      return static_cast<la_ssize_t>(chunk.size());
    } catch (...) {
      filtered.error_ = std::current_exception();
      archive_set_error(handle, EIO, "reading failed");
      return ARCHIVE_FATAL;
    }
  }

  /// Returns false if there is no content: libarchive then has no entry at all.
  bool open() {
    unguarded_xz_ = is_unchecked_xz(peek_packed());
    check(archive_read_open1(handle_.get()));
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(handle_.get(), &entry);
    check(result == ARCHIVE_EOF ? ARCHIVE_OK : result);
    return result != ARCHIVE_EOF;
  }

  void check(int result) {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (result == ARCHIVE_OK) return;
    if (archive_errno(handle_.get()) == ENOMEM) throw std::bad_alloc();
    fail(asked_beyond_ ? ErrorCode::kTruncated : ErrorCode::kCorrupt,
         archive_error_string(handle_.get()));
  }

  ReadHandle handle_{archive_read_new()};
  ZstdFrames frames_;
  std::exception_ptr error_;
  std::uint64_t fed_ = 0;                ///< packed bytes that libarchive was given
  std::span<const std::byte> fed_last_;  ///< the last of them, until the next are asked for
  bool asked_beyond_ = false;            ///< for more packed bytes than there are
  bool opened_ = false;
  bool has_content_ = false;
  bool unguarded_xz_ = false;
};

}  // namespace

std::unique_ptr<Unpacked> unpack_by_libarchive(std::unique_ptr<Tape> packed,
                                               const UnpackLimits& limits) {
  return std::make_unique<Filtered>(std::move(packed), limits);
}

}  // namespace millrace::wds::detail
