// Sounds: parts of WAV and FLAC files, which libsndfile writes here.
#include "decode/audio.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sndfile.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numbers>
#include <set>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "tests/support/code_of.h"
#include "tests/support/mutator.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace::pipeline {
namespace {

using decode::AudioDecoder;
using decode::AudioOptions;
using decode::ClipPlace;
using decode::SampleId;
using ::testing::AllOf;
using testing::code_of;
using ::testing::HasSubstr;
using testing::TarBuilder;
using testing::TempDir;

constexpr int kWav = SF_FORMAT_WAV | SF_FORMAT_PCM_16;
constexpr int kFlac = SF_FORMAT_FLAC | SF_FORMAT_PCM_16;
constexpr int kFloatWav = SF_FORMAT_WAV | SF_FORMAT_FLOAT;

struct Written {
  int format = kWav;
  int rate = 8000;
  int channels = 1;
};

/// The file of these (frames, channels).
std::string sound_file(const std::vector<float>& frames, const Written& as) {
  const TempDir folder;
  SF_INFO info = {};
  info.samplerate = as.rate;
  info.channels = as.channels;
  info.format = as.format;
  SNDFILE* file = sf_open((folder / "sound").c_str(), SFM_WRITE, &info);
  if (file == nullptr) throw Error(ErrorCode::kIo, sf_strerror(nullptr));
  sf_writef_float(file, frames.data(), static_cast<sf_count_t>(frames.size()) / as.channels);
  sf_close(file);
  return testing::read_file(folder / "sound");
}

/// Frame i is i / 32768, and the channels behind the first are negative multiples of that.
std::vector<float> ramp(int frames, int channels = 1) {
  std::vector<float> values;
  for (int i = 0; i < frames; ++i)
    for (int c = 0; c < channels; ++c)
      values.push_back(static_cast<float>(c == 0 ? i : -c * i) / 32768.0F);
  return values;
}

struct Heard {
  std::vector<float> samples;
  std::int64_t length = 0;
};

Heard heard(const AudioOptions& options, const std::string& file, const SampleId& id = {}) {
  const AudioDecoder decoder(options);
  Heard result;
  result.samples.assign(static_cast<std::size_t>(decoder.output().num_values()), 9.0F);
  result.length = decoder.decode(io::Bytes::copy_of(file), id,
                                 std::as_writable_bytes(std::span(result.samples)));
  return result;
}

ErrorCode refusal(const AudioOptions& options, const std::string& file) {
  return code_of([&] { heard(options, file); });
}

constexpr AudioOptions kTenth = {.seconds = 0.1, .rate = 8000};

TEST(Audio, PartsAreTheFilesSamplesWhereTheyAreDrawn) {
  const std::string wav = sound_file(ramp(8000), {});
  const std::string flac = sound_file(ramp(8000), {.format = kFlac});
  std::set<float> firsts;
  for (std::uint64_t index = 0; index < 20; ++index) {
    const SampleId id = {.seed = 3, .index = index};
    const Heard part = heard(kTenth, wav, id);
    ASSERT_EQ(part.length, 800);
    const float first = part.samples[0] * 32768.0F;
    for (int i = 0; i < 800; ++i)
      ASSERT_EQ(part.samples[static_cast<std::size_t>(i)] * 32768.0F,
                first + static_cast<float>(i));
    EXPECT_EQ(heard(kTenth, flac, id).samples, part.samples);
    firsts.insert(first);
  }
  EXPECT_GT(firsts.size(), 15U);
  AudioOptions options = kTenth;
  options.place = ClipPlace::kStart;
  EXPECT_EQ(heard(options, flac).samples[0], 0.0F);
  options.place = ClipPlace::kMiddle;
  EXPECT_EQ(heard(options, flac).samples[0], 3600.0F / 32768.0F);
}

TEST(Audio, ShorterSoundsHaveZerosBehindThem) {
  for (const int frames : {0, 1, 500}) {
    const Heard part = heard(kTenth, sound_file(ramp(frames), {}));
    EXPECT_EQ(part.length, frames);
    std::vector<float> expected = ramp(frames);
    expected.resize(800);
    EXPECT_EQ(part.samples, expected);
  }
}

TEST(Audio, ChannelsAreTheirMeanOrTwo) {
  AudioOptions options = {.seconds = 0.01, .rate = 8000, .place = ClipPlace::kStart};
  const std::string three = sound_file(ramp(80, 3), {.channels = 3});
  EXPECT_NEAR(heard(options, three).samples[60], (60.0F - 60 - 120) / 3 / 32768, 1e-7F);
  options.channels = 2;
  EXPECT_EQ(refusal(options, three), ErrorCode::kUnsupported);
  const Heard two = heard(options, sound_file(ramp(80, 2), {.format = kFlac, .channels = 2}));
  const Heard one = heard(options, sound_file(ramp(80), {}));
  EXPECT_EQ(two.length, 80);
  for (std::size_t i = 0; i < 80; ++i) {
    EXPECT_EQ(two.samples[80 + i], -two.samples[i]);
    EXPECT_EQ(one.samples[80 + i], one.samples[i]);
    EXPECT_EQ(one.samples[i], two.samples[i]);
  }
}

std::vector<float> sine(int frames, int rate) {
  std::vector<float> values;
  for (int i = 0; i < frames; ++i)
    values.push_back(static_cast<float>(0.5 * std::sin(2 * std::numbers::pi * 440 * i / rate)));
  return values;
}

TEST(Audio, ResampledPartsAreThoseOfTheWholeSound) {
  for (const auto& [from, to] : {std::pair(44100, 16000), std::pair(16000, 44100)}) {
    const std::string file = sound_file(sine(from / 2, from), {.format = kFloatWav, .rate = from});
    const Heard whole = heard({.seconds = 0.5, .rate = to}, file);
    ASSERT_EQ(whole.length, to / 2);
    const std::vector<float> expected = sine(to / 2, to);
    for (std::size_t i = 500; i + 500 < expected.size(); ++i)
      ASSERT_NEAR(whole.samples[i], expected[i], 2e-4F) << from << " to " << to << " at " << i;
    EXPECT_NE(whole.samples.back(), 0.0F) << "the resampler's last";
    for (std::uint64_t index = 0; index < 4; ++index) {
      const Heard part = heard({.seconds = 0.05, .rate = to}, file, {.index = index});
      // 441 frames are 160 samples, and the other way round.
      std::size_t begin = 0;
      const std::size_t step = static_cast<std::size_t>(to) / 100;
      const auto differs = [&](std::size_t at) {
        for (std::size_t i = 0; i < part.samples.size(); ++i)
          if (std::abs(part.samples[i] - whole.samples[at + i]) > 2e-5F) return true;
        return false;
      };
      while (begin + part.samples.size() < whole.samples.size() && differs(begin)) begin += step;
      EXPECT_FALSE(differs(begin)) << from << " to " << to << ", sample " << index;
    }
  }
}

TEST(Audio, DamageIsAFaultWhereItIsHeard) {
  const std::string wav = sound_file(ramp(2000), {});
  std::vector<float> noise;  // that FLAC cannot foresee
  for (int i = 0; i < 20'000; ++i) noise.push_back(static_cast<float>(i * 7919 % 32749) / 32768.0F);
  const std::string flac = sound_file(noise, {.format = kFlac});
  EXPECT_EQ(refusal(kTenth, wav.substr(0, wav.size() - 1)), ErrorCode::kTruncated);
  EXPECT_EQ(refusal(kTenth, "ID3" + wav), ErrorCode::kUnsupported);
  EXPECT_EQ(refusal(kTenth, ""), ErrorCode::kUnsupported);
  EXPECT_EQ(refusal(kTenth, wav.substr(0, 20)), ErrorCode::kTruncated);
  EXPECT_EQ(refusal(kTenth, wav.substr(0, 12)), ErrorCode::kCorrupt);
  std::string never_closed = wav;  // by a recorder that was killed
  never_closed.replace(4, 4, 4, '\0').replace(wav.find("data") + 4, 4, 4, '\0');
  EXPECT_EQ(refusal(kTenth, never_closed), ErrorCode::kTruncated);
  std::string unknown = flac;  // of no length: the low 36 bits of eight bytes of its first block
  unknown[21] = static_cast<char>(unknown[21] & '\xF0');
  unknown.replace(22, 4, 4, '\0');
  EXPECT_EQ(refusal(kTenth, unknown), ErrorCode::kUnsupported);
  const AudioOptions all = {.seconds = 2.5, .rate = 8000};
  std::string damaged = flac;
  damaged[flac.size() / 2] ^= 0x55;
  EXPECT_EQ(refusal(all, damaged), ErrorCode::kCorrupt);
  EXPECT_NE(refusal(all, flac.substr(0, flac.size() / 2)), ErrorCode::kUnsupported);
  const AudioOptions early = {.seconds = 0.5, .rate = 8000, .place = ClipPlace::kStart};
  EXPECT_EQ(heard(early, damaged).samples, heard(early, flac).samples) << "damage behind the part";
  const auto nan = std::nanf("");
  EXPECT_EQ(refusal(kTenth, sound_file({0.0F, nan}, {.format = kFloatWav})), ErrorCode::kCorrupt);
}

TEST(Audio, ClaimsAreBounded) {
  const std::string wav = sound_file(ramp(2000, 3), {.channels = 3});
  AudioOptions options = kTenth;
  options.limits.max_channels = 2;
  EXPECT_EQ(refusal(options, wav), ErrorCode::kExhausted);
  options = kTenth;
  options.limits.max_rate = 7999;
  EXPECT_EQ(refusal(options, wav), ErrorCode::kExhausted);
  options = kTenth;
  options.limits.max_bytes = 800 * 3 * 4 - 1;
  EXPECT_EQ(refusal(options, wav), ErrorCode::kExhausted);
  EXPECT_EQ(refusal({.seconds = 1e-3, .rate = 768'000}, sound_file(ramp(9), {.rate = 100})),
            ErrorCode::kUnsupported);
  for (const AudioOptions& bad :
       {AudioOptions{.seconds = 0}, AudioOptions{.seconds = std::nan("")},
        AudioOptions{.seconds = 1e9}, AudioOptions{.seconds = 1, .rate = 0},
        AudioOptions{.seconds = 1, .channels = 3}})
    EXPECT_EQ(code_of([&] { AudioDecoder{bad}; }), ErrorCode::kInvalidArgument);
}

TEST(Audio, MutantsAreDecodedOrRefused) {
  const std::string files[] = {sound_file(ramp(3000, 2), {.channels = 2}),
                               sound_file(ramp(3000, 2), {.format = kFlac, .channels = 2})};
  int refused = 0;
  for (std::uint64_t number = 0; number < 300; ++number) {
    try {
      const Heard part = heard(kTenth, testing::mutated_pack(files[number % 2], number));
      EXPECT_LE(part.length, 800);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 30);
}

std::string sound_shard(const TempDir& folder, const std::string& damaged_key = "") {
  TarBuilder tar;
  for (int i = 100; i < 124; ++i) {
    std::string flac =
        sound_file(sine(20'000 + 100 * i, 22'050), {.format = kFlac, .rate = 22'050});
    if (std::to_string(i) == damaged_key) flac.resize(flac.size() / 8);
    tar.file(std::to_string(i) + ".flac", flac);
  }
  testing::write_file(folder / "sounds.tar", tar.end().bytes());
  return folder / "sounds.tar";
}

Pipeline::Builder sound_pipeline(const std::string& shard) {
  return Pipeline::Builder()
      .shards(shard)
      .field(AudioField{.seconds = 0.25, .rate = 8000, .place = ClipPlace::kRandom})
      .batch({.size = 8});
}

TEST(AudioField, IsTheSameAtAnyNumberOfThreads) {
  const TempDir folder;
  const std::string shard = sound_shard(folder);
  std::vector<float> all[2];
  for (const int threads : {1, 4}) {
    Pipeline pipeline = sound_pipeline(shard)
                            .shuffle({.buffer_samples = 9, .seed = 1})
                            .resources({.threads = threads})
                            .build();
    for (Batch batch; pipeline.next(batch);) {
      const auto sounds = batch.field("audio").as<float>();
      all[threads > 1].insert(all[threads > 1].end(), sounds.begin(), sounds.end());
      for (const std::int64_t length : batch.field("audio.length").as<std::int64_t>())
        EXPECT_EQ(length, 2000);
    }
  }
  EXPECT_EQ(all[0].size(), 24U * 2000);
  EXPECT_EQ(all[0], all[1]);
}

std::string fault_of_sounds(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(AudioField, FaultsSayWhere) {
  const TempDir folder;
  const std::string shard = sound_shard(folder, "113");
  EXPECT_THAT(fault_of_sounds([&] {
                Pipeline pipeline = sound_pipeline(shard).build();
                for (Batch batch; pipeline.next(batch);) continue;
              }),
              AllOf(HasSubstr(shard), HasSubstr("113.flac")));
  EXPECT_THAT(fault_of_sounds([&] {
                Pipeline::Builder()
                    .shards(shard)
                    .field(AudioField{.name = "voice"})
                    .batch({.size = 8})
                    .build();
              }),
              HasSubstr("field voice: a sound of 0 s"));
}

TEST(AudioField, MayBeLacking) {
  const TempDir folder;
  Pipeline pipeline = Pipeline::Builder()
                          .shards(sound_shard(folder))
                          .field(AudioField{.suffixes = "wav", .seconds = 0.1, .may_lack = true})
                          .batch({.size = 8})
                          .build();
  Batch batch;
  ASSERT_TRUE(pipeline.next(batch));
  for (const float value : batch.field("audio").as<float>()) ASSERT_EQ(value, 0.0F);
  for (const std::int64_t length : batch.field("audio.length").as<std::int64_t>())
    EXPECT_EQ(length, 0);
}

}  // namespace
}  // namespace millrace::pipeline
