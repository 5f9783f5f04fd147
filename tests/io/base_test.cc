#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/clock.h"
#include "io/base/distributions.h"
#include "io/base/error.h"
#include "io/base/fault_text.h"
#include "io/base/file_lock.h"
#include "io/base/for_each_on_threads.h"
#include "io/base/hash.h"
#include "io/base/log.h"
#include "io/base/rng.h"
#include "io/base/text.h"
#include "io/base/threads.h"
#include "io/base/wrap.h"
#include "tests/support/temp_dir.h"

namespace millrace {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Error, SaysCodeMessageAndPlace) {
  const Error error(ErrorCode::kTruncated, "tar ends inside a header",
                    {.url = "a.tar", .member = "x.jpg", .offset = 512});
  EXPECT_STREQ(error.what(),
               "Truncated: tar ends inside a header (url a.tar, member x.jpg, offset 512)");
}

TEST(Error, AnnotateKeepsWhatTheInnermostKnew) {
  Error error(ErrorCode::kCorrupt, "bad", {.offset = 7});
  error.annotate({.url = "a.tar", .offset = 9, .stage = "read"});
  EXPECT_EQ(error.where().offset, 7U);
  EXPECT_EQ(error.where().url, "a.tar");
  EXPECT_EQ(error.where().stage, "read");
}

TEST(Error, KeepsNoSecretOfAUrl) {
  Error error(ErrorCode::kIo, "no answer", {.url = "https://user:word@host/a.tar?sign=secret"});
  EXPECT_EQ(error.where().url, "https://host/a.tar");
  EXPECT_STREQ(error.what(), "Io: no answer (url https://host/a.tar)");

  Error later(ErrorCode::kIo, "no answer");
  later.annotate({.url = "s3://me:word@bucket/what?is this"});
  EXPECT_EQ(later.where().url, "s3://bucket/what?is this");
}

TEST(Error, MissingFilesAreNotFound) {
  try {
    throw_errno("open", "x.tar", ENOENT);
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_EQ(error.message(), "open x.tar: No such file or directory");
  }
}

ErrorCode code_of_errno(int number) {
  try {
    throw_errno("open", "x.tar", number);
  } catch (const Error& error) {
    return error.code();
  }
}

TEST(Error, DeniedAccessHasItsOwnCode) {
  for (const int denied : {EACCES, EPERM})
    EXPECT_EQ(code_of_errno(denied), ErrorCode::kPermissionDenied);
  EXPECT_EQ(error_code_name(ErrorCode::kPermissionDenied), "PermissionDenied");
  for (const ErrorCode code :
       {ErrorCode::kNotFound, ErrorCode::kPermissionDenied, ErrorCode::kNotFinite})
    EXPECT_EQ(error_code_of(error_code_name(code)), code);
  EXPECT_EQ(error_code_of("Unknown"), std::nullopt);
}

TEST(Error, NoMemoryOfTheSystemIsExhausted) {
  EXPECT_EQ(code_of_errno(ENOMEM), ErrorCode::kExhausted);
}

TEST(FaultText, IsForPeopleWhateverWasThrown) {
  const auto text = [](const auto& thrown) { return fault_text(std::make_exception_ptr(thrown)); };
  EXPECT_EQ(text(Error(ErrorCode::kIo, "cut")), "Io: cut");
  EXPECT_EQ(text(std::bad_alloc()), "out of memory");
  EXPECT_EQ(text(std::length_error("vector::reserve")), "out of memory");
  EXPECT_EQ(text(std::runtime_error("[json.exception.out_of_range.403] key 'a' not found")),
            "key 'a' not found");
  EXPECT_EQ(text(std::filesystem::filesystem_error(
                "cannot open", "a/b", std::make_error_code(std::errc::permission_denied))),
            "Io: a/b: Permission denied");
  EXPECT_EQ(text(7), "a fault in millrace itself, please report it");
}

TEST(Threads, AsManyAsThereAreDoTheWork) {
  std::atomic<int> left{100};
  std::atomic<int> runs{0};
  run_on_threads(4, [&] {
    ++runs;
    while (left-- > 0) continue;
  });
  EXPECT_EQ(runs, 4);
  EXPECT_LE(left, 0);
}

TEST(ForEachOnThreads, DoesAllAndThrowsTheFirstFailureInOrder) {
  std::vector<int> done(1000, 0);
  const auto work = [&](std::size_t i) {
    ++done[i];
    if (i % 300 == 299) throw Error(ErrorCode::kCorrupt, std::to_string(i));
  };
  try {
    for_each_on_threads(done.size(), 4, work);
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "299");
  }
  EXPECT_EQ(done, std::vector<int>(1000, 1));
  for_each_on_threads(0, 4, work);
}

TEST(Threads, OneThatPreparesItselfIsReadyWhenItHasStarted) {
  int prepared = 0;
  std::atomic<int> served{0};
  {
    const std::jthread thread = start_thread(
        "to test", [&] { prepared = 1; }, [&] { served = prepared + 1; });
    EXPECT_EQ(prepared, 1);
  }
  EXPECT_EQ(served, 2);
}

TEST(Threads, OneThatCannotPrepareItselfEndsWithItsFault) {
  bool serves = false;
  const auto refuse = [] { throw Error(ErrorCode::kExhausted, "no memory for its pool"); };
  try {
    start_thread("to test", refuse, [&] { serves = true; });
    ADD_FAILURE() << "nothing thrown";
  } catch (const Error& error) {
    EXPECT_EQ(error.message(), "no memory for its pool");
  }
  EXPECT_FALSE(serves);
}

TEST(Threads, WithoutOneTheErrorSaysWhatFor) {
  try {
    throw_no_thread("to decode", std::make_error_code(std::errc::resource_unavailable_try_again));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kExhausted);
    EXPECT_TRUE(error.message().starts_with("no thread to be had to decode: Resource"))
        << error.message();
  }
}

TEST(Text, WhatATerminalObeysIsEscaped) {
  EXPECT_EQ(printable("a\x1b[2J\x7f"), "a\\x1b[2J\\x7f");
  EXPECT_EQ(printable("gpj.\u202e\u2066x"), "gpj.\\xe2\\x80\\xae\\xe2\\x81\\xa6x")
      << "of direction";
  EXPECT_EQ(printable("a\xc2\x9b"
                      "2J"),
            "a\\xc2\\x9b2J")
      << "CSI as one character";
  EXPECT_EQ(printable("\xc2\xa0\xc3\xa9"), "\xc2\xa0\xc3\xa9");
}

TEST(Error, IsOneShortLineWhateverItWasMadeOf) {
  using namespace std::string_literals;
  const Error error(ErrorCode::kCorrupt, "key 'a\0b\n\x1b[2J\xE9' "s + std::string(1 << 20, 'x'),
                    {.url = "a\nb.tar"});
  const std::string what = error.what();
  EXPECT_NE(what.find("key 'a\\x00b \\x1b[2J\\xe9' xxx"), what.npos) << what.substr(0, 80);
  EXPECT_NE(what.find("(url a b.tar)"), what.npos);
  EXPECT_LT(what.size(), 10'000U);
}

TEST(Text, CountedNounsHaveTheirPlural) {
  EXPECT_EQ(counted(1, "epoch"), "1 epoch");
  EXPECT_EQ(counted(2, "epoch"), "2 epochs");
  EXPECT_EQ(counted(0, "batch"), "0 batches");
  EXPECT_EQ(counted(3, "shard"), "3 shards");
}

TEST(Text, SizesAreThoseThatPeopleWrite) {
  EXPECT_EQ(parse_size("3e9"), 3'000'000'000U);
  EXPECT_EQ(parse_size("500M"), 500'000'000U);
  EXPECT_EQ(parse_size("1.5 kB"), std::nullopt);
  EXPECT_EQ(parse_size("1.5kB"), 1500U);
  EXPECT_EQ(parse_size("2GiB"), 2U << 30U);
  EXPECT_EQ(parse_size("7B"), 7U);
  for (const char* wrong : {"", "GiB", "0", "-1", "0.5", "nan", "inf", "1e99", "4x", "4Gx", "4GBs"})
    EXPECT_EQ(parse_size(wrong), std::nullopt) << wrong;
}

TEST(Log, PassesLinesToAFunctionAsTheyAre) {
  std::vector<std::pair<LogLevel, std::string>> lines;
  {
    const Log log = Log::to_function(
        [&](LogLevel level, const std::string& line) { lines.emplace_back(level, line); });
    log.debug("a {} b");
    log.info("b");
    log.warn("c");
    log.error("d");
  }
  const std::vector<std::pair<LogLevel, std::string>> expected = {{LogLevel::kDebug, "a {} b"},
                                                                  {LogLevel::kInfo, "b"},
                                                                  {LogLevel::kWarn, "c"},
                                                                  {LogLevel::kError, "d"}};
  EXPECT_EQ(lines, expected);
}

TEST(Text, PrintableCutsBetweenCharacters) {
  EXPECT_EQ(printable("r\xC3\xA9sum\xC3\xA9", 9), "r\xC3\xA9sum\xC3\xA9");
  EXPECT_EQ(printable("r\xC3\xA9sum\xC3\xA9s!", 9), "r\xC3\xA9sum...");
  EXPECT_EQ(printable("\xC3\xA9\xC3\xA9\xC3\xA9", 5), "\xC3\xA9...");
  EXPECT_EQ(printable("\xC0\xAF\xED\xA0\x80", 80), "\\xc0\\xaf\\xed\\xa0\\x80");
  EXPECT_EQ(printable("", 4), "");
}

TEST(Text, CountsHaveTheirNouns) {
  EXPECT_EQ(counted(1, "device"), "1 device");
  EXPECT_EQ(counted(0, "shard"), "0 shards");
  EXPECT_EQ(counted(2, "class"), "2 classes");
  EXPECT_EQ(counted(3, "batch"), "3 batches");
  EXPECT_EQ(counted(4, "index"), "4 indexes");
}

// Known answers from the generator's authors (Random123's kat_vectors).
TEST(Philox, GivesTheKnownAnswers) {
  using Block = std::array<std::uint32_t, 4>;
  EXPECT_EQ(philox4x32({0, 0, 0, 0}, {0, 0}),
            (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox4x32({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Wrap, ANumberStaysWithItsPercentSign) {
  const std::string before(75, 'x');
  EXPECT_EQ(wrapped(before + " 2.7 % of it", 0, 0), before + "\n2.7 % of it");
  EXPECT_EQ(wrapped("2.7 %", 0, 0), "2.7 %");
  EXPECT_EQ(wrapped(before + " 2.7 of it", 0, 2), before + " 2.7\n  of it");
}

TEST(KeyedRng, EveryPartOfTheKeyCounts) {
  const RngKey base{.seed = 1, .epoch = 2, .stream = 3, .index = 4, .purpose = purpose_of("crop")};
  std::vector<RngKey> keys(6, base);
  keys[1].seed = 9;
  keys[2].epoch = 9;
  keys[3].stream = 9;
  keys[4].index = 9;
  keys[5].purpose = purpose_of("flip");
  std::vector<std::uint32_t> firsts;
  for (const RngKey& key : keys) firsts.push_back(KeyedRng(key)());
  std::sort(firsts.begin(), firsts.end());
  EXPECT_EQ(std::unique(firsts.begin(), firsts.end()), firsts.end());
  EXPECT_EQ(KeyedRng(base)(), KeyedRng(base)());
}

TEST(KeyedRng, ShuffleIsAPermutationAndUniformEnough) {
  // Each of the 6 orders of 3 items occurs 1,000 times in 6,000, within five standard deviations.
  std::vector<int> counts(27);
  for (std::uint64_t i = 0; i < 6000; ++i) {
    KeyedRng rng({.index = i});
    std::vector<int> items{0, 1, 2};
    shuffle<int>(items, rng);
    ++counts[static_cast<std::size_t>(items[0] * 9 + items[1] * 3 + items[2])];
  }
  for (const std::size_t order : {5U, 7U, 11U, 15U, 19U, 21U}) {
    EXPECT_NEAR(counts[order], 1000, 150);
  }
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0), 6000);
}

TEST(KeyedRng, NormalHasMeanZeroAndDeviationOne) {
  KeyedRng rng({.seed = 5});
  double sum = 0;
  double squares = 0;
  constexpr int kCount = 100'000;
  for (int i = 0; i < kCount; ++i) {
    const double value = rng.normal();
    sum += value;
    squares += value * value;
  }
  EXPECT_NEAR(sum / kCount, 0.0, 0.02);
  EXPECT_NEAR(squares / kCount, 1.0, 0.03);
}

TEST(Distributions, GammaAndBetaHaveTheirMeansAndDeviations) {
  constexpr int kCount = 50'000;
  for (const double shape : {0.2, 0.8, 1.0, 3.5}) {
    KeyedRng rng({.seed = 5});
    double sum = 0;
    double squares = 0;
    for (int i = 0; i < kCount; ++i) {
      const double value = random_gamma(shape, rng);
      ASSERT_GE(value, 0);
      sum += value;
      squares += (value - shape) * (value - shape);
    }
    EXPECT_NEAR(sum / kCount, shape, 0.02 * (1 + shape));
    EXPECT_NEAR(squares / kCount, shape, 0.05 * (1 + shape));
  }
  for (const auto& [a, b] : {std::pair{0.2, 0.2}, {1.0, 1.0}, {2.0, 5.0}, {0.001, 0.001}}) {
    KeyedRng rng({.seed = 6});
    double sum = 0;
    double squares = 0;
    const double mean = a / (a + b);
    for (int i = 0; i < kCount; ++i) {
      const double value = random_beta(a, b, rng);
      ASSERT_GE(value, 0);
      ASSERT_LE(value, 1);
      sum += value;
      squares += (value - mean) * (value - mean);
    }
    EXPECT_NEAR(sum / kCount, mean, 0.01);
    EXPECT_NEAR(squares / kCount, mean * (1 - mean) / (a + b + 1), 0.005);
  }
}

TEST(Hash, Crc32IsGzips) {
  EXPECT_EQ(crc32(bytes_of("123456789")), 0xCBF43926U);
  EXPECT_EQ(crc32(bytes_of("6789"), crc32(bytes_of("12345"))), 0xCBF43926U);
}

// Bit by bit, as RFC 1952 defines it.
std::uint32_t slow_crc32(std::span<const std::byte> data) {
  std::uint32_t crc = 0xFFFF'FFFFU;
  for (const std::byte byte : data) {
    crc ^= std::to_integer<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB8'8320U : 0U);
  }
  return ~crc;
}

TEST(Hash, Crc32HoldsForEveryLengthAndPlace) {
  std::vector<std::byte> data(5'000);
  KeyedRng rng({.seed = 3});
  for (std::byte& byte : data) byte = static_cast<std::byte>(rng());
  const std::span<const std::byte> all(data);
  for (std::size_t size = 0; size < 1'200; ++size) {
    const auto part = all.subspan(size % 67, size);
    ASSERT_EQ(crc32(part), slow_crc32(part)) << size;
    ASSERT_EQ(crc32(part.subspan(size / 3), crc32(part.first(size / 3))), crc32(part)) << size;
  }
  EXPECT_EQ(crc32(all), slow_crc32(all));
  EXPECT_EQ(crc32({}, 7), 7U);
}

TEST(Hash, Sha256OfAbc) {
  Sha256 hash;
  hash.update(bytes_of("abc"));
  EXPECT_EQ(hash.hex(), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Clock, SleepEndsWhenStopped) {
  std::stop_source source;
  std::jthread stopper([&] { source.request_stop(); });
  EXPECT_FALSE(Clock::system().sleep_for(std::chrono::hours(1), source.get_token()));
}

TEST(FileLock, IsGivenToOneAtATime) {
  const testing::TempDir dir;
  auto lock = FileLock::try_take(dir / "lock");
  ASSERT_NE(lock, nullptr);
  EXPECT_EQ(FileLock::try_take(dir / "lock"), nullptr);
  lock.reset();
  EXPECT_NE(FileLock::try_take(dir / "lock"), nullptr);
  EXPECT_TRUE(std::filesystem::exists(dir / "lock"));
}

TEST(FileLock, KnowsWhetherItsFileIsStillThere) {
  const testing::TempDir dir;
  const auto lock = FileLock::try_take(dir / "lock");
  EXPECT_TRUE(lock->in_place());
  lock->remove();
  EXPECT_FALSE(lock->in_place());
  const auto other = FileLock::try_take(dir / "lock");
  EXPECT_TRUE(other->in_place());
  EXPECT_FALSE(lock->in_place()) << "it is another file by the same name";
  EXPECT_NO_THROW(lock->remove());
  EXPECT_NO_THROW(lock->remove()) << "there is none any more";
}

TEST(FileLock, NeedsAFolderThatIsThere) {
  const testing::TempDir dir;
  EXPECT_THROW(FileLock::try_take(dir / "none/lock"), Error);
}

}  // namespace

}  // namespace millrace
