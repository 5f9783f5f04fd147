#include "tests/pipeline/film_writer.h"

#include <gtest/gtest.h>

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/opt.h>
}

#include <cmath>
#include <cstring>

#include "tests/support/temp_dir.h"

namespace millrace::testing {
namespace {

constexpr int kWhite = 235;

int luma_of(int number) { return 30 + 4 * number; }

void draw(AVFrame& frame, int number) {
  for (int y = 0; y < kFilmHeight; ++y) {
    std::uint8_t* row = frame.data[0] + y * frame.linesize[0];
    std::memset(row, luma_of(number), kFilmWidth / 2);
    std::memset(row + kFilmWidth / 2, kWhite, kFilmWidth / 2);
  }
  for (const int plane : {1, 2})
    for (int y = 0; y < kFilmHeight / 2; ++y)
      std::memset(frame.data[plane] + y * frame.linesize[plane], 128, kFilmWidth / 2);
  frame.pts = number;
}

void set_up(AVCodecContext& encoder, const FilmOptions& options, bool global_header) {
  encoder.width = kFilmWidth;
  encoder.height = kFilmHeight;
  encoder.pix_fmt = AV_PIX_FMT_YUV420P;
  encoder.time_base = {1, options.rate};
  encoder.framerate = {options.rate, 1};
  encoder.gop_size = options.key_frame_each;
  encoder.bit_rate = 4'000'000;
  encoder.thread_count = 1;
  if (options.encoder == "mpeg4") encoder.max_b_frames = 2;
  if (global_header) encoder.flags |= AV_CODEC_FLAG_GLOBAL_HEADER;
  av_opt_set(encoder.priv_data, "deadline", "realtime", 0);
  av_opt_set(encoder.priv_data, "preset", "veryfast", 0);
}

void write_packets(AVFormatContext& file, AVCodecContext& encoder, const AVFrame* frame) {
  ASSERT_GE(avcodec_send_frame(&encoder, frame), 0);
  AVPacket* packet = av_packet_alloc();
  while (avcodec_receive_packet(&encoder, packet) >= 0) {
    packet->duration = 1;
    av_packet_rescale_ts(packet, encoder.time_base, file.streams[0]->time_base);
    packet->stream_index = 0;
    EXPECT_GE(av_interleaved_write_frame(&file, packet), 0);
  }
  av_packet_free(&packet);
}

void write_film(AVFormatContext& file, AVCodecContext& encoder, const FilmOptions& options) {
  AVFrame* frame = av_frame_alloc();
  frame->format = AV_PIX_FMT_YUV420P;
  frame->width = kFilmWidth;
  frame->height = kFilmHeight;
  ASSERT_GE(av_frame_get_buffer(frame, 0), 0);
  for (int i = 0; i < options.frames; ++i) {
    ASSERT_GE(av_frame_make_writable(frame), 0);
    draw(*frame, i);
    write_packets(file, encoder, frame);
  }
  write_packets(file, encoder, nullptr);
  av_frame_free(&frame);
}

}  // namespace

int film_level(int number) {
  return static_cast<int>(std::lround((luma_of(number) - 16) * 255.0 / 219.0));
}

bool has_encoder(const std::string& encoder) {
  return avcodec_find_encoder_by_name(encoder.c_str()) != nullptr;
}

std::string film_file(const FilmOptions& options) {
  av_log_set_level(AV_LOG_QUIET);
  const TempDir folder;
  const std::string path = folder / ("film." + options.container);
  AVFormatContext* file = nullptr;
  avformat_alloc_output_context2(&file, nullptr, nullptr, path.c_str());
  const AVCodec* codec = avcodec_find_encoder_by_name(options.encoder.c_str());
  AVCodecContext* encoder = avcodec_alloc_context3(codec);
  set_up(*encoder, options, (file->oformat->flags & AVFMT_GLOBALHEADER) != 0);
  EXPECT_GE(avcodec_open2(encoder, codec, nullptr), 0) << options.encoder;
  AVStream* stream = avformat_new_stream(file, nullptr);
  stream->time_base = encoder->time_base;
  stream->avg_frame_rate = encoder->framerate;
  EXPECT_GE(avcodec_parameters_from_context(stream->codecpar, encoder), 0);
  EXPECT_GE(avio_open(&file->pb, path.c_str(), AVIO_FLAG_WRITE), 0);
  EXPECT_GE(avformat_write_header(file, nullptr), 0);
  write_film(*file, *encoder, options);
  EXPECT_GE(av_write_trailer(file), 0);
  avcodec_free_context(&encoder);
  avio_closep(&file->pb);
  avformat_free_context(file);
  return read_file(path);
}

}  // namespace millrace::testing
