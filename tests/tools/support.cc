#include "tests/tools/support.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <vector>

#include "decode/encode.h"
#include "io/base/rng.h"
#include "io/opener.h"
#include "wds/shard_reader.h"
#include "wds/shard_writer.h"

namespace millrace::testing {

ProcessResult millrace(std::vector<std::string> words, const ProcessOptions& options) {
  words.insert(words.begin(), MILLRACE_PROGRAM);
  ProcessOptions without_cache = options;  // tests leave nothing in the user's
  without_cache.environment.try_emplace("XDG_CACHE_HOME", "/dev/null");
  return run_process(words, without_cache);
}

std::vector<nlohmann::json> json_lines(const std::string& text) {
  std::vector<nlohmann::json> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

std::string make_set(const TempDir& dir, int count, int per_shard,
                     const std::vector<std::string>& more) {
  std::vector<std::string> words = {
      "create",     dir / "set-%06d.tar",      "--synthetic", "classes",
      "--count",    std::to_string(count),     "--size",      "16",
      "--maxcount", std::to_string(per_shard), "--no-index"};
  words.insert(words.end(), more.begin(), more.end());
  const ProcessResult result = millrace(words);
  EXPECT_EQ(result.status, 0) << result.err;
  const int last = (count - 1) / per_shard;
  std::string number = std::to_string(last);
  number.insert(0, 6 - number.size(), '0');
  return dir / ("set-{000000.." + number + "}.tar");
}

std::string idx_bytes(const std::vector<int>& shape, const std::string& data) {
  std::string bytes = {0, 0, 8, static_cast<char>(shape.size())};
  for (const int size : shape)
    for (const int shift : {24, 16, 8, 0}) bytes.push_back(static_cast<char>(size >> shift));
  return bytes + data;
}

std::vector<nlohmann::json> list_samples(const std::string& spec) {
  const ProcessResult result = millrace({"ls", "--json", spec});
  EXPECT_EQ(result.status, 0) << result.err;
  return json_lines(result.out);
}

std::vector<std::string> list_dir(const std::string& path) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

namespace {

io::Bytes png(int side, int channels, const std::vector<std::uint8_t>& pixels) {
  return decode::encode_png({.height = side,
                             .width = side,
                             .channels = channels,
                             .pixels = io::Bytes::copy_of(std::as_bytes(std::span(pixels)))});
}

KeyedRng rng_of(int index) {
  return KeyedRng(
      {.seed = 3, .index = static_cast<std::uint64_t>(index), .purpose = Purpose::kSynthetic});
}

wds::WriterSample labelled_sample(int index) {
  KeyedRng rng = rng_of(index);
  std::vector<int> labels;
  for (int k = 0; k < 3; ++k) labels.push_back(rng.uniform() < 0.5F ? 0 : 1);
  std::vector<std::uint8_t> pixels;
  for (int y = 0; y < 16; ++y) {
    for (int x = 0; x < 16; ++x) {
      const int quadrant = (y / 8) * 2 + x / 8;
      const bool bright = quadrant < 3 && labels[static_cast<std::size_t>(quadrant)] == 1;
      const auto noise = static_cast<int>(40.0F * rng.uniform());
      for (int c = 0; c < 3; ++c) {
        pixels.push_back(static_cast<std::uint8_t>((bright ? 180 : 40) + noise));
      }
    }
  }
  const std::string json = fmt::format(R"({{"patient": "p{:04}", "labels": [{}, {}, {}]}})",
                                       index / 4, labels[0], labels[1], labels[2]);
  return {.key = fmt::format("{:06}", index),
          .fields = {{"png", png(16, 3, pixels)}, {"json", io::Bytes::copy_of(json)}}};
}

wds::WriterSample scene(int index, int side, int mask_value) {
  KeyedRng rng = rng_of(index);
  const int box = side / 2;
  const auto left = static_cast<int>(static_cast<float>(side - box) * rng.uniform());
  const auto top = static_cast<int>(static_cast<float>(side - box) * rng.uniform());
  std::vector<std::uint8_t> picture;
  std::vector<std::uint8_t> mask;
  std::vector<std::uint8_t> depth;
  for (int y = 0; y < side; ++y) {
    for (int x = 0; x < side; ++x) {
      const bool in = x >= left && x < left + box && y >= top && y < top + box;
      const auto noise = static_cast<int>(30.0F * rng.uniform());
      for (int c = 0; c < 3; ++c) {
        picture.push_back(static_cast<std::uint8_t>((in ? 200 : 30) + noise));
      }
      mask.push_back(static_cast<std::uint8_t>(in ? mask_value : 0));
      depth.push_back(in ? 220 : static_cast<std::uint8_t>(100 * y / side));
    }
  }
  return {.key = fmt::format("{:06}", index),
          .fields = {{"png", png(side, 3, picture)},
                     {"mask.png", png(side, 1, mask)},
                     {"depth.png", png(side, 1, depth)}}};
}

template <typename Make>
std::string write_set(const TempDir& dir, const std::string& name, int count, const Make& make) {
  wds::ShardWriter writer({.pattern = dir / (name + "-%06d.tar"),
                           .maxcount = static_cast<std::uint64_t>((count + 1) / 2)});
  for (int i = 0; i < count; ++i) writer.write(make(i));
  writer.finish();
  return dir / (name + "-{000000..000001}.tar");
}

}  // namespace

std::string make_labelled_set(const TempDir& dir, int count, const std::string& name) {
  return write_set(dir, name, count, labelled_sample);
}

std::string make_scene_set(const TempDir& dir, int count, int side, int mask_value) {
  return write_set(dir, "scene", count, [&](int i) { return scene(i, side, mask_value); });
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (auto at = text.find(what); at != text.npos; at = text.find(what, at + 1)) ++count;
  return count;
}

std::string without_seal(const std::string& index) {
  return index.substr(0, index.rfind(",\"crc32\":")) + "}\n";
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<wds::Sample> read_samples(const std::string& shard) {
  const io::UrlOpener opener;
  wds::ShardReader reader(opener, shard);
  std::vector<wds::Sample> samples;
  for (wds::Sample sample; reader.next(sample);) samples.push_back(sample);
  return samples;
}

}  // namespace millrace::testing
