#include "wds/detail/header_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <optional>
#include <string_view>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "io/base/hash.h"
#include "wds/detail/archive_handles.h"
#include "wds/detail/header_blocks.h"
#include "wds/detail/utf8_locale.h"

namespace millrace::wds::detail {
namespace {

std::string message_of(archive* handle) {
  const char* text = archive_error_string(handle);
  return std::string("tar: ") + (text == nullptr ? "unknown error" : text);
}

}  // namespace

struct HeaderReader::State {
  State(Tape& borrowed, bool wanted) : tape(borrowed), checksums(wanted) {}

  static la_ssize_t read_block(archive* handle, void* self, const void** block) {
    return static_cast<State*>(self)->guarded(handle, [block](State& state) {
      if (!std::exchange(state.in_region, true)) {
        state.header_offset = state.tape.position();
        state.tape.begin_region();
      }
      const auto bytes = state.tape.peek(kBlockBytes);
      *block = bytes.data();
      state.tape.consume(bytes.size());
      return static_cast<la_ssize_t>(bytes.size());
    });
  }

  // settle() has already skipped what libarchive wants to skip.
  static la_int64_t skip_payload(archive* handle, void* self, la_int64_t request) {
    return static_cast<State*>(self)->guarded(handle, [request](State& state) {
      const auto wanted = static_cast<std::uint64_t>(request);
      if (wanted > state.settled)
        throw Error(ErrorCode::kCorrupt, "tar: a payload's end is unclear");
      state.settled -= wanted;
      return request;
    });
  }

  // No exception may pass through libarchive's frames: it is stored in `error` and rethrown by
  // check().
  template <typename Function>
  la_int64_t guarded(archive* reader, const Function& function) {
    if (error) return ARCHIVE_FATAL;
    try {
      return function(*this);
    } catch (...) {
      error = std::current_exception();
      archive_set_error(reader, EIO, "reading failed");
      return ARCHIVE_FATAL;
    }
  }

  // Called at the first header that is not plain: most tars never need it.
  void open() {
    start = tape.position();
    locale.emplace();
    handle.reset(archive_read_new());
    entry.reset(archive_entry_new());
    archive_read_support_format_tar(handle.get());
    archive_read_set_read_callback(handle.get(), read_block);
    archive_read_set_skip_callback(handle.get(), skip_payload);
    archive_read_set_callback_data(handle.get(), this);
    check(archive_read_open1(handle.get()));
  }

  void check(int result) {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN) return;
    if (archive_errno(handle.get()) == ENOMEM) throw std::bad_alloc();
    // A bad checksum is ARCHIVE_RETRY: libarchive would search for the next header and lose data.
    const bool cut = tape.peek(1).empty();
    throw Error(cut ? ErrorCode::kTruncated : ErrorCode::kCorrupt, message_of(handle.get()),
                {.offset = header_offset});
  }

  // Moves the tape past the last member.
  void settle() {
    tape.skip(unread + padding);
    unread = padding = 0;
  }

  void expect_payload(std::uint64_t size) {
    unread = size;
    padding = padded_size(size) - size;
  }

  bool at_end();
  bool next_plain(Header& header);
  void next_by_libarchive(Header& header);

  Tape& tape;
  const bool checksums;
  std::optional<Utf8Locale> locale;
  ReadHandle handle;
  EntryHandle entry;
  std::exception_ptr error;
  std::uint64_t start = 0;    // tape position of libarchive's byte 0, plus the bytes it was not fed
  std::uint64_t unread = 0;   // payload bytes of the last member
  std::uint64_t padding = 0;  // after the payload
  std::uint64_t settled = 0;  // bytes already skipped that libarchive will want to skip
  std::uint64_t header_offset = 0;
  bool in_region = false;
  bool opened = false;
};

// Checks for an end marker or the end of the tape; the region shows which.
bool HeaderReader::State::at_end() {
  const auto block = tape.peek(kBlockBytes);
  if (block.size() < kBlockBytes && !block.empty()) {
    throw Error(ErrorCode::kTruncated, "tar ends inside a header", {.offset = tape.position()});
  }
  if (!block.empty() && (block[0] != std::byte{0} || !is_zero(block))) return false;
  tape.begin_region();
  tape.consume(tape.peek(2 * kBlockBytes).size());
  return true;
}

bool HeaderReader::State::next_plain(Header& header) {
  const auto found = parse_plain_header(tape.peek(kBlockBytes));
  if (!found) return false;
  header.name.assign(found->prefix);
  if (!found->prefix.empty() && found->prefix.back() != '/') header.name += '/';
  header.name += found->name;
  header.offset = tape.position();
  header.size = found->size;
  header.plain = header.regular = true;
  header.folder = false;
  header.link.clear();
  if (checksums) header.crc32 = crc32(tape.buffered(kBlockBytes));
  tape.consume(kBlockBytes);
  expect_payload(found->size);
  start += kBlockBytes + unread + padding;
  return true;
}

void HeaderReader::State::next_by_libarchive(Header& header) {
  in_region = false;
  if (!std::exchange(opened, true)) open();
  const Utf8Locale::Scope scope(*locale);
  const int result = archive_read_next_header2(handle.get(), entry.get());
  check(result);
  // libarchive and the tape must agree on where the payload begins.
  const auto consumed = static_cast<std::uint64_t>(archive_filter_bytes(handle.get(), 0));
  if (start + consumed != tape.position()) {
    throw Error(ErrorCode::kCorrupt, "tar: the header's end is unclear", {.offset = header_offset});
  }
  const char* name = archive_entry_pathname(entry.get());
  header.name.assign(name == nullptr ? "" : name);
  header.offset = header_offset;
  const std::int64_t size = archive_entry_size(entry.get());
  header.size = size < 0 ? 0 : static_cast<std::uint64_t>(size);
  header.regular = archive_entry_filetype(entry.get()) == AE_IFREG;
  header.folder = archive_entry_filetype(entry.get()) == AE_IFDIR;
  const char* link = archive_entry_hardlink(entry.get());
  header.link.assign(link == nullptr ? "" : link);
  header.plain = false;
  if (checksums) header.crc32 = crc32(tape.region());
  header.warning.clear();
  if (result == ARCHIVE_WARN) header.warning = message_of(handle.get());
  expect_payload(header.size);
  settled = unread + padding;
}

HeaderReader::HeaderReader(Tape& tape, bool checksums)
    : state_(std::make_unique<State>(tape, checksums)) {}
HeaderReader::~HeaderReader() = default;

bool HeaderReader::next(Header& header) {
  state_->settle();
  if (state_->at_end()) return false;
  if (!state_->next_plain(header)) state_->next_by_libarchive(header);
  return true;
}

void HeaderReader::took_payload() { state_->unread = 0; }

}  // namespace millrace::wds::detail
