// Compressed shards: gzip, bzip2, xz, zstd; their own checksums; bombs.
#include <archive.h>
#include <archive_entry.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zlib.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <new>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "tests/support/address_space.h"
#include "tests/support/effort.h"
#include "tests/support/gzipped.h"
#include "tests/support/tar_builder.h"
#include "tests/wds/memory_opener.h"
#include "wds/sample_stream.h"
#include "wds/shard_reader.h"

namespace millrace::wds {
namespace {

using testing::gzipped;
using testing::MemoryOpener;
using testing::TarBuilder;

constexpr std::size_t kMiB = 1024 * 1024;

std::string filtered(const std::string& data, int filter) {
  std::string packed(data.size() + kMiB, '\0');
  std::size_t used = 0;
  archive* writer = archive_write_new();
  archive_write_set_format_raw(writer);
  archive_write_add_filter(writer, filter);
  archive_write_set_bytes_in_last_block(writer, 1);
  EXPECT_EQ(archive_write_open_memory(writer, packed.data(), packed.size(), &used), ARCHIVE_OK);
  archive_entry* entry = archive_entry_new();
  archive_entry_set_filetype(entry, AE_IFREG);
  archive_write_header(writer, entry);
  archive_write_data(writer, data.data(), data.size());
  archive_entry_free(entry);
  EXPECT_EQ(archive_write_close(writer), ARCHIVE_OK);
  archive_write_free(writer);
  packed.resize(used);
  return packed;
}

std::string numbered_tar(int samples, int first = 0) {
  TarBuilder tar;
  for (int i = first; i < first + samples; ++i)
    tar.file(std::string("k").append(std::to_string(i)).append(".txt"),
             std::string(static_cast<std::size_t>(i * 7), 'x'));
  return tar.end().bytes();
}

struct ReadResult {
  std::vector<std::string> samples;  ///< key and bytes of each sample
  std::optional<ErrorCode> fault;
};

ReadResult read_compressed(const std::string& shard, const ShardOptions& options = {},
                           bool knows_size = true) {
  MemoryOpener opener;
  opener.files["x"] = shard;
  opener.knows_size = knows_size;
  ReadResult result;
  try {
    ShardReader reader(opener, "x", options);
    for (Sample sample; reader.next(sample);)
      result.samples.push_back(sample.key + std::string(sample.fields[0].data.text()));
  } catch (const Error& error) {
    result.fault = error.code();
  }
  return result;
}

std::vector<std::pair<const char*, std::string>> every_way(const std::string& tar) {
  const std::size_t third = tar.size() / 3;
  return {
      {"gzip", gzipped(tar)},
      {"gzip of three members", gzipped(tar.substr(0, third)) + gzipped(tar.substr(third, third)) +
                                    gzipped(tar.substr(2 * third))},
      {"bzip2", filtered(tar, ARCHIVE_FILTER_BZIP2)},
      {"xz", filtered(tar, ARCHIVE_FILTER_XZ)},
      {"zstd", filtered(tar, ARCHIVE_FILTER_ZSTD)}};
}

TEST(Compressed, EveryWayGivesTheSameSamples) {
  const std::string tar = numbered_tar(40);
  const ReadResult plain = read_compressed(tar);
  ASSERT_EQ(plain.samples.size(), 40U);
  for (const auto& [way, packed] : every_way(tar)) {
    EXPECT_LT(packed.size(), tar.size()) << way;
    const ReadResult result = read_compressed(packed);
    EXPECT_EQ(result.samples, plain.samples) << way;
    EXPECT_FALSE(result.fault.has_value()) << way;
  }
}

TEST(Compressed, ACutAnywhereIsAFaultAndGivesNoPartialSample) {
  const std::string tar = numbered_tar(40);
  const ReadResult plain = read_compressed(tar);
  for (const auto& [way, packed] : every_way(tar)) {
    for (std::size_t cut = 1; cut < packed.size(); cut += packed.size() / 40 + 1) {
      const ReadResult result = read_compressed(packed.substr(0, cut));
      EXPECT_TRUE(result.fault.has_value()) << way << " cut at " << cut;
      ASSERT_LE(result.samples.size(), plain.samples.size());
      EXPECT_TRUE(std::equal(result.samples.begin(), result.samples.end(), plain.samples.begin()))
          << way;
    }
  }
}

TEST(Compressed, AFlippedByteInGzipsTrailerIsAFault) {
  const std::string first = gzipped(numbered_tar(10).substr(0, 5000));
  const std::string second = gzipped(numbered_tar(10).substr(5000));
  for (const std::size_t end : {first.size(), first.size() + second.size()}) {
    for (std::size_t i = end - 8; i < end; ++i) {
      std::string packed = first + second;
      packed[i] = static_cast<char>(packed[i] ^ 4);
      EXPECT_EQ(read_compressed(packed).fault, ErrorCode::kCorrupt) << "byte " << i;
    }
  }
}

TEST(Compressed, OnlyZerosMayFollowGzip) {
  const std::string packed = gzipped(numbered_tar(10));
  EXPECT_FALSE(read_compressed(packed + std::string(1000, '\0')).fault.has_value());
  EXPECT_EQ(read_compressed(packed + "more").fault, ErrorCode::kCorrupt);
}

TEST(Compressed, ASecondArchiveIsReadWhereAskedFor) {
  const std::string one = numbered_tar(5), two = numbered_tar(5, 5);
  const ShardOptions both{.tar = {.behind_end = BehindEnd::kRead}};
  for (const std::string& shard :
       {one + two, gzipped(one) + gzipped(two),
        filtered(one, ARCHIVE_FILTER_ZSTD) + filtered(two, ARCHIVE_FILTER_ZSTD)}) {
    const ReadResult one_alone = read_compressed(shard);
    EXPECT_EQ(one_alone.samples.size(), 4U) << "nobody knows whether the fifth is whole";
    EXPECT_EQ(one_alone.fault, ErrorCode::kCorrupt);
    EXPECT_EQ(read_compressed(shard, both).samples, read_compressed(numbered_tar(10)).samples);
  }
}

std::vector<std::string> keys_and_positions_of(SampleStream& stream,
                                               std::vector<StreamPosition>& positions) {
  std::vector<std::string> keys;
  for (SampleBlock block; stream.next(block);) {
    keys.emplace_back();
    for (const Sample& sample : block.samples) keys.back() += sample.key + " ";
    positions.push_back(stream.position());
  }
  return keys;
}

TEST(Compressed, AStreamContinuesInsideACompressedShard) {
  MemoryOpener opener;
  opener.files["a"] = gzipped(numbered_tar(150));
  opener.files["b"] = filtered(numbered_tar(150, 150), ARCHIVE_FILTER_ZSTD);
  StreamSpec spec{.shards = std::make_shared<const std::vector<std::string>>(
                      std::vector<std::string>{"a", "b"}),
                  .shuffle = {.buffer_samples = 40, .seed = 5}};
  FaultLedger ledger;
  SampleStream whole(spec, opener, ledger);
  std::vector<StreamPosition> positions;
  const auto all = keys_and_positions_of(whole, positions);
  ASSERT_GE(all.size(), 4U);
  for (std::size_t i = 0; i < all.size(); ++i) {
    SampleStream resumed(spec, positions[i], opener, ledger);
    std::vector<StreamPosition> ignored;
    const std::vector<std::string> rest(all.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                                        all.end());
    EXPECT_EQ(keys_and_positions_of(resumed, ignored), rest);
  }
}

TEST(Compressed, TheRatioIsCappedBeyond64MiB) {
  const auto zeros = [](std::size_t size) {
    return gzipped(TarBuilder().file("a.bin", std::string(size, '\0')).end().bytes());
  };
  EXPECT_EQ(read_compressed(zeros(63 * kMiB)).samples.size(), 1U) << "1,000 to 1, but small";
  const std::string large = zeros(70 * kMiB);
  EXPECT_EQ(read_compressed(large).fault, ErrorCode::kExhausted);
  EXPECT_EQ(read_compressed(large, {}, false).fault, ErrorCode::kExhausted) << "its size unknown";
  EXPECT_EQ(read_compressed(large, {.tar = {.max_expansion = 2000}}).samples.size(), 1U);
}

std::string little_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int i = 0; i < bytes; ++i) text.push_back(static_cast<char>(value >> (8 * i)));
  return text;
}

/// A handmade zstd frame (RFC 8878): `data` as stored, then `repeats` blocks of 128 KiB zeros.
std::string zstd_frame(const std::string& data, int repeats, unsigned char window = 0x58) {
  constexpr std::uint64_t kRaw = 0, kRepeated = 1;
  const auto block = [](std::uint64_t size, std::uint64_t type, bool last) {
    return little_endian(size << 3 | type << 1 | (last ? 1 : 0), 3);
  };
  std::string frame = little_endian(0xFD2FB528, 4);
  frame.push_back('\0');
  frame.push_back(static_cast<char>(window));
  frame += block(data.size(), kRaw, repeats == 0) + data;
  for (int i = 1; i <= repeats; ++i)
    frame += block(128 * 1024, kRepeated, i == repeats) + std::string(1, '\0');
  return frame;
}

TEST(Compressed, AFramesWindowIsLimited) {
  const std::string tar = numbered_tar(3);
  const std::string good = zstd_frame(tar, 0);
  EXPECT_EQ(read_compressed(good).samples.size(), 3U);
  EXPECT_EQ(read_compressed(zstd_frame(tar, 0, 0x68)).samples.size(), 3U) << "8 MiB, as zstd -19";
  const std::string wide = zstd_frame(tar, 0, 0x70);
  const std::string skippable = little_endian(0x184D2A50, 4) + little_endian(7, 4) + "ignored";
  for (const std::string& bad : {wide, good + wide, good + skippable + wide})
    EXPECT_EQ(read_compressed(bad, {.tar = {.behind_end = BehindEnd::kRead}}).fault,
              ErrorCode::kExhausted);
  EXPECT_EQ(read_compressed(wide, {.tar = {.max_window_bytes = 16 * kMiB}}).samples.size(), 3U);
}

TEST(Compressed, NothingButZerosFollowsTheLastStream) {
  for (const int filter : {ARCHIVE_FILTER_BZIP2, ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_ZSTD}) {
    const std::string first = filtered(numbered_tar(33), filter);
    std::string second = filtered(numbered_tar(33, 33), filter);
    const ShardOptions concatenated{.tar = {.behind_end = BehindEnd::kRead}};
    EXPECT_EQ(read_compressed(first + second, concatenated).samples.size(), 66U);
    second[0] ^= 1;
    EXPECT_TRUE(read_compressed(first + second, concatenated).fault.has_value()) << filter;
    EXPECT_TRUE(read_compressed(first + "garbage").fault.has_value()) << filter;
  }
  const std::string packed = filtered(numbered_tar(3), ARCHIVE_FILTER_BZIP2);
  EXPECT_EQ(read_compressed(packed + std::string(512, '\0')).fault, std::nullopt);
}

TEST(Compressed, DamageInTheMiddleIsNoCut) {
  for (const int filter : {ARCHIVE_FILTER_BZIP2, ARCHIVE_FILTER_XZ, ARCHIVE_FILTER_ZSTD}) {
    std::string packed = filtered(numbered_tar(40), filter);
    EXPECT_EQ(read_compressed(packed.substr(0, packed.size() - 9)).fault, ErrorCode::kTruncated)
        << filter;
    packed[packed.size() / 2] ^= 0x55;
    EXPECT_EQ(read_compressed(packed).fault, ErrorCode::kCorrupt) << filter;
  }
}

// pzstd begins with a skippable frame, which libarchive 3.6 does not recognise as zstd.
TEST(Compressed, SkippableFramesMayComeFirst) {
  const std::string skippable = little_endian(0x184D2A5E, 4) + little_endian(7, 4) + "ignored";
  const std::string empty = little_endian(0x184D2A50, 4) + little_endian(0, 4);
  for (const std::string& packed :
       {filtered(numbered_tar(3), ARCHIVE_FILTER_ZSTD), zstd_frame(numbered_tar(3), 0)}) {
    for (const std::string& front : {skippable, empty, empty + skippable + empty})
      EXPECT_EQ(read_compressed(front + packed).samples.size(), 3U);
  }
  EXPECT_EQ(read_compressed(skippable).fault, ErrorCode::kTruncated);
  EXPECT_EQ(read_compressed(skippable + numbered_tar(3)).fault, ErrorCode::kCorrupt);
  EXPECT_EQ(read_compressed(little_endian(0x184D2A50, 4) + little_endian(1 << 20, 4) + "few").fault,
            ErrorCode::kTruncated);
}

// A shard that cannot be unpacked is told like any other damage, and its reader can still be asked.
TEST(Compressed, AReaderWhoseUnpackingCannotBeginIsWhole) {
  const std::string skippable = little_endian(0x184D2A50, 4) + little_endian(4, 4) + "skip";
  const std::string empty = little_endian(0x184D2A50, 4) + little_endian(0, 4);
  MemoryOpener opener;
  for (const std::string& shard :
       {empty, skippable, skippable.substr(0, 6), skippable.substr(0, 10), empty + empty,
        skippable + numbered_tar(2), std::string("\x04\x22\x4d\x18 lz4")}) {
    opener.files["x"] = shard;
    for (const std::uint64_t offset : {0U, 4U, 512U}) {
      std::optional<ShardReader> reader;
      try {
        reader.emplace(opener, "x", ShardOptions{.lenient = true, .offset = offset});
      } catch (const Error&) {
        continue;
      }
      Sample sample;
      EXPECT_THROW(reader->next(sample), Error);
      EXPECT_FALSE(reader->can_continue());
      EXPECT_EQ(reader->warnings().unguarded, 0U);
      EXPECT_LE(reader->position(), shard.size());
      EXPECT_FALSE(reader->at_end() && reader->can_continue());
    }
  }
}

TEST(Compressed, FormatsThatAreNotReadAreNamed) {
  const std::string skippable = little_endian(0x184D2A50, 4) + little_endian(0, 4);
  for (const std::string& start : {std::string("\x04\x22\x4d\x18"), std::string("LZIP\x01"),
                                   std::string("\x89LZO"), std::string("\x1f\x9d")}) {
    EXPECT_EQ(read_compressed(start + std::string(1024, 'x')).fault, ErrorCode::kUnsupported);
    EXPECT_EQ(read_compressed(start).fault, ErrorCode::kUnsupported);
  }
  EXPECT_EQ(read_compressed(skippable + "\x04\x22\x4d\x18 lz4").fault, ErrorCode::kUnsupported);
}

// A shard of one sample, packed by `xz --check=none`.
std::string unchecked_xz() {
  constexpr std::string_view kHex =
      "fd377a585a000000ff12d941020021011c00000010cf58cce027ff00565d00308b8867043e226f95b6d2d8f7"
      "985b75f9b36a5eef62a09d90b033c0ad7ebbd7aee80bc59aa068af4c2f735d646cedc74252ebe64b854620e8"
      "923cd4bba793b277f054de625ee4d9cccd4e3ef74a94e4dd1affdf860000000000016a8050000000d147d110"
      "a8000afc020000000000595a";
  std::string bytes;
  for (std::size_t i = 0; i < kHex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(kHex.substr(i, 2)), nullptr, 16));
  return bytes;
}

TEST(Compressed, SaysWhichFramesCarryNoChecksum) {
  MemoryOpener opener;
  const std::string tar = numbered_tar(3);
  const auto unguarded = [&](const std::string& shard) {
    opener.files["x"] = shard;
    ShardReader reader(opener, "x");
    for (Sample sample; reader.next(sample);) continue;
    return reader.warnings().unguarded;
  };
  EXPECT_EQ(unguarded(zstd_frame(tar, 0)), 1U);
  EXPECT_EQ(unguarded(gzipped(tar)), 0U);
  EXPECT_EQ(unguarded(tar), 0U);
  EXPECT_EQ(unguarded(filtered(tar, ARCHIVE_FILTER_XZ)), 0U);
  EXPECT_EQ(unguarded(unchecked_xz()), 1U);
}

/// Reads with at most 256 MiB of memory. The exit status is the outcome.
[[noreturn]] void read_in_little_memory(const std::string& shard) {
  testing::limit_address_space(256 * kMiB);
  try {
    MemoryOpener opener;
    opener.files["x"] = shard;
    FaultLedger ledger({.on_fault = OnFault::kSkip});
    SampleStream stream(
        {.shards = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"x"})},
        opener, ledger);
    for (SampleBlock block; stream.next(block);) continue;
    std::_Exit(0);
  } catch (const std::bad_alloc&) {
    std::_Exit(3);
  } catch (const Error&) {
    std::_Exit(1);
  }
}

// Running out of memory is not a fault in the data, and no policy skips it.
TEST(Compressed, RunningOutOfMemoryIsNotDamage) {
  if (testing::kSanitized) GTEST_SKIP() << "sanitizers need the whole address space";
  constexpr std::size_t kBlockHeader = 12;
  std::string shard = unchecked_xz();
  shard[kBlockHeader + 4] = 40;  // a dictionary of 4 GiB
  const std::uint32_t crc = crc32(std::as_bytes(std::span(shard)).subspan(kBlockHeader, 8));
  for (std::size_t i = 0; i < 4; ++i)
    shard[kBlockHeader + 8 + i] = static_cast<char>(crc >> (8 * i));
  EXPECT_EXIT(read_in_little_memory(shard), ::testing::ExitedWithCode(3), "");
  EXPECT_EXIT(read_in_little_memory(unchecked_xz()), ::testing::ExitedWithCode(0), "");
}

long peak_kib_of_compressed() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return std::stol(line.substr(6));
  return 0;
}

/// Whether a separate process refuses the shard, growing by less than 16 MiB, in under a second.
bool refused_cheaply(const std::string& shard) {
  const pid_t child = ::fork();
  if (child == 0) {
    const long before = peak_kib_of_compressed();
    const auto start = std::chrono::steady_clock::now();
    const bool refused = read_compressed(shard).fault == ErrorCode::kExhausted;
    const bool quick = std::chrono::steady_clock::now() - start < std::chrono::seconds(1);
    ::_exit(refused && quick && peak_kib_of_compressed() - before < 16 * 1024 ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

TEST(Compressed, ABombIsRefusedCheaply) {
  constexpr std::uint64_t k256MiB = 256 * kMiB;
  const std::string header = TarBuilder().header({.name = "a.bin", .size = k256MiB}).bytes();
  const std::string bomb = zstd_frame(header, 2048);
  EXPECT_LT(bomb.size(), 9000U);
  EXPECT_TRUE(refused_cheaply(bomb));
  EXPECT_TRUE(refused_cheaply(zstd_frame(header, 2048, 0xA0))) << "a window of 1 GiB";
}

}  // namespace
}  // namespace millrace::wds
