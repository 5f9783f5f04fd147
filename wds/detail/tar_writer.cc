#include "wds/detail/tar_writer.h"

#include <archive.h>
#include <archive_entry.h>

#include <cerrno>
#include <exception>
#include <utility>

#include "io/base/error.h"
#include "wds/detail/utf8_locale.h"

namespace millrace::wds::detail {
namespace {

constexpr int kRecordBytes = 10'240;  // what tar has always padded to

struct FreeArchive {
  void operator()(archive* handle) const { archive_write_free(handle); }
};
struct FreeEntry {
  void operator()(archive_entry* entry) const { archive_entry_free(entry); }
};

}  // namespace

struct TarWriter::State {
  explicit State(std::unique_ptr<io::ByteSink> target) : sink(std::move(target)) {}

  // No exception may pass through libarchive's frames: it waits in `error`.
  static la_ssize_t write_block(archive* handle, void* self, const void* data, std::size_t size) {
    auto& state = *static_cast<State*>(self);
    // archive_write_free() would end an archive that was given up: nothing of that may be written.
    if (state.given_up) return static_cast<la_ssize_t>(size);
    try {
      state.sink->write({static_cast<const std::byte*>(data), size});
      return static_cast<la_ssize_t>(size);
    } catch (...) {
      state.error = std::current_exception();
      state.given_up = true;
      archive_set_error(handle, EIO, "writing failed");
      return ARCHIVE_FATAL;
    }
  }

  void open() {
    archive_write_set_format_pax_restricted(handle.get());
    archive_write_set_bytes_per_block(handle.get(), 100 * kRecordBytes);
    archive_write_set_bytes_in_last_block(handle.get(), kRecordBytes);
    check(archive_write_open(handle.get(), this, nullptr, write_block, nullptr));
  }

  void check(la_ssize_t result) {
    if (error) std::rethrow_exception(std::exchange(error, nullptr));
    if (result >= ARCHIVE_OK) return;
    given_up = true;
    const char* text = archive_error_string(handle.get());
    throw Error(ErrorCode::kInvalidArgument,
                std::string("tar: ") + (text == nullptr ? "unknown error" : text));
  }

  std::unique_ptr<io::ByteSink> sink;
  Utf8Locale locale;
  std::unique_ptr<archive_entry, FreeEntry> entry{archive_entry_new()};
  std::exception_ptr error;
  bool given_up = false;
  std::unique_ptr<archive, FreeArchive> handle{archive_write_new()};
};

TarWriter::TarWriter(std::unique_ptr<io::ByteSink> sink, std::int64_t mtime)
    : state_(std::make_unique<State>(std::move(sink))) {
  archive_entry* entry = state_->entry.get();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_perm(entry, 0444);
  archive_entry_set_uid(entry, 0);
  archive_entry_set_gid(entry, 0);
  archive_entry_set_uname(entry, "bigdata");
  archive_entry_set_gname(entry, "bigdata");
  archive_entry_set_mtime(entry, mtime, 0);
  state_->open();
}

TarWriter::~TarWriter() {
  if (state_) state_->given_up = true;
}
TarWriter::TarWriter(TarWriter&&) noexcept = default;
TarWriter& TarWriter::operator=(TarWriter&&) noexcept = default;

void TarWriter::add(const std::string& name, std::span<const std::byte> data) {
  const Utf8Locale::Scope scope(state_->locale);
  archive_entry_set_pathname(state_->entry.get(), name.c_str());
  archive_entry_set_size(state_->entry.get(), static_cast<la_int64_t>(data.size()));
  state_->check(archive_write_header(state_->handle.get(), state_->entry.get()));
  if (!data.empty()) {
    state_->check(archive_write_data(state_->handle.get(), data.data(), data.size()));
  }
}

std::uint64_t TarWriter::finish() {
  state_->check(archive_write_close(state_->handle.get()));
  state_->sink->finish();
  return state_->sink->position();
}

}  // namespace millrace::wds::detail
