#include "wds/detail/header_reader.h"

#include <archive.h>
#include <archive_entry.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <string_view>
#include <utility>

#include "io/base/check.h"
#include "io/base/error.h"
#include "wds/detail/header_blocks.h"
#include "wds/detail/utf8_locale.h"

namespace millrace::wds::detail {
namespace {

struct FreeArchive {
  void operator()(archive* handle) const { archive_read_free(handle); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

std::string message_of(archive* handle) {
  const char* text = archive_error_string(handle);
  return std::string("tar: ") + (text == nullptr ? "unknown error" : text);
}

}  // namespace

struct HeaderReader::State {
  explicit State(Tape& borrowed) : tape(borrowed), start(borrowed.position()) {}

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

  static la_int64_t skip_payload(archive* handle, void* self, la_int64_t request) {
    const la_int64_t skipped = static_cast<State*>(self)->guarded(handle, [request](State& state) {
      const auto wanted = static_cast<std::uint64_t>(request);
      const std::uint64_t taken = std::min(wanted, state.ahead);
      state.ahead -= taken;
      state.tape.skip(wanted - taken);
      return request;
    });
    // libarchive takes a negative count for bytes skipped the other way and asks again, for ever. 0
    // makes it read instead, and read_block() then says what happened.
    return skipped < 0 ? 0 : skipped;
  }

  // No exception may pass through libarchive's frames: it waits here.
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

  void open() {
    archive_read_support_format_tar(handle.get());
    archive_read_set_read_callback(handle.get(), read_block);
    archive_read_set_skip_callback(handle.get(), skip_payload);
    archive_read_set_callback_data(handle.get(), this);
    check(archive_read_open1(handle.get()));
  }

  void check(int result) {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    // A bad checksum is ARCHIVE_RETRY: libarchive would look for the next header, and lose data.
    if (result == ARCHIVE_OK || result == ARCHIVE_WARN || result == ARCHIVE_EOF) return;
    const bool cut = tape.peek(1).empty();
    throw Error(cut ? ErrorCode::kTruncated : ErrorCode::kCorrupt, message_of(handle.get()),
                {.offset = header_offset});
  }

  Tape& tape;
  const std::uint64_t start;
  Utf8Locale locale;
  std::unique_ptr<archive, FreeArchive> handle{archive_read_new()};
  std::unique_ptr<archive_entry, FreeEntry> entry{archive_entry_new()};
  std::exception_ptr error;
  std::uint64_t ahead = 0;  // payload bytes read beside libarchive
  std::uint64_t header_offset = 0;
  bool in_region = false;
  bool opened = false;
  bool any = false;
};

HeaderReader::HeaderReader(Tape& tape) : state_(std::make_unique<State>(tape)) {}
HeaderReader::~HeaderReader() = default;

bool HeaderReader::next(Header& header) {
  State& state = *state_;
  const Utf8Locale::Scope scope(state.locale);
  state.in_region = false;
  state.tape.end_region();
  if (!std::exchange(state.opened, true)) state.open();
  const int result = archive_read_next_header2(state.handle.get(), state.entry.get());
  state.check(result);
  if (result == ARCHIVE_EOF) return false;
  state.any = true;
  // libarchive and the tape must agree on where the payload begins, or its bytes are not ours.
  const auto consumed = static_cast<std::uint64_t>(archive_filter_bytes(state.handle.get(), 0));
  if (state.start + consumed != state.tape.position()) {
    throw Error(ErrorCode::kCorrupt, "tar: the header's end is unclear",
                {.offset = state.header_offset});
  }
  const char* name = archive_entry_pathname(state.entry.get());
  header.name.assign(name == nullptr ? "" : name);
  header.offset = state.header_offset;
  const std::int64_t size = archive_entry_size(state.entry.get());
  header.size = size < 0 ? 0 : static_cast<std::uint64_t>(size);
  header.regular = archive_entry_filetype(state.entry.get()) == AE_IFREG;
  header.warning.clear();
  if (result == ARCHIVE_WARN) header.warning = message_of(state.handle.get());
  return true;
}

void HeaderReader::took(std::uint64_t size) { state_->ahead += size; }
bool HeaderReader::any() const { return state_->any; }

}  // namespace millrace::wds::detail
