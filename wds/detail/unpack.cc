#include "wds/detail/unpack.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <string_view>
#include <utility>

#include "io/base/error.h"

namespace millrace::wds::detail {
namespace {

constexpr std::size_t kChunkBytes = 64 * 1024;
constexpr std::uint64_t kFreeBytes = 64 * 1024 * 1024;

struct FreeArchive {
  void operator()(archive* handle) const { archive_read_free(handle); }
};

constexpr std::array<std::string_view, 4> kMagics = {std::string_view("\x1f\x8b", 2),
                                                     std::string_view("BZh", 3),
                                                     std::string_view("\xfd"
                                                                      "7zXZ\0",
                                                                      6),
                                                     std::string_view("\x28\xb5\x2f\xfd", 4)};

class Unpacked final : public io::ByteSource {
 public:
  Unpacked(std::unique_ptr<Tape> packed, std::uint64_t max_expansion)
      : packed_(std::move(packed)), max_expansion_(max_expansion) {
    archive_read_support_filter_gzip(handle_.get());
    archive_read_support_filter_bzip2(handle_.get());
    archive_read_support_filter_xz(handle_.get());
    archive_read_support_filter_zstd(handle_.get());
    archive_read_support_format_raw(handle_.get());
    archive_read_set_read_callback(handle_.get(), read_packed);
    archive_read_set_callback_data(handle_.get(), this);
  }

  std::size_t read(std::span<std::byte> into) override {
    if (!std::exchange(opened_, true)) open();
    if (ended_) return 0;
    const la_ssize_t got = archive_read_data(handle_.get(), into.data(), into.size());
    check(got < 0 ? ARCHIVE_FATAL : ARCHIVE_OK);
    ended_ = got == 0;
    position_ += static_cast<std::uint64_t>(got);
    check_expansion();
    return static_cast<std::size_t>(got);
  }
  std::uint64_t position() const override { return position_; }
  std::optional<std::uint64_t> size() const override { return {}; }
  const std::string& url() const override { return packed_->source().url(); }

  std::optional<std::uint64_t> packed_bytes() const {
    if (!packed_->peek(1).empty()) return {};
    return packed_->position();
  }

 private:
  static la_ssize_t read_packed(archive* handle, void* self, const void** data) {
    auto& unpacked = *static_cast<Unpacked*>(self);
    try {
      const auto bytes = unpacked.packed_->peek(1);
      const auto chunk = bytes.empty() ? bytes : unpacked.packed_->buffered(kChunkBytes);
      *data = chunk.data();
      unpacked.packed_->consume(chunk.size());
      return static_cast<la_ssize_t>(chunk.size());
    } catch (...) {
      unpacked.error_ = std::current_exception();
      archive_set_error(handle, EIO, "reading failed");
      return ARCHIVE_FATAL;
    }
  }

  void open() {
    check(archive_read_open1(handle_.get()));
    archive_entry* entry = nullptr;
    const int result = archive_read_next_header(handle_.get(), &entry);
    // An empty content has no entry at all.
    ended_ = result == ARCHIVE_EOF;
    check(result == ARCHIVE_EOF ? ARCHIVE_OK : result);
  }

  void check(int result) {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    if (result == ARCHIVE_OK) return;
    const char* text = archive_error_string(handle_.get());
    const bool cut = packed_->peek(1).empty();
    throw Error(cut ? ErrorCode::kTruncated : ErrorCode::kCorrupt,
                std::string("unpacking: ") + (text == nullptr ? "damaged data" : text),
                {.offset = position_});
  }

  void check_expansion() const {
    if (position_ <= kFreeBytes || position_ / max_expansion_ <= packed_->position()) return;
    throw Error(ErrorCode::kExhausted,
                "unpacks to more than " + std::to_string(max_expansion_) + " times its size",
                {.offset = position_});
  }

  std::unique_ptr<Tape> packed_;
  std::uint64_t max_expansion_;
  std::unique_ptr<archive, FreeArchive> handle_{archive_read_new()};
  std::exception_ptr error_;
  std::uint64_t position_ = 0;
  bool opened_ = false;
  bool ended_ = false;
};

}  // namespace

bool is_compressed(Tape& packed) {
  const auto bytes = packed.peek(6);
  const std::string_view start(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  return std::any_of(kMagics.begin(), kMagics.end(),
                     [start](std::string_view magic) { return start.starts_with(magic); });
}

std::unique_ptr<io::ByteSource> unpack(std::unique_ptr<Tape> packed, std::uint64_t max_expansion) {
  return std::make_unique<Unpacked>(std::move(packed), max_expansion);
}

std::optional<std::uint64_t> packed_bytes(const io::ByteSource& unpacked) {
  return static_cast<const Unpacked&>(unpacked).packed_bytes();
}

}  // namespace millrace::wds::detail
