// The module libmillrace_video.so: films in memory, by FFmpeg's libraries.
extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/imgutils.h>
#include <libswscale/swscale.h>
}

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "decode/detail/film_library.h"
#include "io/base/error.h"
#include "io/base/text.h"

namespace millrace::decode {
namespace {

// No allocation of FFmpeg's is larger, whatever a film's index claims.
constexpr std::size_t kMostAllocated = std::size_t{256} << 20U;
// Of all pictures that are decoded for one part: some 8,000 of 1920 x 1080.
constexpr std::int64_t kMostPixels = std::int64_t{16} << 30U;
constexpr int kIoBytes = 32 * 1024;
// A time may be so much earlier than the picture that is shown then, as films round their times.
constexpr double kTimeTolerance = 0.0005;
// A film's sound may go on for so long behind its last picture.
constexpr double kMostStill = 0.5;
constexpr const char* kDecoders = "h264,hevc,vp8,vp9,libdav1d,libaom-av1,av1,mpeg4";

std::string text_of(int error) {
  std::array<char, AV_ERROR_MAX_STRING_SIZE> text{};
  av_strerror(error, text.data(), text.size());
  return printable(text.data(), 100);
}

/// FFmpeg says the same when there is no memory and when a film asks for more than it may have.
[[noreturn]] void throw_no_memory(const char* what) {
  void* half = av_malloc(kMostAllocated / 2);
  if (half == nullptr) throw std::bad_alloc();
  av_free(half);
  throw Error(ErrorCode::kExhausted, std::string(what) + ": it asks for over " +
                                         std::to_string(kMostAllocated >> 20U) + " MiB at once");
}

/// Throws: Corrupt for an error of FFmpeg's; Exhausted.
int checked(int result, const char* what) {
  if (result >= 0) return result;
  if (result == AVERROR(ENOMEM)) throw_no_memory(what);
  throw Error(ErrorCode::kCorrupt, std::string(what) + ": " + text_of(result));
}

template <typename T>
T* allocated(T* pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

/// A file that FFmpeg reads from memory; no function of it throws.
struct MemoryFilm {
  std::span<const std::byte> bytes;
  std::int64_t at = 0;

  std::int64_t size() const { return static_cast<std::int64_t>(bytes.size()); }

  static int read(void* self, std::uint8_t* to, int count) {
    auto& film = *static_cast<MemoryFilm*>(self);
    const std::int64_t given = std::clamp<std::int64_t>(count, 0, film.size() - film.at);
    if (given == 0) return AVERROR_EOF;
    std::memcpy(to, film.bytes.data() + film.at, static_cast<std::size_t>(given));
    film.at += given;
    return static_cast<int>(given);
  }
  static std::int64_t seek(void* self, std::int64_t offset, int whence) {
    auto& film = *static_cast<MemoryFilm*>(self);
    if (whence == AVSEEK_SIZE) return film.size();
    const std::int64_t base = whence == SEEK_CUR ? film.at : whence == SEEK_END ? film.size() : 0;
    if (offset < -base || offset > film.size() - base) return AVERROR(EINVAL);
    return film.at = base + offset;
  }
};

struct Free {
  void operator()(AVIOContext* io) const {
    av_freep(&io->buffer);
    avio_context_free(&io);
  }
  void operator()(AVFormatContext* container) const { avformat_close_input(&container); }
  void operator()(AVCodecContext* decoder) const { avcodec_free_context(&decoder); }
  void operator()(AVFrame* frame) const { av_frame_free(&frame); }
  void operator()(AVPacket* packet) const { av_packet_free(&packet); }
  void operator()(SwsContext* scaler) const { sws_freeContext(scaler); }
};
template <typename T>
using Owned = std::unique_ptr<T, Free>;

int refuse_to_open(AVFormatContext*, AVIOContext**, const char*, int, AVDictionary**) {
  return AVERROR(EACCES);
}

/// Scales pictures of any format to RGB.
class Scaler {
 public:
  explicit Scaler(const Extent& size) : size_(size) {
    scaled_->format = AV_PIX_FMT_RGB24;
    scaled_->height = size.height;
    scaled_->width = size.width;
    checked(av_frame_get_buffer(scaled_.get(), 0),
            "a picture");  // rows that vector code may overrun
  }

  void scale(const AVFrame& frame, std::byte* to) {
    prepare(frame);
    checked(sws_scale(scaler_.get(), frame.data, frame.linesize, 0, frame.height, scaled_->data,
                      scaled_->linesize),
            "a picture cannot be scaled");
    const auto row = static_cast<std::size_t>(size_.width) * 3;
    for (int y = 0; y < size_.height; ++y)
      std::memcpy(to + static_cast<std::size_t>(y) * row,
                  scaled_->data[0] + static_cast<std::ptrdiff_t>(y) * scaled_->linesize[0], row);
  }

 private:
  void prepare(const AVFrame& frame) {
    constexpr int kFlags =
        SWS_BILINEAR | SWS_ACCURATE_RND | SWS_FULL_CHR_H_INT | SWS_FULL_CHR_H_INP | SWS_BITEXACT;
    scaler_.reset(sws_getCachedContext(
        scaler_.release(), frame.width, frame.height, static_cast<AVPixelFormat>(frame.format),
        size_.width, size_.height, AV_PIX_FMT_RGB24, kFlags, nullptr, nullptr, nullptr));
    if (!scaler_) throw Error(ErrorCode::kUnsupported, "pictures that libswscale does not know");
    const int* matrix = sws_getCoefficients(
        frame.colorspace == AVCOL_SPC_UNSPECIFIED ? SWS_CS_DEFAULT : frame.colorspace);
    const int full = frame.color_range == AVCOL_RANGE_JPEG ? 1 : 0;
    constexpr int kOne = 1 << 16;
    sws_setColorspaceDetails(scaler_.get(), matrix, full, sws_getCoefficients(SWS_CS_DEFAULT), 1, 0,
                             kOne, kOne);
  }

  Extent size_;
  Owned<AVFrame> scaled_{allocated(av_frame_alloc())};
  Owned<SwsContext> scaler_;
};

class MemoryFilmFile final : public FilmFile {
 public:
  MemoryFilmFile(std::span<const std::byte> encoded, FilmContainer container,
                 const VideoLimits& limits)
      : memory_{.bytes = encoded}, limits_(limits) {
    open_container(container == FilmContainer::kMp4 ? "mov,mp4,m4a,3gp,3g2,mj2" : "matroska,webm");
    open_decoder();
  }

  FilmFormat format() const override {
    FilmFormat format;
    if (stream_->duration > 0)
      format.seconds = static_cast<double>(stream_->duration) * av_q2d(stream_->time_base);
    else
      format.seconds = std::max(end_in_container() - begin() * av_q2d(stream_->time_base), 0.0);
    const AVRational rate = av_guess_frame_rate(container_.get(), stream_, nullptr);
    if (rate.num > 0 && rate.den > 0) format.rate = av_q2d(rate);
    return format;
  }

  void read(std::span<const double> times, const Extent& size,
            std::span<std::byte> pictures) override {
    Scaler scaler(size);
    try {
      read_from(times[0], times, scaler, pictures);
    } catch (const Error& error) {
      // Pictures behind a key frame may need some before it, and indexes may be wrong.
      if (error.code() != ErrorCode::kCorrupt || times[0] <= 0) throw;
      read_from(0, times, scaler, pictures);
    }
  }

 private:
  void open_container(const char* format) {
    auto* buffer = static_cast<unsigned char*>(allocated(av_malloc(kIoBytes)));
    AVIOContext* io = avio_alloc_context(buffer, kIoBytes, 0, &memory_, MemoryFilm::read, nullptr,
                                         MemoryFilm::seek);
    if (io == nullptr) av_free(buffer);
    io_.reset(allocated(io));
    AVFormatContext* container = allocated(avformat_alloc_context());
    container->pb = io_.get();
    container->io_open = refuse_to_open;
    AVDictionary* options = nullptr;
    av_dict_set(&options, "codec_whitelist", kDecoders, 0);
    const int opened =
        avformat_open_input(&container, nullptr, av_find_input_format(format), &options);
    av_dict_free(&options);
    checked(opened, "its header");  // or the container is freed
    container_.reset(container);
    checked(avformat_find_stream_info(container, nullptr), "its streams");
  }

  void open_decoder() {
    const int index = av_find_best_stream(container_.get(), AVMEDIA_TYPE_VIDEO, -1, -1, nullptr, 0);
    if (index < 0) throw Error(ErrorCode::kUnsupported, "it has no film that can be decoded");
    for (unsigned i = 0; i < container_->nb_streams; ++i)
      if (static_cast<int>(i) != index) container_->streams[i]->discard = AVDISCARD_ALL;
    stream_ = container_->streams[index];
    const AVCodecParameters& coded = *stream_->codecpar;
    if (std::int64_t{coded.width} * coded.height > limits_.max_pixels)
      throw Error(ErrorCode::kExhausted,
                  std::to_string(coded.width) + " x " + std::to_string(coded.height) +
                      " pixels are more than " + std::to_string(limits_.max_pixels));
    const AVCodec* codec = avcodec_find_decoder(coded.codec_id);
    if (codec == nullptr || !is_known(codec->name))
      throw Error(ErrorCode::kUnsupported,
                  std::string("a film in ") + avcodec_get_name(coded.codec_id));
    decoder_.reset(allocated(avcodec_alloc_context3(codec)));
    checked(avcodec_parameters_to_context(decoder_.get(), &coded), "its coding");
    decoder_->thread_count = 1;
    decoder_->max_pixels = limits_.max_pixels;
    decoder_->err_recognition = AV_EF_CRCCHECK | AV_EF_BITSTREAM | AV_EF_BUFFER | AV_EF_EXPLODE;
    decoder_->error_concealment = 0;
    decoder_->pkt_timebase = stream_->time_base;
    checked(avcodec_open2(decoder_.get(), codec, nullptr), "its coding");
  }

  static bool is_known(const std::string& decoder) {
    return ("," + std::string(kDecoders) + ",").find("," + decoder + ",") != std::string::npos;
  }

  /// Matroska says a stream's end in its tags, "00:00:02.400000000"; its own is that of its longest
  /// stream. In seconds of the container; 0: unknown.
  double end_in_container() const {
    const AVDictionaryEntry* tag =
        av_dict_get(stream_->metadata, "DURATION", nullptr, AV_DICT_IGNORE_SUFFIX);
    int hours = 0;
    int minutes = 0;
    double seconds = 0;
    if (tag != nullptr && std::sscanf(tag->value, "%d:%d:%lf", &hours, &minutes, &seconds) == 3)
      return 3600.0 * hours + 60.0 * minutes + seconds;
    return container_->duration > 0 ? static_cast<double>(container_->duration) / AV_TIME_BASE : 0;
  }

  std::int64_t begin() const {
    return stream_->start_time == AV_NOPTS_VALUE ? 0 : stream_->start_time;
  }

  void seek(double time) {
    const auto offset =
        static_cast<std::int64_t>((time + kTimeTolerance) / av_q2d(stream_->time_base));
    checked(av_seek_frame(container_.get(), stream_->index, begin() + offset, AVSEEK_FLAG_BACKWARD),
            "its index");
    avcodec_flush_buffers(decoder_.get());
    ended_ = false;
  }

  void read_from(double from, std::span<const double> times, Scaler& scaler,
                 std::span<std::byte> pictures) {
    const std::size_t bytes = pictures.size() / times.size();
    Owned<AVFrame> shown;
    std::size_t done = 0;
    seek(from);
    while (done < times.size()) {
      Owned<AVFrame> next = next_frame();
      const double until = next ? time_of(*next) : end_of(shown.get());
      for (; done < times.size() && times[done] + kTimeTolerance < until; ++done) {
        if (!shown && from > 0)
          throw Error(ErrorCode::kCorrupt, "its index leads behind a picture");
        scaler.scale(shown ? *shown : *next, pictures.data() + done * bytes);
      }
      if (!next && done < times.size())
        throw Error(ErrorCode::kTruncated, "the film ends before " + std::to_string(times[done]) +
                                               " s, where pictures are needed");
      shown = std::move(next);
    }
  }

  double time_of(const AVFrame& frame) const {
    if (frame.best_effort_timestamp == AV_NOPTS_VALUE)
      throw Error(ErrorCode::kCorrupt, "a picture of a film without its time");
    return static_cast<double>(frame.best_effort_timestamp - begin()) * av_q2d(stream_->time_base);
  }

  double end_of(const AVFrame* last) const {
    if (last == nullptr) throw Error(ErrorCode::kCorrupt, "a film without pictures");
    const FilmFormat own = format();
    const double usual = own.rate > 0 ? 1 / own.rate : 0;
    return time_of(*last) + usual + kMostStill;
  }

  /// Null at the film's end. Throws: Corrupt, Exhausted.
  Owned<AVFrame> next_frame() {
    Owned<AVFrame> frame(allocated(av_frame_alloc()));
    for (;;) {
      const int received = avcodec_receive_frame(decoder_.get(), frame.get());
      if (received == AVERROR_EOF) return nullptr;
      if (received != AVERROR(EAGAIN)) {
        checked(received, "a picture");
        check_sound(*frame);
        return frame;
      }
      send_packet();
    }
  }

  void check_sound(const AVFrame& frame) {
    if (frame.decode_error_flags != 0 || (frame.flags & AV_FRAME_FLAG_CORRUPT) != 0)
      throw Error(ErrorCode::kCorrupt, "a picture of the film is damaged");
    pixels_ += std::int64_t{frame.width} * frame.height;
    if (++decoded_ > limits_.max_decoded || pixels_ > kMostPixels)
      throw Error(ErrorCode::kExhausted,
                  "more than " + std::to_string(decoded_ - 1) +
                      " pictures would have to be decoded for a part of the film");
  }

  void send_packet() {
    if (ended_) throw Error(ErrorCode::kCorrupt, "a decoder that wants more than the film has");
    Owned<AVPacket> packet(allocated(av_packet_alloc()));
    int read = 0;
    do {
      av_packet_unref(packet.get());
      read = av_read_frame(container_.get(), packet.get());
      if (++packets_ > 64 * limits_.max_decoded)
        throw Error(ErrorCode::kExhausted, "a film of more packets than pictures need");
    } while (read >= 0 && packet->stream_index != stream_->index);
    ended_ = read == AVERROR_EOF;
    if (!ended_) checked(read, "its packets");
    if (!ended_ && (packet->flags & AV_PKT_FLAG_CORRUPT) != 0)
      throw Error(ErrorCode::kCorrupt, "a packet of the film is damaged");
    checked(avcodec_send_packet(decoder_.get(), ended_ ? nullptr : packet.get()), "a picture");
  }

  MemoryFilm memory_;
  VideoLimits limits_;
  Owned<AVIOContext> io_;
  Owned<AVFormatContext> container_;
  Owned<AVCodecContext> decoder_;
  AVStream* stream_ = nullptr;
  std::int64_t decoded_ = 0;
  std::int64_t pixels_ = 0;  ///< of those
  std::int64_t packets_ = 0;
  bool ended_ = false;
};

class Films final : public FilmLibrary {
 public:
  Films() {
    av_max_alloc(kMostAllocated);
    // What is wrong with a film is in its fault; other users' own choice is kept.
    if (av_log_get_level() == AV_LOG_INFO) av_log_set_level(AV_LOG_QUIET);
  }

  std::unique_ptr<FilmFile> open(std::span<const std::byte> encoded, FilmContainer container,
                                 const VideoLimits& limits) const override {
    return std::make_unique<MemoryFilmFile>(encoded, container, limits);
  }
};

}  // namespace
}  // namespace millrace::decode

extern "C" __attribute__((visibility("default"))) const millrace::decode::FilmLibrary*
millrace_film_library() {
  static const millrace::decode::Films films;
  return &films;
}
