// The module libmillrace_sound.so: sounds in memory, by libsndfile and libsamplerate.
#include <samplerate.h>
#include <sndfile.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include "decode/detail/sound_library.h"
#include "io/base/error.h"

namespace millrace::decode {
namespace {

/// A file that libsndfile reads from memory; no function of it throws.
struct MemoryFile {
  std::span<const std::byte> bytes;
  sf_count_t at = 0;

  static MemoryFile& of(void* self) { return *static_cast<MemoryFile*>(self); }
  sf_count_t size() const { return static_cast<sf_count_t>(bytes.size()); }

  static sf_count_t length(void* self) { return of(self).size(); }
  static sf_count_t tell(void* self) { return of(self).at; }
  static sf_count_t write(const void*, sf_count_t, void*) { return 0; }
  static sf_count_t seek(sf_count_t offset, int whence, void* self) {
    MemoryFile& file = of(self);
    const sf_count_t base = whence == SEEK_CUR ? file.at : whence == SEEK_END ? file.size() : 0;
    if (offset < -base || offset > file.size() - base) return -1;
    return file.at = base + offset;
  }
  static sf_count_t read(void* to, sf_count_t count, void* self) {
    MemoryFile& file = of(self);
    const sf_count_t given = std::clamp<sf_count_t>(count, 0, file.size() - file.at);
    std::memcpy(to, file.bytes.data() + file.at, static_cast<std::size_t>(given));
    file.at += given;
    return given;
  }
};

struct CloseSound {
  void operator()(SNDFILE* file) const { sf_close(file); }
};

/// What is stored: numbers as they are, or their logarithms; no other coding of WAV.
bool is_plain(int format) {
  constexpr int kKnown[] = {SF_FORMAT_PCM_S8, SF_FORMAT_PCM_U8, SF_FORMAT_PCM_16,
                            SF_FORMAT_PCM_24, SF_FORMAT_PCM_32, SF_FORMAT_FLOAT,
                            SF_FORMAT_DOUBLE, SF_FORMAT_ULAW,   SF_FORMAT_ALAW};
  return std::ranges::find(kKnown, format & SF_FORMAT_SUBMASK) != std::end(kKnown);
}

class MemorySound final : public SoundFile {
 public:
  explicit MemorySound(std::span<const std::byte> encoded) : memory_{.bytes = encoded} {
    SF_VIRTUAL_IO io = {.get_filelen = MemoryFile::length,
                        .seek = MemoryFile::seek,
                        .read = MemoryFile::read,
                        .write = MemoryFile::write,
                        .tell = MemoryFile::tell};
    file_.reset(sf_open_virtual(&io, SFM_READ, &info_, &memory_));
    // Why is in a variable that all threads share.
    if (!file_) throw Error(ErrorCode::kCorrupt, "libsndfile cannot read its header");
    if (info_.frames == SF_COUNT_MAX)
      throw Error(
          ErrorCode::kUnsupported,
          "a FLAC file that does not say how long it is, as one that was written to a pipe");
    if (!is_plain(info_.format))
      throw Error(ErrorCode::kUnsupported, "a WAV file of compressed samples");
  }

  SoundFormat format() const override {
    return {.frames = info_.frames, .channels = info_.channels, .rate = info_.samplerate};
  }

  void read(std::int64_t first, std::span<float> frames) override {
    const auto wanted = static_cast<sf_count_t>(frames.size()) / info_.channels;
    if (sf_seek(file_.get(), first, SEEK_SET) != first) fail("cannot be found");
    const sf_count_t got = sf_readf_float(file_.get(), frames.data(), wanted);
    if (sf_error(file_.get()) != SF_ERR_NO_ERROR) fail("is damaged");
    if (got != wanted)
      throw Error(ErrorCode::kTruncated, "the sound ends at frame " + std::to_string(first + got) +
                                             " of " + std::to_string(info_.frames));
  }

 private:
  [[noreturn]] void fail(const std::string& how) {
    throw Error(ErrorCode::kCorrupt,
                "the sound " + how + " where it is needed: " + sf_strerror(file_.get()));
  }

  MemoryFile memory_;
  SF_INFO info_ = {};
  std::unique_ptr<SNDFILE, CloseSound> file_;
};

struct EndResampling {
  void operator()(SRC_STATE* state) const { src_delete(state); }
};

class Sounds final : public SoundLibrary {
 public:
  std::unique_ptr<SoundFile> open(std::span<const std::byte> encoded) const override {
    return std::make_unique<MemorySound>(encoded);
  }

  void resample(std::span<const float> from, int channels, double ratio,
                std::span<float> to) const override {
    if (src_is_valid_ratio(ratio) == 0)
      throw Error(ErrorCode::kUnsupported, "its rate and that of the field are too far apart");
    int error = 0;
    const std::unique_ptr<SRC_STATE, EndResampling> state(
        src_new(SRC_SINC_MEDIUM_QUALITY, channels, &error));
    if (!state) throw std::bad_alloc();
    SRC_DATA data = {};
    data.data_in = from.data();
    data.data_out = to.data();
    data.input_frames = static_cast<long>(from.size()) / channels;
    data.output_frames = static_cast<long>(to.size()) / channels;
    data.src_ratio = ratio;
    data.end_of_input = 1;
    std::ranges::fill(to, 0.0F);
    error = src_process(state.get(), &data);
    if (error != 0)
      throw Error(ErrorCode::kUnsupported, std::string("libsamplerate: ") + src_strerror(error));
  }
};

}  // namespace
}  // namespace millrace::decode

extern "C" __attribute__((visibility("default"))) const millrace::decode::SoundLibrary*
millrace_sound_library() {
  static const millrace::decode::Sounds sounds;
  return &sounds;
}
