// Payloads of a shuffle buffer that are read again from their shards: the order and the bytes are
// those of a buffer that keeps all, and a shard that changed meanwhile is a fault.
#include "wds/detail/set_aside.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "io/base/error.h"
#include "io/file_system.h"
#include "tests/support/code_of.h"
#include "tests/support/counting_opener.h"
#include "tests/support/some_bytes.h"
#include "tests/support/tar_builder.h"
#include "tests/support/temp_dir.h"
#include "tests/wds/memory_opener.h"
#include "wds/detail/shuffle_buffer.h"
#include "wds/sample_stream.h"
#include "wds/shard_reader.h"

namespace millrace::wds {
namespace {

using detail::BufferedSample;
using testing::code_of;
using testing::CountingOpener;
using testing::some_bytes;
using testing::TarBuilder;
using testing::TempDir;
using Strings = std::vector<std::string>;

/// Samples of two fields, whose bytes are different in each.
std::string numbered_shard(int samples, std::size_t bytes, char name) {
  const std::string data = some_bytes(bytes + static_cast<std::size_t>(samples));
  TarBuilder tar;
  for (int i = 0; i < samples; ++i) {
    const std::string key = name + std::to_string(i);
    tar.file(key + ".cls", std::to_string(i))
        .file(key + ".jpg", std::string_view(data).substr(static_cast<std::size_t>(i), bytes));
  }
  return tar.end().bytes();
}

std::string bytes_of_fields(const Sample& sample) {
  std::string text = sample.key;
  for (const Field& field : sample.fields)
    text += "|" + field.suffix + ":" + std::string(field.data.text());
  return text;
}

/// What a buffer of 20 samples gives of the shard, with so many bytes in memory.
Strings shuffled(const std::string& url, std::size_t memory_bytes, std::size_t& set_aside) {
  const io::UrlOpener opener;
  const StreamSpec spec{.shards = std::make_shared<const Strings>(Strings{url}),
                        .shuffle = {.buffer_samples = 20, .seed = 5}};
  ShardReader reader(opener, url, {});
  detail::ShuffleBuffer buffer(spec, memory_bytes);
  const auto read = [&](BufferedSample& one) {
    one.can_be_read_again = true;
    return reader.next(one.sample);
  };
  Strings found;
  for (BufferedSample one; buffer.next(read, found.size(), one); one = {}) {
    EXPECT_LE(buffer.bytes_in_memory(), memory_bytes);
    set_aside += one.aside ? 1 : 0;
    if (one.aside) detail::read_again(one.sample, *one.aside, opener, {});
    found.push_back(bytes_of_fields(one.sample));
  }
  EXPECT_EQ(buffer.bytes_in_memory(), 0U);
  return found;
}

TEST(SetAside, ABufferGivesTheSameWithHardlyAnyMemory) {
  const TempDir dir;
  testing::write_file(dir / "a.tar", numbered_shard(50, 3000, 'a'));
  std::size_t none = 0, some = 0, all = 0;
  const Strings kept = shuffled(dir / "a.tar", 1 << 20, none);
  ASSERT_EQ(kept.size(), 50U);
  EXPECT_EQ(shuffled(dir / "a.tar", 20'000, some), kept);
  EXPECT_EQ(shuffled(dir / "a.tar", 0, all), kept);
  EXPECT_EQ(none, 0U);
  EXPECT_GT(some, 0U);
  EXPECT_LT(some, 50U);
  EXPECT_EQ(all, 50U);
}

TEST(SetAside, AShardThatChangedMeanwhileIsAFault) {
  const TempDir dir;
  const std::string url = dir / "a.tar";
  testing::write_file(url, numbered_shard(3, 3000, 'a'));
  const io::UrlOpener opener;
  ShardReader reader(opener, url, {});
  Sample sample;
  ASSERT_TRUE(reader.next(sample));
  ASSERT_TRUE(reader.next(sample));
  const std::string before = bytes_of_fields(sample);
  const detail::SetAside left = detail::set_aside(sample);
  EXPECT_TRUE(sample.fields.empty());
  EXPECT_GE(left.num_bytes, 3000U);
  detail::read_again(sample, left, opener, {});
  EXPECT_EQ(bytes_of_fields(sample), before);
  std::string changed = testing::read_file(url);
  changed[static_cast<std::size_t>(sample.find("jpg")->offset) + 7] ^= 1;
  testing::write_file(url, changed);
  EXPECT_EQ(code_of([&] { detail::read_again(sample, left, opener, {}); }), ErrorCode::kCorrupt);
  testing::write_file(url, numbered_shard(3, 3000, 'b'));
  EXPECT_EQ(code_of([&] { detail::read_again(sample, left, opener, {}); }), ErrorCode::kCorrupt);
  testing::write_file(url, numbered_shard(1, 3000, 'a'));
  EXPECT_EQ(code_of([&] { detail::read_again(sample, left, opener, {}); }), ErrorCode::kCorrupt);
}

StreamSpec buffered_stream(const Strings& shards) {
  return {.shards = std::make_shared<const Strings>(shards),
          .shuffle = {.buffer_samples = 1000, .seed = 2},
          .num_streams = 64,
          .stream = 0,
          .max_samples = 45};
}

/// The keys and checksums of a stream's samples.
Strings read_stream(const io::Opener& opener, const Strings& shards) {
  FaultLedger ledger;
  SampleStream stream(buffered_stream(shards), opener, ledger);
  Strings found;
  for (Sample sample; stream.next(sample);)
    found.push_back(std::to_string(std::hash<std::string>{}(bytes_of_fields(sample))));
  return found;
}

// A megabyte each, so that 45 are more than a stream keeps; of a network nothing is set aside.
TEST(SetAside, AStreamOverFilesGivesWhatOneOverANetworkDoes) {
  const TempDir dir;
  if (io::is_in_network_file_system(dir.path())) GTEST_SKIP() << "files are on a network here";
  const std::string url = "http://host/a.tar";
  testing::MemoryOpener network;
  network.files[url] = numbered_shard(45, 1'000'000, 'a');
  testing::write_file(dir / "a.tar", network.files[url]);
  const CountingOpener disk;
  const Strings found = read_stream(disk, {dir / "a.tar"});
  EXPECT_EQ(found.size(), 45U);
  EXPECT_EQ(found, read_stream(network, {url}));
  EXPECT_GT(disk.opens().at(dir / "a.tar"), 1) << "some were read again";
  EXPECT_LT(disk.opens().at(dir / "a.tar"), 20) << "and most were not";
}

// The buffer holds the whole set when its shard goes.
TEST(SetAside, WhatCannotBeReadAgainObeysThePolicy) {
  const TempDir dir;
  if (io::is_in_network_file_system(dir.path())) GTEST_SKIP() << "files are on a network here";
  const std::string shard = dir / "a.tar";
  const std::string bytes = numbered_shard(45, 1'000'000, 'a');
  const io::UrlOpener opener;
  for (const OnFault on_fault : {OnFault::kSkip, OnFault::kFail}) {
    testing::write_file(shard, bytes);
    FaultLedger ledger({.on_fault = on_fault});
    StreamSpec spec = buffered_stream({shard});
    spec.max_samples = 0;
    spec.passes = 1;
    spec.num_streams = 1;
    spec.shuffle.buffer_bytes = std::size_t{64} << 20;
    SampleStream stream(spec, opener, ledger);
    Sample sample;
    ASSERT_TRUE(stream.next(sample));
    std::filesystem::remove(shard);
    const auto rest = [&] {
      std::size_t given = 1;
      while (stream.next(sample)) ++given;
      return given;
    };
    if (on_fault == OnFault::kFail) {
      EXPECT_EQ(code_of(rest), ErrorCode::kNotFound);
      continue;
    }
    const std::size_t given = rest();
    EXPECT_LT(given, 45U);
    EXPECT_EQ(given + ledger.skipped(), 45U);
    EXPECT_EQ(stream.position().lost.samples, 45U - given);
    EXPECT_EQ(stream.take_trail(), nullptr) << "which no position could follow";
  }
}

}  // namespace
}  // namespace millrace::wds
