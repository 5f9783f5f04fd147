#include "wds/writer_threads.h"

#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <future>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/opener.h"
#include "wds/shard_writer.h"

namespace millrace::wds {
namespace {

using namespace std::chrono_literals;

TEST(JobLane, RunsItsJobsInOrderAndPassesOnWhatTheyThrow) {
  std::vector<int> ran;
  std::vector<std::future<void>> done;
  {
    JobLane lane("to count");
    for (int i = 0; i < 100; ++i)
      done.push_back(lane.add([&ran, i] {
        ran.push_back(i);
        if (i == 7) throw std::runtime_error("seven");
      }));
  }
  ASSERT_EQ(ran.size(), 100U) << "what was there at the end is run";
  for (int i = 0; i < 100; ++i) EXPECT_EQ(ran[static_cast<std::size_t>(i)], i);
  EXPECT_THROW(done[7].get(), std::runtime_error);
  EXPECT_NO_THROW(done[8].get());
}

TEST(AwaitJob, SaysOnceWhatItWaitsFor) {
  std::promise<void> done;
  int said = 0;
  const auto say = [&] {
    ++said;
    done.set_value();
  };
  const std::shared_future<void> job = done.get_future().share();
  await_job(job, say, 0ms);
  EXPECT_EQ(said, 1);
  await_job(job, say, 0ms);
  EXPECT_EQ(said, 1) << "it is done";
}

/// A store whose objects appear when they may.
class GatedStore final : public io::Opener {
 public:
  std::unique_ptr<io::ByteSource> open(const std::string& url,
                                       const io::OpenOptions& /*options*/) const override {
    throw Error(ErrorCode::kNotFound, "no such object", {.url = url});
  }
  std::unique_ptr<io::ByteSink> open_sink(const std::string& url,
                                          const io::FileSinkOptions& /*options*/,
                                          const std::stop_token& /*stop*/) const override {
    return std::make_unique<Sink>(*this, url);
  }
  void remove(const std::string& url, const std::stop_token& /*stop*/) const override {
    MutexLock lock(mutex_);
    objects_.erase(url);
  }

  /// The tars wait for it, 30 s at most.
  std::promise<void> gate;
  /// The object that cannot be finished.
  std::string broken;

  std::vector<std::string> names() const {
    MutexLock lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [url, bytes] : objects_) all.push_back(url);
    return all;
  }

 private:
  class Sink final : public io::ByteSink {
   public:
    Sink(const GatedStore& store, std::string url) : store_(store), url_(std::move(url)) {}
    void write(std::span<const std::byte> data) override { bytes_ += data.size(); }
    void finish() override {
      if (url_.ends_with(".tar")) store_.open_gate_.wait_for(30s);
      if (url_ == store_.broken) throw Error(ErrorCode::kIo, "the store is gone", {.url = url_});
      MutexLock lock(store_.mutex_);
      store_.objects_[url_] = bytes_;
    }
    std::uint64_t position() const override { return bytes_; }

   private:
    const GatedStore& store_;
    const std::string url_;
    std::uint64_t bytes_ = 0;
  };

  std::shared_future<void> open_gate_ = gate.get_future().share();
  mutable Mutex mutex_;
  mutable std::map<std::string, std::uint64_t> objects_ MILLRACE_GUARDED_BY(mutex_);
};

WriterSample one_field(const std::string& key) {
  return {.key = key, .fields = {{"txt", io::Bytes::copy_of(key)}}};
}

TEST(ShardWriterThreads, AFullShardIsPublishedWhileTheNextOneIsWritten) {
  GatedStore store;
  std::vector<std::string> told;
  ShardWriter writer({.pattern = "store://s-%d.tar",
                      .maxcount = 2,
                      .manifest = "store://set.json",
                      .opener = &store,
                      .on_shard = [&](const ShardSummary& shard) { told.push_back(shard.url); }});
  for (const char* key : {"a", "b", "c", "d"}) writer.write(one_field(key));  // waits for nothing
  EXPECT_TRUE(told.empty());
  for (const std::string& name : store.names()) EXPECT_FALSE(name.ends_with(".tar")) << name;
  store.gate.set_value();
  writer.write(one_field("e"));
  EXPECT_EQ(writer.finish().size(), 3U);
  EXPECT_EQ(told,
            (std::vector<std::string>{"store://s-0.tar", "store://s-1.tar", "store://s-2.tar"}));
  EXPECT_EQ(store.names().size(), 7U) << "shards, indexes and the manifest";
}

// The line itself opens the gate, so that nothing but the two seconds is waited for.
TEST(ShardWriterThreads, AWaitForPublishingIsSaidWithTheShardsName) {
  GatedStore store;
  std::vector<std::string> lines;
  const Log log = Log::to_function([&](LogLevel, const std::string& line) {
    lines.push_back(line);
    store.gate.set_value();
  });
  ShardWriter writer({.pattern = "store://s-%d.tar", .maxcount = 2, .opener = &store, .log = log});
  writer.write(one_field("a"));
  EXPECT_EQ(writer.finish().size(), 1U);
  EXPECT_EQ(lines, std::vector<std::string>{"waiting for store://s-0.tar to be published"});
}

TEST(ShardWriterThreads, AFaultOfPublishingIsThrownLaterAndLeavesNoShardBehindIt) {
  GatedStore store;
  store.gate.set_value();
  store.broken = "store://s-1.tar";
  ShardWriter writer({.pattern = "store://s-%d.tar",
                      .maxcount = 1,
                      .manifest = "store://set.json",
                      .opener = &store});
  const auto write_and_finish = [&] {
    for (const char* key : {"a", "b", "c", "d"}) writer.write(one_field(key));
    writer.finish();
  };
  try {
    write_and_finish();
    FAIL() << "the second shard was not published";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kIo);
    EXPECT_EQ(error.where().url, "store://s-1.tar");
  }
  EXPECT_THROW(writer.write(one_field("e")), Error) << "it stays failed";
  EXPECT_THROW(writer.finish(), Error);
  EXPECT_EQ(store.names(),
            (std::vector<std::string>{"store://s-0.tar", "store://s-0.tar.index.json"}));
}

TEST(ShardWriterThreads, WritersThatShareThemWriteWhatEachWouldAlone) {
  const auto bytes_of = [](const std::shared_ptr<WriterThreads>& threads) {
    GatedStore store;
    store.gate.set_value();
    std::vector<ShardWriter> writers;
    for (const char* pattern : {"store://a-%d.tar", "store://b-%d.tar"})
      writers.emplace_back(ShardWriterOptions{
          .pattern = pattern, .maxcount = 3, .opener = &store, .threads = threads});
    const io::Bytes large = io::Bytes::copy_of(std::string(3'000'000, 'x'));
    std::vector<std::string> sums;
    for (int i = 0; i < 8; ++i)
      for (ShardWriter& writer : writers)
        writer.write({.key = std::to_string(i), .fields = {{"bin", large}}});
    for (ShardWriter& writer : writers)
      for (const ShardSummary& shard : writer.finish()) sums.push_back(shard.sha256);
    return sums;
  };
  const auto alone = bytes_of(nullptr);
  EXPECT_EQ(alone.size(), 6U);
  EXPECT_EQ(bytes_of(std::make_shared<WriterThreads>()), alone);
}

}  // namespace
}  // namespace millrace::wds
