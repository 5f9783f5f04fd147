// Windows of JPEGs with restart markers: what their segments alone give is what the whole file
// gives.
#include "decode/detail/jpeg_window.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <vector>

#include "decode/detail/jpeg_header.h"
#include "decode/detail/jpeg_reader.h"
#include "io/base/error.h"
#include "io/base/rng.h"
#include "tests/decode/jpeg_builder.h"
#include "tests/decode/photo.h"

namespace millrace {
namespace {

using decode::Box;
using decode::ImageHeader;
using decode::PixelRequest;
using testing::build_jpeg;
using testing::JpegShape;

constexpr Purpose kWindows = purpose_of("jpeg windows");

/// What read() gives: the box's pixels, or the fault's text.
struct Outcome {
  std::vector<std::uint8_t> pixels;
  std::string fault;
  std::string untidy;

  bool operator==(const Outcome&) const = default;
};

class WindowReader {
 public:
  Outcome read(const io::Bytes& file, const ImageHeader& header, const PixelRequest& request) {
    Outcome outcome;
    try {
      const auto view = reader_.read(file.span(), header, request, buffer_);
      outcome.pixels = pixels_in(view, request.box);
      outcome.untidy = reader_.untidy();
    } catch (const Error& error) {
      outcome.fault = error.what();
    }
    return outcome;
  }
  bool read_segments() const { return reader_.read_segments(); }

 private:
  static std::vector<std::uint8_t> pixels_in(const decode::PixelView& view, const Box& box) {
    std::vector<std::uint8_t> pixels;
    const auto channels = static_cast<std::ptrdiff_t>(view.channels);
    for (int y = box.y; y < box.y + box.height; ++y) {
      const std::uint8_t* row = view.row(y - view.box.y) + (box.x - view.box.x) * channels;
      pixels.insert(pixels.end(), row, row + box.width * channels);
    }
    return pixels;
  }

  decode::detail::JpegReader reader_;
  std::vector<std::uint8_t> buffer_;
};

/// The header without what is known of segments: the file is then read as if it had none.
ImageHeader without_segments(ImageHeader header) {
  header.facts = {};
  return header;
}

PixelRequest random_request(const ImageHeader& header, KeyedRng& rng) {
  const auto below = [&](int n) {
    return static_cast<int>(rng.below(static_cast<std::uint64_t>(n)));
  };
  const int scale = 1 << below(4);
  const int width = (header.width + scale - 1) / scale;
  const int height = (header.height + scale - 1) / scale;
  // Half of the boxes are small, and many of them at an edge.
  const auto side = [&](int all) { return 1 + below(below(2) == 0 ? all : (all + 3) / 4); };
  const auto place = [&](int all, int part) {
    const int kind = below(6);
    return kind == 0 ? 0 : kind == 1 ? all - part : below(all - part + 1);
  };
  PixelRequest request{.scale = scale, .channels = below(5) == 0 ? 1 : 3};
  request.box.width = side(width);
  request.box.height = side(height);
  request.box.x = place(width, request.box.width);
  request.box.y = place(height, request.box.height);
  return request;
}

std::string text_of(const PixelRequest& request) {
  const Box& box = request.box;
  return std::to_string(box.width) + " x " + std::to_string(box.height) + " at " +
         std::to_string(box.x) + ", " + std::to_string(box.y) + " of 1/" +
         std::to_string(request.scale);
}

struct Sized {
  int height;
  int width;
};

std::string name_of(const JpegShape& shape, const Sized& size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height) + ", sampling " +
         std::to_string(shape.sampling[0]) + "x" + std::to_string(shape.sampling[1]) + " every " +
         std::to_string(shape.restart_interval) + (shape.inks ? " inks" : "");
}

decode::detail::RestartLayout layout_of(const ImageHeader& header) {
  return header.kept<decode::detail::RestartLayout>();
}

ImageHeader header_of(const io::Bytes& file) {
  return decode::detail::read_jpeg_header(file.span(), {});
}

/// Compares `count` random windows; returns how many were read from their segments alone.
int compare_windows(const io::Bytes& file, int count, KeyedRng& rng, const std::string& name) {
  const ImageHeader header = header_of(file);
  static WindowReader parts;
  static WindowReader wholes;
  int alone = 0;
  for (int i = 0; i < count; ++i) {
    const PixelRequest request = random_request(header, rng);
    const Outcome part = parts.read(file, header, request);
    alone += parts.read_segments() ? 1 : 0;
    const Outcome whole = wholes.read(file, without_segments(header), request);
    EXPECT_FALSE(wholes.read_segments());
    EXPECT_TRUE(part == whole) << name << ": " << text_of(request) << " " << part.fault << " | "
                               << whole.fault;
    if (part != whole) return alone;
  }
  return alone;
}

/// Of luma and of chroma, as many blocks as an MCU may have.
using Factors = std::array<int, 2>;
constexpr std::array<std::pair<Factors, Factors>, 15> kSamplings = {{{{1, 1}, {1, 1}},
                                                                     {{2, 1}, {1, 1}},
                                                                     {{2, 2}, {1, 1}},
                                                                     {{1, 2}, {1, 1}},
                                                                     {{4, 1}, {1, 1}},
                                                                     {{1, 4}, {1, 1}},
                                                                     {{4, 2}, {1, 1}},
                                                                     {{2, 4}, {1, 1}},
                                                                     {{3, 1}, {1, 1}},
                                                                     {{3, 2}, {1, 1}},
                                                                     {{2, 2}, {1, 2}},
                                                                     {{2, 2}, {2, 1}},
                                                                     {{4, 1}, {2, 1}},
                                                                     {{1, 4}, {1, 2}},
                                                                     {{2, 1}, {2, 1}}}};

TEST(JpegWindow, HasThePixelsOfTheWholeAtEverySamplingIntervalAndScale) {
  KeyedRng rng({.seed = 1, .purpose = kWindows});
  const std::vector<Sized> sizes = {{150, 203}, {96, 160}, {121, 97}, {33, 300}, {257, 18}};
  int alone = 0;
  int all = 0;
  for (const Sized& size : sizes) {
    const decode::Image image = testing::photo(size.height, size.width, 3);
    for (const auto& [sampling, chroma] : kSamplings) {
      for (const unsigned interval : {1U, 2U, 3U, 5U, 8U, 13U, 40U}) {
        const JpegShape shape{.sampling = sampling,
                              .chroma = chroma,
                              .restart_interval = interval,
                              .quality = static_cast<int>(20 + rng.below(80))};
        const std::string name = name_of(shape, size);
        const int here = compare_windows(build_jpeg(image, shape), 20, rng, name);
        if (HasFailure()) return;
        alone += here;
        all += 20;
      }
    }
  }
  EXPECT_GT(alone, all / 3) << "of " << all;
}

// Of these a region had what libjpeg-turbo's memory happened to hold.
TEST(JpegWindow, OfAReducedPictureOfRareSamplingHasThePixelsOfTheWhole) {
  for (const Factors& sampling : {Factors{4, 2}, Factors{2, 4}}) {
    const io::Bytes file = build_jpeg(testing::photo(96, 173, 3), {.sampling = sampling});
    const ImageHeader header = header_of(file);
    for (const int scale : {2, 4, 8}) {
      const Box all{.width = (173 + scale - 1) / scale, .height = 96 / scale};
      WindowReader reader;
      const Outcome whole = reader.read(file, header, {.box = all, .scale = scale});
      for (int i = 0; i < 20; ++i) {
        const PixelRequest request{
            .box = {.x = all.width / 4, .y = i % 6, .width = 1 + i / 4, .height = 5},
            .scale = scale};
        const Outcome part = reader.read(file, header, request);
        for (std::size_t y = 0; y < 5; ++y) {
          const std::size_t count = 3 * static_cast<std::size_t>(request.box.width);
          const std::size_t from = 3 * ((static_cast<std::size_t>(request.box.y) + y) *
                                            static_cast<std::size_t>(all.width) +
                                        static_cast<std::size_t>(request.box.x));
          ASSERT_TRUE(std::equal(part.pixels.begin() + static_cast<std::ptrdiff_t>(y * count),
                                 part.pixels.begin() + static_cast<std::ptrdiff_t>((y + 1) * count),
                                 whole.pixels.begin() + static_cast<std::ptrdiff_t>(from)))
              << text_of(request);
        }
      }
    }
  }
}

TEST(JpegWindow, HasThePixelsOfGreyAndInkPicturesToo) {
  KeyedRng rng({.seed = 2, .purpose = kWindows});
  const decode::Image image = testing::photo(150, 203, 4);
  int alone = 0;
  for (const unsigned interval : {1U, 4U, 6U, 13U}) {
    for (const std::array<int, 2> sampling : {std::array{1, 1}, std::array{2, 2}}) {
      for (const int kind : {0, 1, 2}) {
        const JpegShape shape{.sampling = sampling,
                              .inks = kind > 0,
                              .inks_as_ycck = kind == 2,
                              .restart_interval = interval};
        const io::Bytes file = build_jpeg(kind == 0 ? testing::grey(image) : image, shape);
        alone += compare_windows(file, 40, rng, name_of(shape, {150, 203}));
        if (HasFailure()) return;
      }
    }
  }
  EXPECT_GT(alone, 480);
}

TEST(JpegWindow, IsReadAloneOnlyWhereThereAreSegmentsToChooseFrom) {
  const decode::Image image = testing::photo(150, 203, 5);
  const PixelRequest corner{.box = {.x = 180, .y = 120, .width = 10, .height = 10}};
  const PixelRequest all{.box = {.x = 0, .y = 0, .width = 203, .height = 150}};
  WindowReader reader;
  const auto reads_segments = [&](const JpegShape& shape, const PixelRequest& request) {
    const io::Bytes file = build_jpeg(image, shape);
    reader.read(file, header_of(file), request);
    return reader.read_segments();
  };
  EXPECT_TRUE(reads_segments({.restart_interval = 13}, corner)) << "a row of 13 MCUs";
  EXPECT_TRUE(reads_segments({.restart_interval = 26}, corner)) << "two rows";
  EXPECT_TRUE(reads_segments({.restart_interval = 5}, corner)) << "in five rows, 13 segments";
  EXPECT_FALSE(reads_segments({.restart_interval = 13}, all));
  EXPECT_FALSE(reads_segments({}, corner));
  EXPECT_FALSE(reads_segments({.progressive = true, .restart_interval = 13}, corner));
  EXPECT_FALSE(reads_segments({.arithmetic = true, .restart_interval = 13}, corner));
  EXPECT_FALSE(
      reads_segments({.restart_interval = 13}, {.box = corner.box, .tolerate_truncated = true}));
}

std::vector<std::size_t> restarts_of(const std::string& file) {
  std::vector<std::size_t> found;
  for (std::size_t at = layout_of(header_of(io::Bytes::copy_of(file))).scan_at;
       at + 1 < file.size(); ++at) {
    const auto code = static_cast<unsigned char>(file[at + 1]);
    if (file[at] == '\xff' && code >= 0xD0 && code <= 0xD7) found.push_back(at);
  }
  return found;
}

/// Damage to the markers and to the number of segments: it is seen wherever the window is.
std::string damaged_frame(const std::string& file, KeyedRng& rng) {
  const auto marks = restarts_of(file);
  const auto pick = [&] { return marks[rng.below(marks.size() - 1)]; };
  std::string bad = file;
  const std::size_t at = pick();
  switch (rng.below(6)) {
    case 0:  // another number
      bad[at + 1] = static_cast<char>(0xD0 + rng.below(8));
      return bad;
    case 1:  // two numbers swapped
      std::swap(bad[at + 1], bad[pick() + 1]);
      return bad;
    case 2: {  // a segment is missing
      const std::size_t next = *std::upper_bound(marks.begin(), marks.end(), at);
      return bad.erase(at, next - at);
    }
    case 3:  // cut
      return bad.substr(0, at + rng.below(9)) + (rng.below(2) == 0 ? "\xff\xd9" : "");
    case 4: {  // a segment twice
      const std::size_t next = *std::upper_bound(marks.begin(), marks.end(), at);
      return bad.insert(next, bad.substr(at, next - at));
    }
    default:  // the marker became data
      bad[at + 1] = '\0';
      return bad;
  }
}

TEST(JpegWindow, OfAFileWhoseMarkersAreDamagedGivesWhatTheWholeFileGives) {
  KeyedRng rng({.seed = 3, .purpose = kWindows});
  const decode::Image image = testing::photo(150, 203, 6);
  int faults = 0;
  for (const unsigned interval : {1U, 5U, 13U}) {
    const std::string file(build_jpeg(image, {.restart_interval = interval}).text());
    for (int i = 0; i < 300; ++i) {
      const io::Bytes bad = io::Bytes::copy_of(damaged_frame(file, rng));
      if (bad.text() == file) continue;
      ImageHeader header;
      try {
        header = header_of(bad);
      } catch (const Error&) {
        continue;  // without its end marker it is refused before anything is read
      }
      const PixelRequest request = random_request(header, rng);
      WindowReader reader;
      const Outcome part = reader.read(bad, header, request);
      EXPECT_FALSE(reader.read_segments()) << i;
      const Outcome whole = WindowReader().read(bad, without_segments(header), request);
      ASSERT_TRUE(part == whole) << i << " " << text_of(request) << part.fault << "|"
                                 << whole.fault;
      faults += whole.fault.empty() ? 0 : 1;
    }
  }
  EXPECT_GT(faults, 100);
}

TEST(JpegWindow, OfAFileWhoseCodesAreDamagedGivesWhatTheWholeFileGives) {
  KeyedRng rng({.seed = 5, .purpose = kWindows});
  const io::Bytes file = build_jpeg(testing::photo(150, 203, 8), {.restart_interval = 1});
  const std::string_view text = file.text();
  const auto size_at = [&](std::size_t at) {
    return static_cast<unsigned char>(text[at]) * std::size_t{256} +
           static_cast<unsigned char>(text[at + 1]);
  };
  int tables = 0;
  int alone = 0;
  for (std::size_t table = text.find("\xff\xc4"); table < text.find("\xff\xda"); ++tables) {
    const std::size_t end = table + 2 + size_at(table + 2);
    for (std::size_t at = table + 4; at < end; ++at) {
      const io::Bytes bad = testing::flip(file, at, 1U << rng.below(8));
      const ImageHeader header = header_of(bad);
      const PixelRequest request = random_request(header, rng);
      WindowReader reader;
      const Outcome part = reader.read(bad, header, request);
      alone += reader.read_segments() ? 1 : 0;
      ASSERT_TRUE(part == WindowReader().read(bad, without_segments(header), request)) << at;
    }
    table = text.find("\xff\xc4", end);
  }
  EXPECT_EQ(tables, 4);
  EXPECT_LT(alone, 4) << "where libjpeg has the table by itself";
}

/// The part of `file` that the window for `request` is made of, as flags for each byte.
std::vector<bool> bytes_read(const io::Bytes& file, const PixelRequest& request) {
  const ImageHeader header = header_of(file);
  const std::string text(file.text());
  const std::size_t scan = layout_of(header).scan_at;
  std::vector<bool> read(text.size(), false);
  std::fill(read.begin(), read.begin() + static_cast<std::ptrdiff_t>(scan), true);
  const auto window = decode::detail::choose_window(header, request);
  if (!window) return std::vector<bool>(text.size(), true);
  auto ends = restarts_of(text);
  ends.push_back(text.size() - 2);
  std::size_t begin = scan;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    const auto band = static_cast<std::int64_t>(i) / window->band_segments;
    const auto in_band = static_cast<std::int64_t>(i) % window->band_segments;
    const bool inside = band >= window->first_band && band < window->end_band &&
                        in_band >= window->first_in_band && in_band < window->end_in_band;
    for (std::size_t at = begin; at < ends[i]; ++at) read[at] = inside;
    begin = ends[i] + 2;
  }
  return read;
}

// Damage inside of a segment is seen only by decoding it. In a segment that the window needs it has
// the outcome of the whole file; in another it costs no pixel of the window.
TEST(JpegWindow, OfAFileWithDamagedSegmentsGivesNoWrongPixel) {
  KeyedRng rng({.seed = 4, .purpose = kWindows});
  const decode::Image image = testing::photo(150, 203, 7);
  int alone = 0;
  int inside = 0;
  int caught = 0;
  for (const unsigned interval : {1U, 5U, 13U}) {
    for (const auto sampling : {std::array{2, 2}, std::array{1, 1}}) {
      const io::Bytes file =
          build_jpeg(image, {.sampling = sampling, .restart_interval = interval});
      const ImageHeader header = header_of(file);
      const std::size_t scan = layout_of(header).scan_at;
      for (int i = 0; i < 500; ++i) {
        const std::size_t offset = scan + rng.below(file.size() - 2 - scan);
        const io::Bytes bad = testing::flip(file, offset, 1U << rng.below(8));
        const PixelRequest request = random_request(header, rng);
        WindowReader reader;
        const Outcome part = reader.read(bad, header, request);
        const Outcome whole = WindowReader().read(bad, without_segments(header), request);
        alone += reader.read_segments() ? 1 : 0;
        const std::string where = std::to_string(i) + " at " + std::to_string(offset) + ", " +
                                  text_of(request) + " " + part.fault + " | " + whole.fault;
        if (whole.fault.empty() || bytes_read(file, request)[offset]) {
          ASSERT_TRUE(part == whole) << where;
          inside += 1;
          caught += whole.fault.empty() ? 0 : 1;
        } else if (part != whole) {
          const Outcome sound = WindowReader().read(file, without_segments(header), request);
          ASSERT_TRUE(part == sound) << where;
        }
      }
    }
  }
  EXPECT_GT(alone, 500);
  EXPECT_GT(inside, 500);
  EXPECT_GT(caught, 100);
}

}  // namespace
}  // namespace millrace
