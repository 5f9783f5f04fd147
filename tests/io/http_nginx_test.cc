// HTTP against a real nginx: restarts, connections, TLS, memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <set>
#include <sstream>
#include <thread>

#include "io/base/error.h"
#include "io/detail/http/ca_file.h"
#include "io/opener.h"
#include "tests/support/fake_clock.h"
#include "tests/support/nginx.h"
#include "tests/support/some_bytes.h"
#include "tests/support/temp_dir.h"

namespace millrace::io {
namespace {

using std::chrono::milliseconds;
using testing::Nginx;
using testing::some_bytes;
using testing::TempDir;

TEST(CaFile, IsTheOneNamedElseCurlsElseTheSystems) {
  const TempDir dir;
  const std::string curls = dir / "curls.pem", other = dir / "other.pem";
  const std::array<const char*, 2> places{"/nonexistent/ca.pem", other.c_str()};
  const detail::Environment none = [](const std::string&) { return std::nullopt; };
  const detail::Environment named = [](const std::string& name) {
    return name == "SSL_CERT_FILE" ? std::optional<std::string>("/own.pem") : std::nullopt;
  };
  EXPECT_EQ(detail::find_ca_file(none, curls, places), "");
  testing::write_file(other, "x");
  EXPECT_EQ(detail::find_ca_file(none, curls, places), other);
  EXPECT_EQ(detail::find_ca_file(none, "", places), "");
  testing::write_file(curls, "x");
  EXPECT_EQ(detail::find_ca_file(none, curls, places), "");
  EXPECT_EQ(detail::find_ca_file(named, curls, places), "/own.pem");
}

class HttpNginx : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const auto reason = Nginx::missing()) GTEST_SKIP() << *reason;
  }
  // The connections of the requests in the log.
  static std::set<std::string> connections(const Nginx& nginx) {
    std::set<std::string> found;
    std::istringstream log(nginx.access_log());
    for (std::string line; std::getline(log, line);) {
      std::istringstream words(line);
      std::string method, uri, status, bytes, connection;
      if (words >> method >> uri >> status >> bytes >> connection) found.insert(connection);
    }
    return found;
  }

  TempDir dir_;
};

TEST_F(HttpNginx, ARestartInMidBodyIsNotNoticed) {
  const std::string object = some_bytes(3'000'000);
  testing::write_file(dir_ / "a.tar", object);
  Nginx nginx(dir_.path(), {.location_lines = "limit_rate 2m; limit_rate_after 500k;"});
  const UrlOpener opener({.http = {.buffer_bytes = 100'000}});
  const auto source = opener.open(nginx.url("a.tar"));
  std::vector<std::byte> head(600'000);
  std::size_t got = 0;
  while (got < head.size()) got += source->read(std::span(head).subspan(got));
  nginx.stop();
  std::jthread restarter([&] {
    std::this_thread::sleep_for(milliseconds(1500));
    nginx.start();
  });
  const Bytes rest = read_all(*source, 1 << 24);
  EXPECT_TRUE(rest.text() == std::string_view(object).substr(head.size()));
}

// Into the memory of a reader that waits, or by way of the buffer.
TEST_F(HttpNginx, ReadsOfAnySizesGiveTheBytesInOrder) {
  const std::string object = some_bytes(3'000'000);
  testing::write_file(dir_ / "a.tar", object);
  const Nginx nginx(dir_.path());
  const std::array<std::size_t, 7> sizes{1, 300'000, 17, 70'000, 512, 1 << 20, 4096};
  for (const std::size_t buffer : {std::size_t{65'536}, std::size_t{4} << 20}) {
    const UrlOpener opener({.http = {.buffer_bytes = buffer}});
    const auto source = opener.open(nginx.url("a.tar"));
    std::string all;
    std::string piece;
    for (std::size_t i = 0, got = 1; got > 0; ++i) {
      piece.resize(sizes[i % sizes.size()]);
      got = source->read(std::as_writable_bytes(std::span(piece)));
      all.append(piece, 0, got);
    }
    EXPECT_TRUE(all == object) << "by a buffer of " << buffer << ", " << all.size() << " bytes";
  }
}

TEST_F(HttpNginx, OneConnectionServesOneObjectAfterAnother) {
  for (int i = 0; i < 20; ++i) testing::write_file(dir_ / std::to_string(i), some_bytes(100'000));
  for (const bool tls : {false, true}) {
    const Nginx nginx(dir_.path(), {.tls = tls});
    const UrlOpener opener({.http = {.ca_file = tls ? nginx.ca_file() : ""}});
    for (int i = 0; i < 20; ++i) read_object(opener, nginx.url(std::to_string(i)), 1 << 20);
    EXPECT_EQ(connections(nginx).size(), 1U) << nginx.access_log();
  }
}

// A wide gap needs a new request; a narrow one is received sooner than a new reply would be.
TEST_F(HttpNginx, AWideGapIsSkippedByANewRequest) {
  const std::string object = some_bytes(30'000'000);
  testing::write_file(dir_ / "a", object);
  const Nginx nginx(dir_.path());
  const auto source = UrlOpener().open(nginx.url("a"));
  std::vector<std::byte> buffer(1000);
  ASSERT_GT(source->read(buffer), 0U);
  EXPECT_FALSE(source->skip(1'000'000));
  ASSERT_TRUE(source->skip(20'000'000));
  const std::string start = std::to_string(source->position());
  EXPECT_TRUE(read_all(*source, 1 << 24).text() ==
              std::string_view(object).substr(std::stoul(start)));
  EXPECT_THAT(nginx.access_log(), ::testing::HasSubstr("bytes=" + start + "-"));
}

TEST_F(HttpNginx, ManyReadersAtOnceOverHttp2) {
  const std::string object = some_bytes(2'000'000);
  testing::write_file(dir_ / "a", object);
  const Nginx nginx(dir_.path(), {.tls = true});
  const UrlOpener opener({.http = {.buffer_bytes = 100'000, .ca_file = nginx.ca_file()}});
  std::atomic<int> whole = 0;
  {
    std::vector<std::jthread> readers;
    for (int i = 0; i < 8; ++i) {
      readers.emplace_back([&] {
        if (read_object(opener, nginx.url("a"), 1 << 24).text() == object) ++whole;
      });
    }
  }
  EXPECT_EQ(whole, 8);
}

TEST_F(HttpNginx, ReadersOverHttp2HaveAConnectionEach) {
  const std::string object = some_bytes(3'000'000);
  testing::write_file(dir_ / "a", object);
  const Nginx nginx(dir_.path(), {.tls = true});
  const UrlOpener opener({.http = {.buffer_bytes = 100'000, .ca_file = nginx.ca_file()}});
  std::vector<std::unique_ptr<ByteSource>> sources;
  std::vector<std::byte> begin(1000);
  for (int i = 0; i < 3; ++i) {
    sources.push_back(opener.open(nginx.url("a")));
    ASSERT_GT(sources.back()->read(begin), 0U) << "the others have their bodies in flight";
  }
  for (const auto& source : sources) read_all(*source, 1 << 24);
  EXPECT_THAT(connections(nginx), ::testing::SizeIs(3)) << nginx.access_log();
}

// A connection of TLS takes round trips of its own, which a distant object's first bytes need not
// wait for.
TEST_F(HttpNginx, OverHttp2ADistantObjectBeginsOnAConnectionThatIsThere) {
  for (const char* name : {"a", "b"}) testing::write_file(dir_ / name, some_bytes(100'000));
  const Nginx nginx(dir_.path(), {.tls = true});
  const UrlOpener opener({.http = {.far_round_trip = {}, .ca_file = nginx.ca_file()}});
  for (const char* name : {"a", "b"}) read_object(opener, nginx.url(name), 1 << 20);
  EXPECT_THAT(connections(nginx), ::testing::SizeIs(1)) << nginx.access_log();
  EXPECT_THAT(nginx.access_log(), ::testing::HasSubstr("bytes=0-524287\n")) << "a first part";
}

TEST_F(HttpNginx, AnUnknownCertificateIsRefusedWithoutARetry) {
  testing::write_file(dir_ / "a", "hello");
  const Nginx nginx(dir_.path(), {.tls = true});
  const testing::FakeClock clock;
  EXPECT_THROW(read_object(UrlOpener({.http = {.clock = &clock}}), nginx.url("a"), 100), Error);
  EXPECT_TRUE(clock.sleeps().empty());
}

TEST_F(HttpNginx, AMissingObjectIsNotFoundWithoutARetry) {
  const Nginx nginx(dir_.path());
  const testing::FakeClock clock;
  try {
    read_object(UrlOpener({.http = {.clock = &clock}}), nginx.url("no.tar?X-Signature=secret"),
                100);
    FAIL() << "found";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::kNotFound);
    EXPECT_EQ(error.where().url, nginx.url("no.tar"));
    EXPECT_THAT(error.what(), ::testing::Not(::testing::HasSubstr("secret")));
  }
  EXPECT_TRUE(clock.sleeps().empty());
}

TEST_F(HttpNginx, AFileThatIsReplacedMidwayIsAFault) {
  testing::write_file(dir_ / "a.tar", some_bytes(3'000'000));
  Nginx nginx(dir_.path(), {.location_lines = "limit_rate 2m; limit_rate_after 500k;"});
  const UrlOpener opener({.http = {.buffer_bytes = 100'000}});
  const auto source = opener.open(nginx.url("a.tar"));
  std::vector<std::byte> head(100'000);
  ASSERT_GT(source->read(head), 0U);
  nginx.stop();
  testing::write_file(dir_ / "a.tar", some_bytes(3'000'001));
  nginx.start();
  try {
    read_all(*source, 1 << 24);
    FAIL() << "two versions were mixed";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("changed"));
  }
}

// After opening and dropping 200 sources mid-body, threads and descriptors are as before.
TEST_F(HttpNginx, DroppedSourcesLeaveNothing) {
  testing::write_file(dir_ / "a", some_bytes(1'000'000));
  const Nginx nginx(dir_.path());
  const auto count = [](const char* folder) {
    const std::filesystem::directory_iterator entries(folder);
    return std::distance(begin(entries), end(entries));
  };
  const auto threads = count("/proc/self/task");
  const auto descriptors = count("/proc/self/fd");
  {
    const UrlOpener opener({.http = {.buffer_bytes = 100'000}});
    for (int i = 0; i < 200; ++i) {
      const auto source = opener.open(nginx.url("a"));
      std::byte buffer[1000];
      if (i % 2 == 1) continue;
      ASSERT_GT(source->read(buffer), 0U);
    }
    EXPECT_LE(count("/proc/self/task"), threads + 1) << "one thread for all";
  }
  // One that was joined is listed until the kernel has put it away.
  for (int i = 0; i < 5000 && count("/proc/self/task") > threads; ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  EXPECT_EQ(count("/proc/self/task"), threads);
  EXPECT_EQ(count("/proc/self/fd"), descriptors);
}

}  // namespace
}  // namespace millrace::io
