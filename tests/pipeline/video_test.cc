// Films: parts of MP4 and WebM files, which FFmpeg's encoders write here.
#include "decode/video.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "pipeline/pipeline.h"
#include "tests/pipeline/film_writer.h"
#include "tests/support/code_of.h"
#include "tests/support/mutator.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"

namespace millrace::pipeline {
namespace {

using decode::ClipPlace;
using decode::SampleId;
using decode::VideoDecoder;
using decode::VideoOptions;
using ::testing::AllOf;
using testing::code_of;
using ::testing::ElementsAre;
using testing::film_file;
using testing::film_level;
using testing::FilmOptions;
using ::testing::HasSubstr;
using testing::TempDir;

constexpr VideoOptions kSix = {.frames = 6, .size = {32, 48}, .place = ClipPlace::kStart};

struct Seen {
  std::vector<std::uint8_t> pixels;  ///< (frames, height, width, 3)
  std::int64_t length = 0;
};

Seen seen(const VideoOptions& options, const std::string& film, const SampleId& id = {}) {
  const VideoDecoder decoder(options);
  Seen result;
  result.pixels.assign(decoder.output().num_bytes(), 77);
  result.length = decoder.decode(io::Bytes::copy_of(film), id,
                                 std::as_writable_bytes(std::span(result.pixels)));
  return result;
}

/// Numbers of the pictures that were drawn, by what is at the left; the right must be white.
std::vector<int> numbers_of(const Seen& film, const VideoOptions& options) {
  const auto [height, width] = options.size;
  const std::size_t bytes = std::size_t{3} * static_cast<std::size_t>(height * width);
  std::vector<int> numbers;
  for (std::size_t i = 0; i < static_cast<std::size_t>(film.length); ++i) {
    const std::uint8_t* middle =
        film.pixels.data() + i * bytes + static_cast<std::size_t>(height / 2 * width) * 3;
    const std::uint8_t* left = middle + static_cast<std::size_t>(width / 4) * 3;
    const std::uint8_t* right = middle + static_cast<std::size_t>(width * 3 / 4) * 3;
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(right[c], 255, 4) << "picture " << i;
    int number = 0;
    while (std::abs(film_level(number) - left[1]) > 2 && number < 50) ++number;
    for (int c = 0; c < 3; ++c) EXPECT_NEAR(left[c], film_level(number), 3) << "picture " << i;
    numbers.push_back(number);
  }
  return numbers;
}

struct Coding {
  const char* encoder;
  const char* container;
};

void PrintTo(const Coding& coding, std::ostream* out) { *out << coding.encoder; }

class Video : public ::testing::TestWithParam<Coding> {
 protected:
  void SetUp() override {
    if (!testing::has_encoder(GetParam().encoder))
      GTEST_SKIP() << "this FFmpeg has no encoder " << GetParam().encoder;
  }
  static FilmOptions film() {
    return {.encoder = GetParam().encoder, .container = GetParam().container};
  }
};

TEST_P(Video, PartsAreThePicturesFromWhereTheyAreDrawn) {
  const std::string file = film_file(film());
  EXPECT_THAT(numbers_of(seen(kSix, file), kSix), ElementsAre(0, 1, 2, 3, 4, 5));
  VideoOptions options = kSix;
  options.place = ClipPlace::kMiddle;
  EXPECT_THAT(numbers_of(seen(options, file), options), ElementsAre(17, 18, 19, 20, 21, 22));
  options.place = ClipPlace::kRandom;
  VideoOptions all = options;
  all.frames = 40;
  const Seen whole = seen(all, file);
  std::set<int> firsts;
  for (std::uint64_t index = 0; index < 6; ++index) {
    const Seen part = seen(options, file, {.seed = 5, .index = index});
    const int first = numbers_of(part, options)[0];
    EXPECT_THAT(numbers_of(part, options),
                ElementsAre(first, first + 1, first + 2, first + 3, first + 4, first + 5));
    firsts.insert(first);
    // No bit depends on the key frame that decoding began at.
    const auto begin = whole.pixels.begin() + first * 32 * 48 * 3;
    EXPECT_TRUE(std::equal(part.pixels.begin(), part.pixels.end(), begin)) << first;
  }
  EXPECT_GT(firsts.size(), 2U);
}

TEST_P(Video, OtherRatesShowWhatIsShownThen) {
  const std::string file = film_file(film());
  VideoOptions options = kSix;
  options.rate = 5;
  EXPECT_THAT(numbers_of(seen(options, file), options), ElementsAre(0, 2, 4, 6, 8, 10));
  options.rate = 20;
  EXPECT_THAT(numbers_of(seen(options, file), options), ElementsAre(0, 0, 1, 1, 2, 2));
  options.rate = 1;  // four pictures
  options.place = ClipPlace::kRandom;
  const Seen part = seen(options, file);
  EXPECT_EQ(part.length, 4);
  EXPECT_THAT(numbers_of(part, options), ElementsAre(0, 10, 20, 30));
  for (std::size_t i = 4 * 32 * 48 * 3; i < part.pixels.size(); ++i) ASSERT_EQ(part.pixels[i], 0);
}

INSTANTIATE_TEST_SUITE_P(Codings, Video,
                         ::testing::Values(Coding{"mpeg4", "mp4"}, Coding{"libx264", "mp4"},
                                           Coding{"libvpx", "webm"}, Coding{"libvpx-vp9", "webm"}),
                         [](const auto& test) {
                           std::string name = test.param.encoder;
                           std::erase(name, '-');
                           return name;
                         });

ErrorCode refusal_of_film(const VideoOptions& options, const std::string& film) {
  return code_of([&] { seen(options, film); });
}

TEST(VideoDecoder, RefusesWhatIsCutOrNoFilm) {
  std::vector<FilmOptions> films = {{}};
  if (testing::has_encoder("libvpx")) films.push_back({.encoder = "libvpx", .container = "webm"});
  for (const FilmOptions& options : films) {
    const std::string film = film_file(options);
    for (const std::size_t size : {film.size() - 1, film.size() / 2, std::size_t{40}})
      EXPECT_EQ(refusal_of_film(kSix, film.substr(0, size)), ErrorCode::kTruncated) << size;
    EXPECT_EQ(refusal_of_film(kSix, film.substr(1)), ErrorCode::kUnsupported);
  }
  EXPECT_EQ(refusal_of_film(kSix, ""), ErrorCode::kUnsupported);
  EXPECT_EQ(refusal_of_film(kSix, "#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n"),
            ErrorCode::kUnsupported);
  const std::string head(
      "\0\0\0\x10"
      "ftypisom\0\0\0\0",
      16);
  EXPECT_EQ(refusal_of_film(kSix, head), ErrorCode::kCorrupt);
}

TEST(VideoDecoder, DamageIsAFaultWhereItIsSeen) {
  const std::string film = film_file({});
  std::string damaged = film;
  const std::size_t data = film.find("mdat") + 4;
  const std::size_t moov = film.find("moov");
  for (std::size_t i = data + (moov - data) / 2; i < data + (moov - data) * 3 / 4; i += 3)
    damaged[i] ^= 0x5A;
  VideoOptions all = kSix;
  all.frames = 40;
  EXPECT_EQ(refusal_of_film(all, damaged), ErrorCode::kCorrupt);
  EXPECT_EQ(seen(kSix, damaged).pixels, seen(kSix, film).pixels) << "damage behind the part";
}

TEST(VideoDecoder, ClaimsAreBounded) {
  const std::string film = film_file({});
  VideoOptions options = kSix;
  options.limits.max_pixels = 96 * 64 - 1;
  EXPECT_EQ(refusal_of_film(options, film), ErrorCode::kExhausted);
  options = kSix;
  options.limits.max_decoded = 5;
  EXPECT_EQ(refusal_of_film(options, film), ErrorCode::kExhausted);
  for (const VideoOptions& bad :
       {VideoOptions{.frames = 0, .size = 8}, VideoOptions{.frames = 1, .size = {0, 8}},
        VideoOptions{.frames = 1 << 30, .size = 8},
        VideoOptions{.frames = 1, .size = 8, .rate = std::nan("")},
        VideoOptions{.frames = 1, .size = 8, .rate = -1}})
    EXPECT_EQ(code_of([&] { VideoDecoder{bad}; }), ErrorCode::kInvalidArgument);
}

TEST(VideoDecoder, AnIndexThatClaimsMoreThanItHasIsAFault) {
  const std::string film = film_file({.frames = 12});
  for (const char* box : {"stts", "stsc", "stss", "stco", "ctts", "stsz"}) {
    std::string claims = film;
    const std::size_t at = claims.find(box);
    if (at == std::string::npos) continue;
    for (std::size_t i = 8; i < (box == std::string("stsz") ? 16U : 12U); ++i)
      claims[at + i] = i % 4 == 0 ? '\x7F' : '\xFF';
    try {
      EXPECT_LE(seen(kSix, claims).length, 6) << box;
    } catch (const Error& error) {
      EXPECT_NE(error.code(), ErrorCode::kInvalidArgument) << box;
    }
  }
}

TEST(VideoDecoder, MutantsAreDecodedOrRefused) {
  std::vector<std::string> films = {film_file({.frames = 12})};
  if (testing::has_encoder("libvpx"))
    films.push_back(film_file({.encoder = "libvpx", .container = "webm", .frames = 12}));
  int refused = 0;
  for (std::uint64_t number = 0; number < 120; ++number) {
    try {
      const Seen part = seen(kSix, testing::mutated_pack(films[number % films.size()], number));
      EXPECT_LE(part.length, 6);
    } catch (const Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 20);
}

std::string film_shard(const TempDir& folder, const std::string& damaged_key = "") {
  testing::TarBuilder tar;
  const std::string film = film_file({});
  for (int i = 100; i < 112; ++i) {
    const std::string key = std::to_string(i);
    tar.file(key + ".mp4", key == damaged_key ? film.substr(0, film.size() / 2) : film);
  }
  testing::write_file(folder / "films.tar", tar.end().bytes());
  return folder / "films.tar";
}

Pipeline::Builder film_pipeline(const std::string& shard) {
  return Pipeline::Builder()
      .shards(shard)
      .field(VideoField{.frames = 4, .size = {16, 24}, .rate = 5})
      .batch({.size = 4});
}

TEST(VideoField, IsTheSameAtAnyNumberOfThreads) {
  const TempDir folder;
  const std::string shard = film_shard(folder);
  std::vector<std::uint8_t> all[2];
  for (const int threads : {1, 4}) {
    Pipeline pipeline = film_pipeline(shard)
                            .shuffle({.buffer_samples = 9, .seed = 1})
                            .resources({.threads = threads})
                            .build();
    for (Batch batch; pipeline.next(batch);) {
      EXPECT_THAT(batch.field("video").spec.shape, ElementsAre(4, 4, 16, 24, 3));
      const auto films = batch.field("video").as<std::uint8_t>();
      all[threads > 1].insert(all[threads > 1].end(), films.begin(), films.end());
      for (const std::int64_t length : batch.field("video.length").as<std::int64_t>())
        EXPECT_EQ(length, 4);
    }
  }
  EXPECT_EQ(all[0].size(), 12U * 4 * 16 * 24 * 3);
  EXPECT_EQ(all[0], all[1]);
}

std::string fault_of_films(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing thrown";
}

TEST(VideoField, FaultsSayWhere) {
  const TempDir folder;
  const std::string shard = film_shard(folder, "107");
  EXPECT_THAT(fault_of_films([&] {
                Pipeline pipeline = film_pipeline(shard).build();
                for (Batch batch; pipeline.next(batch);) continue;
              }),
              AllOf(HasSubstr(shard), HasSubstr("107.mp4"), HasSubstr("bytes early")));
  EXPECT_THAT(fault_of_films([&] {
                Pipeline::Builder().shards(shard).field(VideoField{}).batch({.size = 4}).build();
              }),
              HasSubstr("field video: a film's size of 0 x 0"));
}

}  // namespace
}  // namespace millrace::pipeline
