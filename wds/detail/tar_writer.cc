#include "wds/detail/tar_writer.h"

#include <archive.h>
#include <archive_entry.h>

#include <array>
#include <cerrno>
#include <exception>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "wds/detail/archive_handles.h"
#include "wds/detail/utf8_locale.h"

namespace millrace::wds::detail {
namespace {

constexpr std::size_t kRecordBytes = 10'240;  // what tar has always padded to
constexpr std::size_t kBufferBytes = std::size_t{1} << 20;

/// The tar's bytes on their way to the sink: counted, hashed and gathered into large writes.
class TarStream {
 public:
  TarStream(std::unique_ptr<io::ByteSink> sink, bool checksums)
      : sink_(std::move(sink)), checksums_(checksums) {
    buffer_.reserve(kBufferBytes);
  }

  void write(std::span<const std::byte> data) {
    if (in_header_ && checksums_) header_crc_ = crc32(data, header_crc_);
    position_ += data.size();
    if (buffer_.size() + data.size() > kBufferBytes) flush();
    if (data.size() >= kBufferBytes) {
      pass_on(data);
    } else {
      buffer_.insert(buffer_.end(), data.begin(), data.end());
    }
  }

  void pad_record() {
    static constexpr std::array<std::byte, kRecordBytes> kZeros{};
    const std::size_t used = position_ % kRecordBytes;
    if (used != 0) write(std::span(kZeros).first(kRecordBytes - used));
  }

  void flush() {
    pass_on(buffer_);
    buffer_.clear();
  }

  void begin_header() {
    in_header_ = true;
    header_crc_ = 0;
  }
  std::uint32_t end_header() {
    in_header_ = false;
    return header_crc_;
  }

  std::uint64_t position() const { return position_; }
  bool checksums() const { return checksums_; }
  std::string sha256() const { return checksums_ ? hash_.hex() : std::string(); }
  io::ByteSink& sink() { return *sink_; }

 private:
  void pass_on(std::span<const std::byte> data) {
    if (data.empty()) return;
    if (checksums_) hash_.update(data);
    sink_->write(data);
  }

  std::unique_ptr<io::ByteSink> sink_;
  std::vector<std::byte> buffer_;
  std::uint64_t position_ = 0;
  Sha256 hash_;
  std::uint32_t header_crc_ = 0;
  bool checksums_;
  bool in_header_ = false;
};

}  // namespace

struct TarWriter::State {
  State(std::unique_ptr<io::ByteSink> sink, bool checksums) : stream(std::move(sink), checksums) {}

  // No exception may pass through libarchive's frames: it is stored in `error`.
  static la_ssize_t write_block(archive* handle, void* self, const void* data, std::size_t size) {
    auto& state = *static_cast<State*>(self);
    // archive_write_free() writes the end of an abandoned archive: it must be discarded.
    if (state.given_up) return static_cast<la_ssize_t>(size);
    try {
      state.stream.write({static_cast<const std::byte*>(data), size});
      return static_cast<la_ssize_t>(size);
    } catch (...) {
      state.error = std::current_exception();
      state.given_up = true;
      archive_set_error(handle, EIO, "writing failed");
      return ARCHIVE_FATAL;
    }
  }

  // Unblocked, so that headers and payloads arrive in separate writes.
  void open() {
    archive_write_set_format_pax_restricted(handle.get());
    archive_write_set_bytes_per_block(handle.get(), 0);
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

  TarStream stream;
  Utf8Locale locale;
  EntryHandle entry{archive_entry_new()};
  std::exception_ptr error;
  bool given_up = false;
  WriteHandle handle{archive_write_new()};
};

TarWriter::TarWriter(std::unique_ptr<io::ByteSink> sink, const TarWriterOptions& options)
    : state_(std::make_unique<State>(std::move(sink), options.checksums)) {
  archive_entry* entry = state_->entry.get();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_perm(entry, 0444);
  archive_entry_set_uid(entry, 0);
  archive_entry_set_gid(entry, 0);
  archive_entry_set_uname(entry, "bigdata");
  archive_entry_set_gname(entry, "bigdata");
  archive_entry_set_mtime(entry, options.mtime, 0);
  state_->open();
}

TarWriter::~TarWriter() {
  if (state_) state_->given_up = true;
}
TarWriter::TarWriter(TarWriter&&) noexcept = default;
TarWriter& TarWriter::operator=(TarWriter&&) noexcept = default;

WrittenMember TarWriter::add(const std::string& name, std::span<const std::byte> data) {
  State& state = *state_;
  const Utf8Locale::Scope scope(state.locale);
  archive_entry_set_pathname(state.entry.get(), name.c_str());
  archive_entry_set_size(state.entry.get(), static_cast<la_int64_t>(data.size()));
  WrittenMember member{.offset = state.stream.position()};
  state.stream.begin_header();
  state.check(archive_write_header(state.handle.get(), state.entry.get()));
  member.header_crc32 = state.stream.end_header();
  member.data_offset = state.stream.position();
  if (!data.empty()) {
    state.check(archive_write_data(state.handle.get(), data.data(), data.size()));
    if (state.stream.checksums()) member.crc32 = crc32(data);
  }
  state.check(archive_write_finish_entry(state.handle.get()));
  return member;
}

WrittenTar TarWriter::end() {
  TarStream& stream = state_->stream;
  WrittenTar tar{.end = stream.position()};
  state_->check(archive_write_close(state_->handle.get()));
  stream.pad_record();
  stream.flush();
  tar.bytes = stream.position();
  tar.sha256 = stream.sha256();
  return tar;
}

void TarWriter::publish() { state_->stream.sink().finish(); }

}  // namespace millrace::wds::detail
