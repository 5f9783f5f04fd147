// The conformance suite of ByteSource and Opener: what every source of bytes must do, wherever its
// bytes lie. Each implementation joins, test doubles too: a double that is kinder than what it
// stands for hides the faults of its callers.
//
//   INSTANTIATE_TEST_SUITE_P(Doubles, ByteSourceConformance,
//                            ::testing::Values(SourceKind{"Memory", make_memory_object}),
//                            [](const auto& kind) { return kind.param.name; });
//
// Included by one source file of a test program.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/byte_source.h"
#include "io/opener.h"
#include "tests/support/some_bytes.h"

namespace millrace::testing {

/// One object somewhere, that can be opened.
class SourceObject {
 public:
  virtual ~SourceObject() = default;
  virtual std::unique_ptr<io::ByteSource> open(const io::OpenOptions& options) = 0;
  /// Opens what is not there; null where every name leads to something (a pipe).
  virtual std::unique_ptr<io::ByteSource> open_missing() { return nullptr; }
  /// Whether it can be opened again while it is open (a FIFO cannot).
  virtual bool repeats() const { return true; }
};

/// An object of any Opener, by two names: one that is there and one that is not.
template <typename Opener>
class OpenerObject final : public SourceObject {
 public:
  OpenerObject(std::shared_ptr<Opener> opener, std::string url)
      : opener_(std::move(opener)), url_(std::move(url)) {}
  std::unique_ptr<io::ByteSource> open(const io::OpenOptions& options) override {
    return opener_->open(url_, options);
  }
  std::unique_ptr<io::ByteSource> open_missing() override { return opener_->open(url_ + ".none"); }

 private:
  std::shared_ptr<Opener> opener_;
  std::string url_;
};

struct SourceKind {
  std::string name;
  std::function<std::unique_ptr<SourceObject>(const std::string& content)> make;
  /// Why the machine cannot have one; nothing when it can.
  std::function<std::optional<std::string>()> missing = {};
};

class ByteSourceConformance : public ::testing::TestWithParam<SourceKind> {
 protected:
  // Makes the object, or skips the test when the machine lacks what it takes.
  void make(std::string content) {
    if (GetParam().missing) {
      if (const auto reason = GetParam().missing()) GTEST_SKIP() << *reason;
    }
    content_ = std::move(content);
    object_ = GetParam().make(content_);
  }
  std::unique_ptr<io::ByteSource> open(const io::OpenOptions& options = {}) {
    return object_->open(options);
  }

  std::string content_;
  std::unique_ptr<SourceObject> object_;
};

TEST_P(ByteSourceConformance, GivesEveryByteOnceInOrder) {
  make(some_bytes(3'000'000));
  if (!object_) return;
  for (const std::size_t step : {std::size_t{4093}, std::size_t{1} << 20, std::size_t{8} << 20}) {
    const auto source = open();
    std::string got;
    std::vector<std::byte> buffer(step);
    while (const std::size_t count = source->read(buffer)) {
      got.append(reinterpret_cast<const char*>(buffer.data()), count);
      ASSERT_EQ(source->position(), got.size());
    }
    EXPECT_TRUE(got == content_) << "differs with reads of " << step;
    EXPECT_EQ(source->read(buffer), 0U) << "the end stays the end";
  }
}

TEST_P(ByteSourceConformance, StartsAtAnyOffset) {
  make(some_bytes(100'000));
  if (!object_) return;
  for (const std::size_t offset : {0UL, 1UL, 512UL, 50'001UL, 65'536UL, 99'999UL, 100'000UL}) {
    const auto source = open({.offset = offset});
    EXPECT_EQ(source->position(), offset);
    EXPECT_TRUE(io::read_all(*source, 1 << 20).text() == content_.substr(offset)) << offset;
    EXPECT_EQ(source->size().value_or(content_.size()), content_.size());
    EXPECT_EQ(source->position(), content_.size());
    std::byte more[16];
    EXPECT_EQ(source->read(more), 0U) << "the end stays the end";
    EXPECT_FALSE(source->url().empty());
  }
}

TEST_P(ByteSourceConformance, AnOffsetPastTheEndIsTruncated) {
  make("0123456789");
  if (!object_) return;
  for (const std::uint64_t offset : {std::uint64_t{11}, std::uint64_t{100'000}}) {
    try {
      const auto source = open({.offset = offset});
      io::read_all(*source, 100);
      ADD_FAILURE() << "read from behind the end at " << offset;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::kTruncated) << error.what();
      EXPECT_FALSE(error.where().url.empty());
    }
  }
}

TEST_P(ByteSourceConformance, AMissingObjectIsNotFound) {
  make("0123456789");
  if (!object_) return;
  try {
    const auto source = object_->open_missing();
    if (!source) GTEST_SKIP() << "every name leads to something";
    io::read_all(*source, 100);
    FAIL() << "read what is not there";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound) << error.what();
    EXPECT_FALSE(error.where().url.empty());
  }
}

TEST_P(ByteSourceConformance, SourcesOfOneObjectDoNotDisturbEachOther) {
  make(some_bytes(100'000));
  if (!object_ || !object_->repeats()) return;
  const auto first = open();
  std::vector<std::byte> buffer(1000);
  ASSERT_GT(first->read(buffer), 0U);
  const std::uint64_t here = first->position();
  const auto second = open({.offset = 60'000});
  EXPECT_TRUE(io::read_all(*second, 1 << 20).text() == content_.substr(60'000));
  EXPECT_EQ(first->position(), here);
  EXPECT_TRUE(io::read_all(*first, 1 << 20).text() == content_.substr(here));
}

TEST_P(ByteSourceConformance, SkippingIsReadingWithoutTheBytes) {
  make(some_bytes(20'000'000));
  if (!object_) return;
  const auto source = open();
  std::vector<std::byte> buffer(1000);
  ASSERT_GT(source->read(buffer), 0U);
  for (const std::uint64_t gap : {std::uint64_t{1}, std::uint64_t{9'000'000}}) {
    const std::uint64_t before = source->position();
    const bool skipped = source->skip(gap);
    ASSERT_EQ(source->position(), before + (skipped ? gap : 0));
    const std::size_t got = source->read(buffer);
    const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), got);
    ASSERT_GT(got, 0U);
    EXPECT_TRUE(bytes == content_.substr(source->position() - got, got)) << gap;
  }
  const std::uint64_t left = content_.size() - source->position();
  if (source->size()) {
    EXPECT_FALSE(source->skip(left + 1)) << "not past the end";
  }
  if (source->skip(left)) {
    EXPECT_EQ(source->position(), content_.size());
    EXPECT_EQ(source->read(buffer), 0U);
  }
}

TEST_P(ByteSourceConformance, AnEmptyObjectIsOnlyItsEnd) {
  make("");
  if (!object_) return;
  const auto source = open();
  std::byte buffer[16];
  EXPECT_EQ(source->read(buffer), 0U);
  EXPECT_EQ(source->size().value_or(0), 0U);
}

TEST_P(ByteSourceConformance, AStopBeforehandIsCancelled) {
  make("0123456789");
  if (!object_) return;
  std::stop_source stop;
  stop.request_stop();
  try {
    const auto source = open({.stop = stop.get_token()});
    // A source may hand on what it has already; the waiting that follows must not be.
    io::read_all(*source, 100);
    FAIL() << "read in spite of the stop";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kCancelled) << error.what();
  }
}

TEST_P(ByteSourceConformance, MayGoInMidRead) {
  make(some_bytes(20'000'000));
  if (!object_) return;
  auto source = open();
  std::vector<std::byte> buffer(1000);
  ASSERT_GT(source->read(buffer), 0U);
  source.reset();
}

}  // namespace millrace::testing
