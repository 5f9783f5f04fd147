// The cache: what it serves, what it costs the server, and what damage does to it.
#include "io/cache.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <optional>
#include <random>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "io/base/error.h"
#include "io/base/hash.h"
#include "io/detail/cache/cache_entry.h"
#include "io/detail/cache/cache_folder.h"
#include "tests/support/code_of.h"
#include "tests/support/nginx.h"
#include "tests/support/scripted_http_server.h"
#include "tests/support/some_bytes.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

namespace fs = std::filesystem;
using testing::Nginx;
using testing::some_bytes;
using testing::TempDir;
using testing::write_file;

std::uint64_t bytes_in(const std::string& folder) {
  std::uint64_t sum = 0;
  for (const auto& file : fs::recursive_directory_iterator(folder))
    if (std::error_code gone; file.is_regular_file(gone)) {
      const std::uintmax_t bytes = file.file_size(gone);
      if (!gone) sum += bytes;
    }
  return sum;
}

/// While others read and write: else a file that has gone and the one that took its place are both
/// counted.
std::uint64_t bytes_at_once(const std::string& folder) {
  const auto lock = detail::lock_cache(folder);
  EXPECT_NE(lock, nullptr);
  return bytes_in(folder);
}

std::vector<std::string> files_in(const std::string& folder, const std::string& suffix) {
  std::vector<std::string> found;
  for (const auto& file : fs::recursive_directory_iterator(folder))
    if (file.path().string().ends_with(suffix)) found.push_back(file.path().string());
  return found;
}

void flip(const std::string& path, std::uint64_t at) {
  const int fd = ::open(path.c_str(), O_RDWR);
  char byte = 0;
  ASSERT_EQ(::pread(fd, &byte, 1, static_cast<off_t>(at)), 1);
  byte = static_cast<char>(byte ^ 0x10);
  ASSERT_EQ(::pwrite(fd, &byte, 1, static_cast<off_t>(at)), 1);
  ::close(fd);
}

// Bytes that a server sent; those that were cut off by us count only as far as it got.
struct Traffic {
  int requests = 0;
  std::uint64_t bytes = 0;
};

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
    put("a.tar", content_);
    server_.emplace(served_.path());
  }
  void put(const std::string& name, const std::string& text) { write_file(served_ / name, text); }
  std::string folder() const { return home_ / "cache"; }
  std::shared_ptr<CachingOpener> opener(CacheOptions options = {}) const {
    options.folder = folder();
    return std::make_shared<CachingOpener>(std::make_shared<UrlOpener>(), std::move(options));
  }
  std::string read(const Opener& from, const OpenOptions& options = {},
                   const std::string& name = "a.tar") const {
    const auto source = from.open(server_->url(name), options);
    return std::string(read_all(*source, std::size_t{1} << 30U).text());
  }
  void read_range(const Opener& from, std::uint64_t offset, std::uint64_t length) const {
    const auto source = from.open(server_->url("a.tar"), {.offset = offset, .expected = length});
    std::vector<std::byte> buffer(length);
    for (std::uint64_t at = 0; at < length;) {
      const std::size_t got = source->read(std::span(buffer).subspan(at));
      ASSERT_GT(got, 0U);
      at += got;
    }
    const std::string_view bytes(reinterpret_cast<const char*>(buffer.data()), length);
    EXPECT_TRUE(bytes == content_.substr(offset, length));
  }
  Traffic traffic() const {
    Traffic sum;
    std::istringstream log(server_->access_log());
    std::string method, uri, status;
    for (std::string line; std::getline(log, line);) {
      std::uint64_t bytes = 0;
      std::istringstream words(line);
      if (!(words >> method >> uri >> status >> bytes)) continue;
      ++sum.requests;
      sum.bytes += bytes;
    }
    return sum;
  }

  const std::string content_ = some_bytes(3'000'123);
  TempDir served_;
  TempDir home_;
  std::optional<Nginx> server_;
};

TEST_F(Cache, ASecondProcessAsksForOneByteAndReadsTheDisk) {
  EXPECT_TRUE(read(*opener()) == content_);
  const Traffic first = traffic();
  const auto second = opener();
  EXPECT_TRUE(read(*second) == content_);
  EXPECT_EQ(traffic().requests, first.requests + 1);
  EXPECT_LT(traffic().bytes, first.bytes + 10);
  EXPECT_TRUE(read(*second, {.offset = 1'234'567}) == content_.substr(1'234'567));
  EXPECT_EQ(traffic().requests, first.requests + 1) << "validated once in a process";
}

TEST_F(Cache, ASecondEpochReadsTheDisk) {
  const auto cache = opener();
  EXPECT_TRUE(read(*cache) == content_);
  while (files_in(folder(), ".shard").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(read(*cache) == content_);
  EXPECT_EQ(traffic().requests, 1);
}

TEST_F(Cache, RangesOfManyReadersBecomeAWholeObject) {
  // Less than half of it, so that its holes are not filled in the background.
  for (const auto& [offset, length] : std::vector<std::pair<std::uint64_t, std::uint64_t>>{
           {2'000'000, 1'000'123}, {0, 300'001}, {200'000, 200'000}})
    read_range(*opener(), offset, length);
  EXPECT_TRUE(files_in(folder(), ".shard").empty());
  ASSERT_EQ(list_cache(folder()).size(), 1U);
  EXPECT_EQ(list_cache(folder())[0].present_bytes, 400'000U + 1'000'123U);
  read_range(*opener(), 399'999, 1'600'010);
  ASSERT_EQ(files_in(folder(), ".shard").size(), 1U);
  EXPECT_TRUE(files_in(folder(), ".part").empty());
  EXPECT_TRUE(files_in(folder(), ".journal").empty());
  const Traffic before = traffic();
  EXPECT_TRUE(read(*opener()) == content_);
  EXPECT_EQ(traffic().requests, before.requests + 1);
}

TEST_F(Cache, WhatReadersLeftOutIsFetchedInTheBackground) {
  const auto cache = opener();
  {
    const auto source = cache->open(server_->url("a.tar"), {.expected = 2'000'000});
    std::vector<std::byte> buffer(2'000'000);
    for (std::size_t at = 0; at < buffer.size();) at += source->read(std::span(buffer).subspan(at));
  }
  while (files_in(folder(), ".shard").empty())
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_TRUE(read(*cache) == content_);
}

TEST_F(Cache, AChangedObjectIsNoticedAndNeverMixed) {
  EXPECT_TRUE(read(*opener()) == content_);
  const std::string other = some_bytes(content_.size(), 7);
  put("a.tar", other);
  fs::last_write_time(served_ / "a.tar", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_TRUE(read(*opener()) == other);
  const Traffic before = traffic();
  EXPECT_TRUE(read(*opener()) == other);
  EXPECT_EQ(traffic().requests, before.requests + 1) << "the new one is kept";
}

TEST_F(Cache, FlippedBitsAreFetchedAgainWithoutAFault) {
  EXPECT_TRUE(read(*opener()) == content_);
  for (const std::uint64_t at : {0UL, 65'536UL * 20 + 17, content_.size() - 1, content_.size() + 9,
                                 content_.size() + 300, content_.size() + 700}) {
    const auto files = files_in(folder(), ".shard");
    ASSERT_EQ(files.size(), 1U);
    flip(files[0], at);
    EXPECT_TRUE(read(*opener(), {.offset = 5}) == content_.substr(5)) << at;
    EXPECT_TRUE(read(*opener()) == content_) << at;
    EXPECT_TRUE(read(*opener()) == content_) << at;
  }
}

TEST_F(Cache, DamageMidwayInAChangedObjectIsAFault) {
  EXPECT_TRUE(read(*opener()) == content_);
  flip(files_in(folder(), ".shard").at(0), 2'000'000);
  const auto cache = opener();
  const auto source = cache->open(server_->url("a.tar"));
  std::byte one[1];
  ASSERT_EQ(source->read(one), 1U);
  put("a.tar", some_bytes(content_.size(), 7));
  fs::last_write_time(served_ / "a.tar", fs::file_time_type::clock::now() + std::chrono::hours(1));
  EXPECT_EQ(testing::code_of([&] { read_all(*source, 1 << 30); }), ErrorCode::kIo);
}

TEST_F(Cache, DamageInAPartIsFoundBeforeItIsServed) {
  for (const char* suffix : {".part", ".journal"}) {
    read_range(*opener(), 0, 1'000'000);
    const auto parts = files_in(folder(), suffix);
    ASSERT_EQ(parts.size(), 1U);
    flip(parts[0], 5);
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(read(*opener()) == content_) << suffix;
    EXPECT_EQ(files_in(folder(), ".shard").size(), 1U) << suffix;
    prune_cache(folder(), 0);
  }
}

TEST_F(Cache, WhatAKilledProcessLeftIsNoDamage) {
  EXPECT_TRUE(read(*opener()) == content_);
  const std::string whole = files_in(folder(), ".shard").at(0);
  const std::string stem = whole.substr(0, whole.size() - 6);
  const std::vector<std::function<void()>> instants = {
      [&] { write_file(stem + ".part", ""); },                            // made, not yet named
      [&] { write_file(stem + ".part", std::string(1'000'000, '\0')); },  // no trailer yet
      [&] { write_file(stem + ".journal", std::string(24, '\x01')); }};  // renamed, or half removed
  for (const auto& leave : instants) {
    leave();
    std::vector<CacheEntryState> states;
    for (const CacheEntry& entry : list_cache(folder())) {
      states.push_back(entry.state);
      EXPECT_TRUE(verify_cache_entry(entry)) << entry.path;
    }
    EXPECT_THAT(states, ::testing::UnorderedElementsAre(CacheEntryState::kWhole,
                                                        CacheEntryState::kLeftover));
    EXPECT_EQ(list_cache(folder()).size(), 1U) << "the leftover was removed";
  }
}

TEST_F(Cache, HostileFilesAreNeitherServedNorFollowed) {
  read_range(*opener(), 0, 1'000'000);
  const std::string part = files_in(folder(), ".part").at(0);
  const std::string stem = part.substr(0, part.size() - 5);
  const std::string good = some_bytes(300'000, 3);
  write_file(home_ / "victim", good);
  const std::vector<std::function<void(const std::string&)>> attacks = {
      [](const std::string& path) { write_file(path, ""); },
      [](const std::string& path) { write_file(path, std::string(5'000'000, '\xff')); },
      [](const std::string& path) { fs::create_directory(path); },
      [](const std::string& path) { ::mkfifo(path.c_str(), 0600); },
      [&](const std::string& path) { fs::create_symlink(home_ / "victim", path); },
      [](const std::string& path) { fs::create_symlink("/dev/zero", path); }};
  for (const auto& attack : attacks) {
    for (const char* suffix : {".part", ".journal", ".shard"}) {
      fs::remove_all(stem + suffix);
      attack(stem + suffix);
      EXPECT_TRUE(read(*opener()) == content_);
      EXPECT_NO_THROW(list_cache(folder()));
      EXPECT_TRUE(read(*opener()) == content_);
      fs::remove_all(stem + suffix);
    }
  }
  EXPECT_EQ(testing::read_file(home_ / "victim"), good);
}

TEST_F(Cache, ForeignFilesAreLeftAlone) {
  read_range(*opener(), 0, 10'000);
  write_file(folder() + "/notes.txt", "mine");
  write_file(folder() + "/ab/other.shard", "mine");
  prune_cache(folder(), 0);
  EXPECT_EQ(testing::read_file(folder() + "/notes.txt"), "mine");
  EXPECT_EQ(testing::read_file(folder() + "/ab/other.shard"), "mine");
  EXPECT_TRUE(files_in(folder(), ".part").empty());
}

TEST_F(Cache, TheLeastRecentlyUsedGoesAndTheLimitHolds) {
  const std::uint64_t limit = 10'000'000;  // three of them
  for (const char* name : {"b.tar", "c.tar", "d.tar"}) put(name, content_);
  for (const char* name : {"a.tar", "b.tar", "c.tar", "a.tar", "d.tar"}) {
    EXPECT_TRUE(read(*opener({.max_bytes = limit}), {}, name) == content_);
    EXPECT_LE(bytes_in(folder()), limit);
  }
  std::string left;
  for (const CacheEntry& entry : list_cache(folder()))
    left += entry.url.substr(entry.url.rfind('/') + 1, 1);
  EXPECT_EQ(left, "cad");
}

TEST_F(Cache, WhatIsOpenIsNotRemovedAndWhatDoesNotFitIsNotKept) {
  put("b.tar", content_);
  const std::uint64_t limit = 4'000'000;
  EXPECT_TRUE(read(*opener({.max_bytes = limit})) == content_);
  const auto cache = opener({.max_bytes = limit});
  const auto source = cache->open(server_->url("a.tar"));
  std::byte one[1];
  ASSERT_EQ(source->read(one), 1U);
  EXPECT_TRUE(read(*opener({.max_bytes = limit}), {}, "b.tar") == content_);
  EXPECT_EQ(list_cache(folder()).at(0).url, server_->url("a.tar"));
  EXPECT_EQ(list_cache(folder()).size(), 1U);
  EXPECT_TRUE(read(*opener({.max_bytes = 1'000'000}), {}, "b.tar") == content_);
  EXPECT_EQ(list_cache(folder()).size(), 1U) << "nothing is removed for what can never fit";
}

TEST_F(Cache, ADiskThatIsTooSlowKeepsNothingAndSaysSoOnce) {
  const std::string log = home_ / "log";
  EXPECT_TRUE(read(*opener({.queue_bytes = 1000, .log = Log::to_file(log)})) == content_);
  EXPECT_TRUE(files_in(folder(), ".shard").empty());
  const std::string text = testing::read_file(log);
  EXPECT_EQ(text.find("slower"), text.rfind("slower"));
  EXPECT_NE(text.find("slower"), std::string::npos);
}

TEST_F(Cache, AWrongDigestIsNotKept) {
  {
    const auto cache = opener();
    cache->expect_digest(server_->url("a.tar"), std::string(64, '0'));
    EXPECT_TRUE(read(*cache) == content_);
  }
  EXPECT_TRUE(list_cache(folder()).empty());
  Sha256 hash;
  hash.update(std::as_bytes(std::span(content_)));
  {
    const auto cache = opener();
    cache->expect_digest(server_->url("a.tar"), hash.hex());
    EXPECT_TRUE(read(*cache) == content_);
  }
  EXPECT_EQ(files_in(folder(), ".shard").size(), 1U);
}

TEST_F(Cache, SecretsAreNeitherInNamesNorInMetadata) {
  const std::string plain = server_->url("a.tar");
  const std::string with_user = "http://me:hunter2@" + plain.substr(7);
  for (const char* signature : {"one", "two"}) {
    const auto cache = opener();
    const auto source = cache->open(with_user + "?v=1&X-Amz-Signature=" + signature);
    EXPECT_TRUE(read_all(*source, 1 << 30).text() == content_);
  }
  ASSERT_EQ(files_in(folder(), ".shard").size(), 1U) << "a signature names nothing";
  const std::string file = testing::read_file(files_in(folder(), ".shard")[0]);
  const std::string metadata = file.substr(content_.size());
  for (const char* secret : {"hunter2", "Signature", "v=1"})
    EXPECT_EQ(metadata.find(secret), std::string::npos) << secret;
  EXPECT_NE(detail::cache_key(plain + "?id=1"), detail::cache_key(plain + "?id=2"));
}

TEST_F(Cache, VerifyRemovesWhatIsDamaged) {
  put("b.tar", content_);
  for (const char* name : {"a.tar", "b.tar"}) EXPECT_TRUE(read(*opener(), {}, name) == content_);
  auto entries = list_cache(folder());
  ASSERT_EQ(entries.size(), 2U);
  flip(entries[0].path, 100'000);
  EXPECT_FALSE(verify_cache_entry(entries[0]));
  EXPECT_TRUE(verify_cache_entry(entries[1]));
  entries = list_cache(folder());
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].url, server_->url("b.tar"));
}

TEST_F(Cache, FourOpenersAtOnceReadOnlyTrueBytes) {
  for (const char* name : {"b.tar", "c.tar", "d.tar"}) put(name, content_);
  const std::uint64_t limit = 7'000'000;
  std::vector<std::jthread> threads;
  for (unsigned i = 0; i < 4; ++i)
    threads.emplace_back([&, i] {
      std::minstd_rand random(i + 1);
      for (int epoch = 0; epoch < 5; ++epoch) {
        const auto cache = opener({.max_bytes = limit});
        for (const char* name : {"a.tar", "b.tar", "c.tar", "d.tar"}) {
          const std::uint64_t offset = random() % content_.size();
          EXPECT_TRUE(read(*cache, {.offset = offset}, name) == content_.substr(offset));
          EXPECT_TRUE(read(*cache, {}, name) == content_);
          EXPECT_LE(bytes_at_once(folder()), limit);
        }
      }
    });
}

// What a killed process leaves is used or cleaned by the next.
TEST_F(Cache, FourProcessesKilledAtAnyMomentLeaveOnlyTrueBytes) {
  put("b.tar", content_);
  const std::uint64_t limit = 4'000'000;  // one of the two
  const auto reads_truly = [&](unsigned seed) {
    std::minstd_rand random(seed);
    const auto cache = opener({.max_bytes = limit});
    for (const char* name : {"a.tar", "b.tar"}) {
      const std::uint64_t offset = random() % content_.size();
      if (read(*cache, {.offset = offset}, name) != content_.substr(offset)) return false;
      if (read(*cache, {}, name) != content_) return false;
    }
    return true;
  };
  std::minstd_rand random(11);
  for (int killed = 0; killed < 52; killed += 4) {
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i) {
      const auto seed = static_cast<unsigned>(random());
      const pid_t child = ::fork();
      if (child == 0) {
        const bool good = reads_truly(seed);
        ::_exit(good ? 0 : 1);
      }
      children.push_back(child);
    }
    for (const pid_t child : children) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 30'000));
      ::kill(child, SIGKILL);
      int status = 0;
      ASSERT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_TRUE(WIFSIGNALED(status) || WEXITSTATUS(status) == 0) << "a wrong byte was read";
    }
    EXPECT_LE(bytes_in(folder()), limit);
  }
  EXPECT_TRUE(reads_truly(5));
  EXPECT_TRUE(reads_truly(6));
  prune_cache(folder(), 0);
  EXPECT_EQ(bytes_in(folder()), 0U);
}

TEST_F(Cache, AFullDiskKeepsNothingAndReadingGoesOn) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit most{.rlim_cur = 1'000'000, .rlim_max = 1'000'000};
    ::setrlimit(RLIMIT_FSIZE, &most);
    const bool good = read(*opener()) == content_ && read(*opener()) == content_;
    ::_exit(good && files_in(folder(), ".part").empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(read(*opener()) == content_);
  EXPECT_EQ(files_in(folder(), ".shard").size(), 1U);
}

TEST_F(Cache, AFolderThatMayNotBeMadeIsAWarningAsAFullDiskIs) {
  const std::string log = home_ / "log";
  const CachingOpener opener(std::make_shared<UrlOpener>(),
                             {.folder = "/sys/millrace-cache", .log = Log::to_file(log)});
  EXPECT_TRUE(read(opener) == content_);
  opener.expect_digest("http://h/a.tar", "00");
  EXPECT_NE(testing::read_file(log).find("cache: nothing is kept: /sys/millrace-cache"),
            std::string::npos);
  EXPECT_THROW(CachingOpener(std::make_shared<UrlOpener>(), {.folder = home_ / "none/cache"}),
               Error);
}

TEST_F(Cache, SaysOnceThatAServerTellsNoVersions) {
  const testing::ScriptedHttpServer server([&](const testing::ScriptedRequest& request) {
    return testing::ScriptedReply{testing::http_serve(request, content_)};
  });
  const std::string log = home_ / "log";
  {
    const auto cache = this->opener({.log = Log::to_file(log)});
    for (const char* name : {"/a.tar", "/b.tar"})
      EXPECT_TRUE(read_all(*cache->open(server.url(name)), 1U << 30U).text() == content_);
  }
  EXPECT_TRUE(list_cache(folder()).empty());
  const std::string text = testing::read_file(log);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
  EXPECT_NE(text.find("/a.tar is not kept"), std::string::npos) << text;
}

}  // namespace
}  // namespace millrace::io
