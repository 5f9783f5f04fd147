#include "wds/detail/tar_writer.h"

#include <archive.h>
#include <archive_entry.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <exception>
#include <functional>
#include <future>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "wds/detail/archive_handles.h"
#include "wds/detail/utf8_locale.h"

namespace millrace::wds::detail {
namespace {

constexpr std::size_t kRecordBytes = 10'240;  // what tar has always padded to
constexpr std::size_t kTarBlock = 512;
constexpr std::size_t kBufferBytes = std::size_t{512} << 10;
constexpr std::size_t kBuffers = 4;
/// Payloads of this size are not copied into a buffer; neither are larger ones kept, whatever
/// memory they would take.
constexpr std::size_t kLeastKept = std::size_t{16} << 10;
constexpr std::size_t kMostKept = kBufferBytes;

/// Bytes that are being filled, or on their way through the threads.
struct Buffer {
  std::vector<std::byte> bytes = {};                  ///< what was copied; never moved
  std::vector<std::span<const std::byte>> runs = {};  ///< of `bytes` and of `kept`, in order
  std::vector<io::Bytes> kept = {};
  std::size_t size = 0;  ///< of all runs
  std::future<void> hashed = {};
  std::future<void> written = {};

  void wait(const std::function<void()>& say) const {
    for (const std::future<void>* job : {&hashed, &written})
      if (job->valid()) await_job(*job, say);
  }
  /// Returns when it may be filled again. Throws: what hashing or writing it threw.
  void await(const std::function<void()>& say) {
    wait(say);
    bytes.clear();
    runs.clear();
    kept.clear();
    size = 0;
    for (std::future<void>* job : {&hashed, &written})
      if (job->valid()) job->get();
  }

  /// Requires: room().
  void copy(std::span<const std::byte> data) {
    bytes.reserve(kBufferBytes);
    const std::byte* end = bytes.data() + bytes.size();
    const bool goes_on = !runs.empty() && runs.back().data() + runs.back().size() == end;
    bytes.insert(bytes.end(), data.begin(), data.end());
    if (goes_on)
      runs.back() = {runs.back().data(), runs.back().size() + data.size()};
    else
      runs.emplace_back(end, data.size());
    size += data.size();
  }
  void keep(const io::Bytes& data) {
    runs.push_back(data.span());
    kept.push_back(data);
    size += data.size();
  }
  bool is_full() const { return size >= kBufferBytes; }
  std::size_t room() const { return kBufferBytes - size; }
};

/// The tar's bytes on their way to the sink: counted, and gathered into buffers, each of which two
/// threads hash and write while the next one is filled.
class TarStream {
 public:
  TarStream(std::unique_ptr<io::ByteSink> sink, const TarWriterOptions& options,
            WriterThreads& threads)
      : threads_(threads),
        sink_(std::move(sink)),
        on_wait_([say = options.on_wait, said = false]() mutable {
          if (!std::exchange(said, true)) say();
        }),
        checksums_(options.checksums) {}
  ~TarStream() {
    for (const Buffer& buffer : buffers_) buffer.wait(on_wait_);
  }
  TarStream(const TarStream&) = delete;
  TarStream& operator=(const TarStream&) = delete;

  void write(std::span<const std::byte> data) {
    if (in_header_ && checksums_) header_crc_ = crc32(data, header_crc_);
    position_ += data.size();
    while (!data.empty()) {
      Buffer& buffer = buffers_[filling_];
      const auto piece = data.first(std::min(data.size(), buffer.room()));
      buffer.copy(piece);
      data = data.subspan(piece.size());
      if (buffer.is_full()) hand_over();
    }
  }

  void write(const io::Bytes& data) {
    if (data.size() < kLeastKept || data.size() > kMostKept) return write(data.span());
    position_ += data.size();
    buffers_[filling_].keep(data);
    if (buffers_[filling_].is_full()) hand_over();
  }

  void pad_record() {
    static constexpr std::array<std::byte, kRecordBytes> kZeros{};
    const std::size_t used = position_ % kRecordBytes;
    if (used != 0) write(std::span(kZeros).first(kRecordBytes - used));
  }

  void pad_block() {
    static constexpr std::array<std::byte, kTarBlock> kZeros{};
    write(std::span(kZeros).first((kTarBlock - position_ % kTarBlock) % kTarBlock));
  }

  /// Returns when all is hashed and written. Throws: what that threw.
  void flush() {
    if (buffers_[filling_].size > 0) hand_over();
    for (std::size_t i = 0; i < kBuffers; ++i) buffers_[(filling_ + i) % kBuffers].await(on_wait_);
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
  // The buffers are used in turn, so the fault that is thrown is the first one.
  void hand_over() {
    Buffer& full = buffers_[filling_];
    if (checksums_)
      full.hashed = threads_.hash.add([this, &full] {
        for (const auto& run : full.runs) hash_.update(run);
      });
    full.written = threads_.write.add([this, &full] {
      for (const auto& run : full.runs) sink_->write(run);
    });
    filling_ = (filling_ + 1) % kBuffers;
    buffers_[filling_].await(on_wait_);
  }

  WriterThreads& threads_;
  std::unique_ptr<io::ByteSink> sink_;  ///< of the writing thread, and of the caller after flush()
  std::function<void()> on_wait_;
  Sha256 hash_;  ///< of the hashing thread, and of the caller after flush()
  std::array<Buffer, kBuffers> buffers_;
  std::size_t filling_ = 0;
  std::uint64_t position_ = 0;
  std::uint32_t header_crc_ = 0;
  bool checksums_;
  bool in_header_ = false;
};

/// The header of a member whose name and size fit into ustar's fields: libarchive's own of another
/// member, with these two and the checksum exchanged. Source: POSIX.1-1988, "ustar".
class HeaderPattern {
 public:
  /// `model`: a whole header; of another size than a block there is none.
  explicit HeaderPattern(std::string_view model) : is_known_(model.size() == kTarBlock) {
    if (is_known_) std::copy(model.begin(), model.end(), block_.begin());
  }

  /// Whether make() gives what libarchive would.
  bool can_hold(std::string_view name, std::size_t size) const {
    const auto is_plain = [](char c) { return c > ' ' && c <= '~'; };
    return is_known_ && name.size() <= kNameBytes && size <= kMaxSize &&
           std::all_of(name.begin(), name.end(), is_plain);
  }

  /// Requires: can_hold(). Valid until the next call.
  std::span<const std::byte> make(std::string_view name, std::size_t size) {
    put(0, kNameBytes, name);
    put(kSizeAt, kSizeDigits, fmt::format("{:0{}o}", size, kSizeDigits));
    put(kSumAt, kSumBytes, "        ");
    const unsigned sum = std::accumulate(
        block_.begin(), block_.end(), 0U,
        [](unsigned so_far, char c) { return so_far + static_cast<unsigned char>(c); });
    put(kSumAt, kSumDigits + 1, fmt::format("{:0{}o}", sum, kSumDigits));
    return std::as_bytes(std::span(block_));
  }

 private:
  static constexpr std::size_t kNameBytes = 100;
  static constexpr std::size_t kSizeAt = 124;
  static constexpr std::size_t kSizeDigits = 11;
  static constexpr std::size_t kMaxSize = 077'777'777'777;
  static constexpr std::size_t kSumAt = 148;
  static constexpr std::size_t kSumBytes = 8;
  static constexpr std::size_t kSumDigits = 6;

  /// With zeros behind `text` up to `bytes`.
  void put(std::size_t at, std::size_t bytes, std::string_view text) {
    char* field = block_.data() + at;
    std::fill(std::copy(text.begin(), text.end(), field), field + bytes, '\0');
  }

  bool is_known_;
  std::array<char, kTarBlock> block_ = {};
};

}  // namespace

struct TarWriter::State {
  State(std::unique_ptr<io::ByteSink> sink, const TarWriterOptions& options)
      : threads(options.threads ? options.threads : std::make_shared<WriterThreads>()),
        stream(std::move(sink), options, *threads) {}

  // No exception may pass through libarchive's frames: it is stored in `error`.
  static la_ssize_t write_block(archive* handle, void* self, const void* data, std::size_t size) {
    auto& state = *static_cast<State*>(self);
    // archive_write_free() writes the end of an abandoned archive: it must be discarded.
    if (state.given_up) return static_cast<la_ssize_t>(size);
    try {
      if (state.model != nullptr) {
        state.model->append(static_cast<const char*>(data), size);
        return static_cast<la_ssize_t>(size);
      }
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

  void begin_entry(const std::string& name, std::size_t size) {
    const Utf8Locale::Scope scope(locale);
    archive_entry_set_pathname(entry.get(), name.c_str());
    archive_entry_set_size(entry.get(), static_cast<la_int64_t>(size));
    check(archive_write_header(handle.get(), entry.get()));
  }

  /// The header that libarchive gives a plain member; it does not reach the stream.
  std::string model_header() {
    std::string header;
    model = &header;
    begin_entry("model", 0);
    check(archive_write_finish_entry(handle.get()));
    model = nullptr;
    return header;
  }

  const std::shared_ptr<WriterThreads> threads;
  TarStream stream;
  std::string* model = nullptr;  ///< takes what libarchive writes
  std::optional<HeaderPattern> pattern;
  Utf8Locale locale;
  EntryHandle entry{archive_entry_new()};
  std::exception_ptr error;
  bool given_up = false;
  WriteHandle handle{archive_write_new()};
};

TarWriter::TarWriter(std::unique_ptr<io::ByteSink> sink, const TarWriterOptions& options)
    : state_(std::make_unique<State>(std::move(sink), options)) {
  archive_entry* entry = state_->entry.get();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_entry_set_perm(entry, 0444);
  archive_entry_set_uid(entry, 0);
  archive_entry_set_gid(entry, 0);
  archive_entry_set_uname(entry, "bigdata");
  archive_entry_set_gname(entry, "bigdata");
  archive_entry_set_mtime(entry, options.mtime, 0);
  state_->open();
  state_->pattern.emplace(state_->model_header());
}

TarWriter::~TarWriter() {
  if (state_) state_->given_up = true;
}
TarWriter::TarWriter(TarWriter&&) noexcept = default;
TarWriter& TarWriter::operator=(TarWriter&&) noexcept = default;

WrittenMember TarWriter::add(const std::string& name, const io::Bytes& data) {
  State& state = *state_;
  const bool plain = state.pattern->can_hold(name, data.size());
  WrittenMember member{.offset = state.stream.position()};
  state.stream.begin_header();
  if (plain)
    state.stream.write(state.pattern->make(name, data.size()));
  else
    state.begin_entry(name, data.size());
  member.header_crc32 = state.stream.end_header();
  member.data_offset = state.stream.position();
  if (state.stream.checksums()) member.crc32 = crc32(data.span());
  if (plain) {
    state.stream.write(data);
    state.stream.pad_block();
  } else {
    if (!data.empty())
      state.check(archive_write_data(state.handle.get(), data.data(), data.size()));
    state.check(archive_write_finish_entry(state.handle.get()));
  }
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
